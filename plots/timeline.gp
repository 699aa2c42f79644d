# timeline.gp - what every device does when: one band per device, compute above, communication below.
# Input: a table row,lane,start_ms,finish_ms,class that `maquette plot` makes of timeline.csv.
# Set by the caller: file, out, fmt, title, rows, names (device names divided by blanks), last_ms, classes
# (those that occur).
height = 150 + 46 * rows
if (height < 300) height = 300
width = 1100
load common
set title title noenhanced
per = per_ms(last_ms)
set xlabel "time in the step, ".unit_of(last_ms)
unset grid
set grid xtics lc rgb "#e4e4e4" lw 0.7
set border 1
set xrange [0 : per * last_ms]
set yrange [rows - 0.5 : -0.5]
set ytics () scale 0 noenhanced
set for [i=1:words(names)] ytics add (word(names, i) i - 1)
set key outside bottom center horizontal samplen 1.5 maxrows 1
set bmargin 6
set style fill solid 1.0 noborder
labels = "forward backward recompute update in-layer gradients stage-to-stage copy"
shades = "5682409 29362 13400487 40563 15113984 13983232 9211020 15787074"
low(lane) = lane == 0 ? -0.40 : lane == 1 ? 0.14 : 0.29
high(lane) = lane == 0 ? 0.10 : lane == 1 ? 0.27 : 0.42
plot for [i=1:words(classes)] file \
	using (column("class") == int(word(classes, i)) ? per * column("start_ms") : NaN):(column("row")):(per * column("start_ms")):(per * column("finish_ms")):(column("row") + low(column("lane"))):(column("row") + high(column("lane"))) \
	with boxxyerror lc rgb int(word(shades, int(word(classes, i)) + 1)) title word(labels, int(word(classes, i)) + 1)
