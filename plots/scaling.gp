# scaling.gp - efficiency against the number of devices, a line per series, later ones thinner: equal curves
# stay visible. Input: scaling.csv. Set by the
# caller: file, out, fmt, title, n, name (an array of so many series), limit (efficiency asked for).
load common
set title title noenhanced
set xlabel "devices"
set ylabel "efficiency per device, %"
set logscale x 2
stats file skip 1 using 6 name "eff" nooutput
low = 100 * ((eff_min < limit ? eff_min : limit) - 0.1) # the curve, not the emptiness below it
set yrange [(low > 0 ? low : 0):*]
set datafile missing NaN # so that lines run on from point to point
set key bottom left noenhanced
plot for [i=1:n] file using (strcol("series") eq name[i] ? column("devices") : NaN):(100 * column("efficiency")) \
	smooth unique with linespoints lw 1.5 * (n - i) + 2 pt 7 ps dot * (1 + 0.5 * (n - i)) lc rgb color(i - 1) title name[i], \
	100 * limit with lines lw 1 dt 2 lc rgb grey title sprintf("%.0f %%", 100 * limit)
