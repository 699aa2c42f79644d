# convergence.gp - best step time that each engine has found after n plans. Input: candidates.csv.
# Set by the caller: file, out, fmt, engines (names divided by blanks), title.
load common
set title title noenhanced
set xlabel "plans tried by the engine"
set ylabel "best step time so far, ms"
set key top right
set logscale x
set yrange [*:*]
set offsets 0, 0, graph 0.04, graph 0.04
plot for [i=1:words(engines)] file \
	using (strcol("engine") eq word(engines, i) ? column("index") + 1 : NaN):(1e3 * column("best_step_time_s")) \
	with steps lw 2 lc rgb color(i - 1) title word(engines, i), \
	for [i=1:words(engines)] file \
	using (strcol("engine") eq word(engines, i) ? column("index") + 1 : NaN):(1e3 * column("best_step_time_s")) \
	every ::0::0 with points pt 7 ps 0.5 lc rgb color(i - 1) notitle
