# strong_scaling.gp - sequences per second and GPU against the number of GPUs, a colour per series: points measured, lines
# predicted. Input: scaling.csv of results/mlperf-scaling. Set by the caller: file, out, fmt, common.
load common
set xlabel "GPUs"
set ylabel "sequences per second and GPU"
set logscale xy 2
set format y "%.3g"
set key outside below maxrows 4
names = system("awk -F, 'NR > 1 && !seen[$1]++ { gsub(\" \", \"_\", $1); print $1 }' ".file)
name(i) = system(sprintf("printf %%s '%s' | tr _ ' '", word(names, i)))
plot for [i=1:words(names)] file using (strcol("series") eq name(i) ? column("gpus") : NaN):(column("predicted_per_gpu")) \
	smooth unique with lines lw 2 lc rgb color(i - 1) title name(i).", predicted", \
	for [i=1:words(names)] file using (strcol("series") eq name(i) ? column("gpus") : NaN):(column("measured_per_gpu")) \
	with points pt 7 ps 1.6 * dot lc rgb color(i - 1) title name(i).", measured"
