# links.gp - share of the step during which each link is busy, mean and busiest per class above, the busiest
# links below. Input: links.csv. Set by the caller: file, out, fmt, title, rows.
if (rows < 1) rows = 1
height = 160 + 26 * rows
load common
set title title noenhanced
set xlabel "busy share of the step, % of bandwidth"
unset grid
set grid xtics lc rgb "#dddddd" lw 0.7
set border 1
set yrange [rows - 0.4 : -0.6]
set xrange [0 : *]
set offsets 0, graph 0.06, 0, 0
set ytics scale 0 noenhanced
set key bottom right
classes = "nvlink nvswitch pcie pcie-switch socket nic fabric host loopback other"
index_of(s) = words(substr(classes, 1, strstrt(" ".classes." ", " ".s." ")))
set style fill solid 0.9 noborder
plot for [c=1:words(classes)] file \
	using (100 * column("utilisation") / 2):(strcol("class") eq word(classes, c) ? $0 : NaN):(100 * column("utilisation") / 2):(0.36):ytic(1) \
	with boxxyerror lc rgb color(c - 1) notitle, \
	file using (100 * column("utilisation")):0:(sprintf(" %.1f %%", 100 * column("utilisation"))) \
	with labels left font ",10" textcolor rgb "#444444" notitle
