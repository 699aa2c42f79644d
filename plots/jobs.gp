# jobs.gp - how much jobs that run at once slow each other: mean of the steps (bar), shortest and longest step
# (line). Input: a table row,label,mean_pct,shortest_pct,longest_pct that `maquette whatif` makes of jobs.csv.
# Set by the caller: file, out, fmt, title, rows.
height = 180 + 30 * rows
load common
set title title noenhanced
set xlabel "step time against that alone, % more"
set yrange [rows - 0.4 : -0.6]
set ytics noenhanced
set yzeroaxis lt 1 lc rgb "#444444"
set grid noytics
set key outside bottom center horizontal
set bmargin 6
set offsets graph 0.02, graph 0.05, 0, 0
plot file using (column("mean_pct") / 2):"row":(abs(column("mean_pct")) / 2):(0.3):ytic(stringcolumn("label")) \
	with boxxyerror fs solid 0.85 noborder lc rgb blue title "mean", \
	file using "mean_pct":"row":"shortest_pct":"longest_pct" with xerrorbars pt 7 ps dot lw 1.5 \
	lc rgb orange title "shortest and longest step"
