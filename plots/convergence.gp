# convergence.gp - best step time that each engine has found after n plans. Input: candidates.csv.
# Set by the caller: file, out, fmt, engines (best first: ten in colour, the others grey), title,
# low_ms and high_ms (best and worst time worth showing).
load common
set title title noenhanced
set xlabel "plans tried by the engine"
per_s = 1e3 * per_ms(high_ms); low_t = low_ms * per_ms(high_ms); high_t = high_ms * per_ms(high_ms)
set ylabel "best step time so far, ".unit_of(high_ms)
set key top right
set logscale x
set xrange [1:*] noextend
set datafile missing NaN # rows of other engines lie between: they must not break the line
load common[1:strlen(common) - strlen("common.gp")]."ticks.gp"
plot for [i=11:words(engines)] file \
	using (strcol("engine") eq word(engines, i) ? column("index") + 1 : NaN):(per_s * column("best_step_time_s")) \
	with steps lw 1 lc rgb pale title (i == 11 ? others : ""), \
	for [i=1:coloured] file \
	using (strcol("engine") eq word(engines, i) ? column("index") + 1 : NaN):(per_s * column("best_step_time_s")) \
	with steps lw 2 lc rgb color(i - 1) title word(engines, i), \
	for [i=1:coloured] file \
	using (strcol("engine") eq word(engines, i) && column("step_time_s") == column("best_step_time_s") ? column("index") + 1 : NaN):(per_s * column("best_step_time_s")) \
	with points pt 7 ps dot lc rgb color(i - 1) notitle
