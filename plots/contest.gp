# contest.gp - engines at equal budgets: geometric mean over all questions of (best step time so far / best
# of all engines), over plans tried and, where it was measured, over seconds. Input: curve.csv and
# seconds.csv of results/contest. Set by the caller: dir, out, fmt, engines (names divided by blanks),
# seconds (1 = there is a seconds.csv).
width = 1100
height = 1000
load "plots/common.gp"
set multiplot layout (seconds ? 2 : 1),1
set logscale xy
set format y "%g"
set yrange [0.95:10.5]
set ytics (1, 1.1, 1.2, 1.5, 2, 3, 5, 10)
set key outside right top
set ylabel "step time / best of all (geometric mean)"
set xlabel "plans tried by the engine"
plot for [i=1:words(engines)] dir."/curve.csv" \
	using (strcol("engine") eq word(engines, i) ? column("evals") : NaN):(column("mean_ratio")) \
	with linespoints pt (i <= 12 ? 7 : i <= 24 ? 5 : 9) ps 0.8*dot lw 1.5 lc rgb color(i - 1) title word(engines, i)
if (seconds) {
	set xlabel "seconds"
	plot for [i=1:words(engines)] dir."/seconds.csv" \
		using (strcol("engine") eq word(engines, i) ? column("seconds") : NaN):(column("mean_ratio")) \
		with linespoints pt (i <= 12 ? 7 : i <= 24 ? 5 : 9) ps 0.8*dot lw 1.5 lc rgb color(i - 1) \
		title word(engines, i)
}
unset multiplot
