# convergence.gp - best step time that each engine has found after n plans. Input: candidates.csv.
# Set by the caller: file, out, fmt, engines (names divided by blanks), title,
# low_ms and high_ms (best and worst time worth showing).
load common
set title title noenhanced
set xlabel "plans tried by the engine"
set ylabel "best step time so far, ms"
set key top right
set logscale x
set xrange [1:*] noextend
set logscale y
set format y "%g"
set yrange [0.93 * low_ms : 1.1 * high_ms]
set datafile missing NaN # rows of other engines lie between: they must not break the line
set ytics () # the best time and round multiples of it
do for [m in "1 1.2 1.5 2 3 5 10"] { set ytics add (sprintf(low_ms < 100 ? "%.3g" : "%.0f", low_ms * m) low_ms * m) }
# The colours come again after twelve engines, then dashed.
plot for [i=1:words(engines)] file \
	using (strcol("engine") eq word(engines, i) ? column("index") + 1 : NaN):(1e3 * column("best_step_time_s")) \
	with steps lw 2 lc rgb color(i - 1) dashtype 1 + (i - 1) / 12 title word(engines, i), \
	for [i=1:words(engines)] file \
	using (strcol("engine") eq word(engines, i) && column("step_time_s") == column("best_step_time_s") ? column("index") + 1 : NaN):(1e3 * column("best_step_time_s")) \
	with points pt 7 ps dot lc rgb color(i - 1) notitle
