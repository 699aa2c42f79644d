# axis.gp - step time along the one axis of a study. Input: whatif.csv. Set by the caller: file, out, fmt, title, key (the
# axis's column), low_ms (the least time).
load common
set title title noenhanced
set xlabel key noenhanced
per_s = 1e3 * per_ms(low_ms)
set ylabel "step time and its 80 % interval, ".unit_of(low_ms)
set yrange [0 : *]
set offsets 0.5, 0.5, graph 0.1, 0
longest = 0 # names that would meet are turned
names = -1 # but the header's; a line joins numbers, not names
number(word) = strstrt("0123456789.", word[1:1]) > 0 && strstrt("0123456789.", word[strlen(word):]) > 0
stats file using (longest = strlen(stringcolumn(key)) > longest ? strlen(stringcolumn(key)) : longest, \
	names = names + !number(stringcolumn(key)), 0) name "x" nooutput
set xtics noenhanced rotate by (longest * (x_records + x_invalid) > 80 ? -20 : 0)
unset key
set style textbox opaque noborder margins 0.2, 0.2 # a line that crosses a number is behind it
set datafile missing NaN
look = names > 0 ? "points" : "linespoints"
plot file using 0:(per_s * column("step_time_s")):(per_s * column("low_80_s")):(per_s * column("high_80_s")) \
	with yerrorbars lw 2 pt 0 lc rgb "#99b8d8", \
	file using 0:(per_s * column("step_time_s")):xtic(stringcolumn(key)) with @look lw 2 pt 7 ps dot lc rgb blue, \
	file using 0:(per_s * column("step_time_s")):(sprintf("%.4g", per_s * column("step_time_s"))) \
	with labels left boxed offset 0.8, 0.8 font small textcolor rgb "#444444"
