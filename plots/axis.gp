# axis.gp - step time along the one axis of a study. Input: whatif.csv. Set by the caller: file, out, fmt, title, key (the
# axis's column), low_ms (the least time).
load common
set title title noenhanced
set xlabel key noenhanced
per_s = 1e3 * per_ms(low_ms)
set ylabel "step time, ".unit_of(low_ms)
set yrange [0 : *]
set offsets 0.5, 0.5, graph 0.1, 0
longest = 0 # names that would meet are turned
stats file using (longest = strlen(stringcolumn(key)) > longest ? strlen(stringcolumn(key)) : longest, 0) name "x" nooutput
set xtics noenhanced rotate by (longest * (x_records + x_invalid) > 80 ? -20 : 0)
unset key
set style textbox opaque noborder margins 0.2, 0.2 # a line that crosses a number is behind it
set datafile missing NaN
plot file using 0:(per_s * column("step_time_s")):xtic(stringcolumn(key)) with linespoints lw 2 pt 7 ps dot lc rgb blue, \
	file using 0:(per_s * column("step_time_s")):(sprintf("%.4g", per_s * column("step_time_s"))) \
	with labels boxed offset 0, 0.9 font small textcolor rgb "#444444"
