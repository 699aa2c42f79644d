# tornado.gp - what the step time depends on: change of the step time when one thing is changed, largest
# first. Input: a table row,target,down_pct,up_pct that `maquette whatif` makes of sensitivity.csv. Set by
# the caller: file, out, fmt, title, rows, step (relative change, %).
height = 180 + 34 * rows
load common
set title title noenhanced
set xlabel "change of the step time, %"
set yrange [rows - 0.4 : -0.6]
set ytics noenhanced
set yzeroaxis lt 1 lc rgb "#444444"
set grid noytics
set key outside bottom center horizontal
set bmargin 6
plot file using (column("down_pct") / 2):"row":(abs(column("down_pct")) / 2):(0.35):ytic(stringcolumn("target")) \
	with boxxyerror fs solid 0.85 noborder lc rgb orange title sprintf("%g %% less", step), \
	file using (column("up_pct") / 2):"row":(abs(column("up_pct")) / 2):(0.35) \
	with boxxyerror fs solid 0.85 noborder lc rgb blue title sprintf("%g %% more", step)
