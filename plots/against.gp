# against.gp - where a real step goes beside where the predicted one does, in ms, class by class. Input: against.csv of
# `maquette validate --against`. Set by the caller: file, out, fmt, title, rows.
if (rows < 1) rows = 1
height = 190 + 44 * rows
load common
set title title noenhanced
stats file skip 1 using 2 name "said" nooutput
stats file skip 1 using 3 name "seen" nooutput
most_ms = 1e3 * (said_max > seen_max ? said_max : seen_max)
per_s = 1e3 * per_ms(most_ms)
set xlabel "time in a step, ".unit_of(most_ms)
unset grid
set grid xtics lc rgb "#dddddd" lw 0.7
set border 1
set yrange [rows - 0.4 : -0.6]
set xrange [0 : *]
set offsets 0, graph 0.1, 0, 0
set ytics scale 0 noenhanced
set key outside bottom center horizontal
set bmargin 6
set style fill solid 0.9 noborder
plot file using (per_s / 2 * column("predicted_s")):0:(0):(per_s * column("predicted_s")):($0 - 0.36):($0 - 0.02):ytic(stringcolumn("class")) \
	with boxxyerror lc rgb color(0) title "predicted", \
	file using (per_s / 2 * column("measured_s")):0:(0):(per_s * column("measured_s")):($0 + 0.02):($0 + 0.36) \
	with boxxyerror lc rgb color(1) title "measured", \
	file using (per_s * column("predicted_s")):($0 - 0.19):(sprintf("  %.2f", per_s * column("predicted_s"))) \
	with labels left font small textcolor rgb "#444444" notitle, \
	file using (per_s * column("measured_s")):($0 + 0.19):(sprintf("  %.2f", per_s * column("measured_s"))) \
	with labels left font small textcolor rgb "#444444" notitle
