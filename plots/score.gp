# score.gp - predictions against measurements, a point per row, a colour per table: as they are, and their
# ratio; dashed: 10 % off. Input: score_points.csv (series,measured,predicted), written by `maquette plot`.
# Set by the caller: file, out, fmt, title, series (how many), names (quoted words), low and high (least and
# largest value), unit.
width = 1200
rows = ceil((series + 2) / 3.0)
height = 530 + 22 * rows
load common
low = low / 1.25; high = high * 1.25
foot = (24 + 22.0 * rows) / height
set multiplot title title noenhanced
set logscale xy
set format x "%g"; set format y "%g"
set xrange [low : high]
set xlabel "measured, ".unit
set bmargin screen foot + 50.0 / height
set tmargin screen 1 - 50.0 / height
set lmargin screen 0.08; set rmargin screen 0.47
set ylabel "predicted, ".unit
set yrange [low : high]
set key at screen 0.53, 0.01 center bottom maxrows rows Left reverse samplen 1 width -2
plot x with lines lw 1 lc rgb grey title "exact", \
	x * 1.1 with lines lw 0.7 dt 2 lc rgb grey title "10 % off", \
	x / 1.1 with lines lw 0.7 dt 2 lc rgb grey notitle, \
	for [i=0:series-1] file using (column("series") == i ? column("measured") : NaN):(column("predicted")) \
	with points pt 6 + (i % 4) * 2 ps 0.7 * dot lc rgb color(i) title word(names, i + 1)
set lmargin screen 0.57; set rmargin screen 0.98
set ylabel "predicted / measured"
set yrange [0.4 : 2.5]
set ytics (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5)
unset key
# What is farther off lies on the edge.
inside(r) = r < 0.4 ? 0.4 : r > 2.5 ? 2.5 : r
plot 1 with lines lw 1 lc rgb grey, 1.1 with lines lw 0.7 dt 2 lc rgb grey, 1 / 1.1 with lines lw 0.7 dt 2 lc rgb grey, \
	for [i=0:series-1] file using (column("series") == i ? column("measured") : NaN):(inside(column("predicted") / column("measured"))) \
	with points pt 6 + (i % 4) * 2 ps 0.7 * dot lc rgb color(i)
unset multiplot
