# heatmap.gp - samples per second over two axes of a study. Input: a table x,y,x_label,y_label,samples_per_s
# that `maquette whatif` makes of whatif.csv; a point without a plan is left out. Set by the caller: file,
# out, fmt, title, x_name, y_name, nx, ny.
load common
set title title noenhanced
set xlabel x_name noenhanced
set ylabel y_name noenhanced
stats file skip 1 using 5 name "rate" nooutput
dark(v) = v > 0.5 * (rate_min + rate_max)
set xrange [-0.5 : nx - 0.5]
set yrange [-0.5 : ny - 0.5]
longest = 0 # names that would meet are turned
stats file skip 1 using (longest = strlen(stringcolumn(3)) > longest ? strlen(stringcolumn(3)) : longest, 0) name "x" nooutput
set xtics rotate by (longest * nx > 60 ? -20 : 0) noenhanced
set ytics noenhanced
unset grid
unset key
set cblabel "samples/s"
set palette defined (0 "#f7fbff", 0.5 "#6baed6", 1 "#08306b")
plot file using "x":"y":(0.5):(0.5):(column("samples_per_s")):xtic(stringcolumn("x_label")):ytic(stringcolumn("y_label")) \
	with boxxyerror fs solid 1 lc palette, \
	file using "x":"y":(sprintf(column("samples_per_s") < 100 ? "%.3g" : "%.0f", column("samples_per_s"))):(dark(column("samples_per_s")) ? 0xffffff : 0x222222) \
	with labels tc rgb variable
