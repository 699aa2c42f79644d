# validate.gp - predicted step time against measured, a point per plan, with both 95 % intervals; dashed:
# 8 % off. Input: plans.csv of `maquette validate`. Set by the caller: file, out, fmt, title.
load common
stats file skip 1 using 4 name "said" nooutput
stats file skip 1 using 7 name "seen" nooutput
low_ms = 1e3 * (said_min < seen_min ? said_min : seen_min)
high_ms = 1e3 * (said_max > seen_max ? said_max : seen_max)
set title title noenhanced
per_s = 1e3 * per_ms(high_ms)
set xlabel "measured step time, ".unit_of(high_ms)
set ylabel "predicted step time, ".unit_of(high_ms)
set logscale xy
set format x "%g"; set format y "%g"
set xrange [low_ms / 1.15 * per_ms(high_ms) : high_ms * 1.15 * per_ms(high_ms)]
set yrange [low_ms / 1.15 * per_ms(high_ms) : high_ms * 1.15 * per_ms(high_ms)]
set size ratio 1
set key top left Left reverse
plot x with lines lw 1 lc rgb grey title "exact", \
	x * 1.08 with lines lw 0.7 dt 2 lc rgb grey title "8 % off", \
	x / 1.08 with lines lw 0.7 dt 2 lc rgb grey notitle, \
	file using (per_s * column("measured_s")):(per_s * column("predicted_s")):(per_s * column("ci_low_s")):(per_s * column("ci_high_s")):(per_s * column("predicted_low_s")):(per_s * column("predicted_high_s")) \
	with xyerrorbars pt 7 ps dot lc rgb blue title "plan"
