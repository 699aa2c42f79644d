# validate.gp - predicted step time against measured, a point per plan, with both 95 % intervals; dashed:
# 8 % off. Input: plans.csv of `maquette validate`. Set by the caller: file, out, fmt, title, low_ms and
# high_ms (least and largest time).
load common
set title title noenhanced
set xlabel "measured step time, ms"
set ylabel "predicted step time, ms"
set logscale xy
set format x "%g"; set format y "%g"
set xrange [low_ms / 1.15 : high_ms * 1.15]
set yrange [low_ms / 1.15 : high_ms * 1.15]
set size ratio 1
set key top left Left reverse
plot x with lines lw 1 lc rgb grey title "exact", \
	x * 1.08 with lines lw 0.7 dt 2 lc rgb grey title "8 % off", \
	x / 1.08 with lines lw 0.7 dt 2 lc rgb grey notitle, \
	file using (1e3 * column("measured_s")):(1e3 * column("predicted_s")):(1e3 * column("ci_low_s")):(1e3 * column("ci_high_s")):(1e3 * column("predicted_low_s")):(1e3 * column("predicted_high_s")) \
	with xyerrorbars pt 7 ps dot lc rgb blue title "plan"
