# links.gp - how much of its bandwidth each of the busiest links uses over the step. Input: the busiest rows
# of links.csv. Set by the caller: file, out, fmt, title, rows, names and classes (divided by blanks).
if (rows < 1) rows = 1
height = 190 + 26 * rows
load common
set title title noenhanced
set xlabel "bytes carried in the step, % of what the link could carry"
unset grid
set grid xtics lc rgb "#dddddd" lw 0.7
set border 1
set yrange [rows - 0.4 : -0.6]
set xrange [0 : *]
set offsets 0, graph 0.06, 0, 0
set ytics () scale 0 noenhanced
set for [i=1:words(names)] ytics add (word(names, i) i - 1)
set key outside bottom center horizontal samplen 2 width 1
set bmargin 6
set style fill solid 0.9 noborder
plot for [c=1:words(classes)] file \
	using (strcol("class") eq word(classes, c) ? 50 * column("utilisation") : NaN):0:(0):(100 * column("utilisation")):($0 - 0.36):($0 + 0.36) \
	with boxxyerror lc rgb color(c - 1) title word(classes, c), \
	file using (100 * column("utilisation")):0:(sprintf("  %.1f %%", 100 * column("utilisation"))) \
	with labels left font small textcolor rgb "#444444" notitle
