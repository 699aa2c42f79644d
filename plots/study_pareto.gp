# study_pareto.gp - time against cost of a study's points; the front joined, few points named. Input: pareto.csv. Set by the
# caller: file, out, fmt, title.
load common
set title title noenhanced
set xlabel "cost of 1000 samples, $"
set ylabel "time of 1000 samples, s"
set datafile missing NaN
stats file skip 1 using 3 name "usd" nooutput
stats file skip 1 using 2 name "time" nooutput
named = usd_records <= 8
room = named ? 0.2 * (usd_max - usd_min) : 0 # for names
set xrange [0.95 * usd_min - room : 1.05 * usd_max + room] # points that are all equal would give an empty range
low_t = time_min; high_t = time_max
load common[1:strlen(common) - strlen("common.gp")]."ticks.gp"
short(s) = strstrt(s, "platform.") ? s[1:strstrt(s, "platform.") - 1].short(s[strstrt(s, "platform.") + 9:*]) : s
set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05
set key outside top center horizontal # inside it would hide the dearest or slowest point and its name
plot file using "ksample_usd":"ksample_time_s" with points pt 7 ps dot lc rgb grey title "points", \
	file using "ksample_usd":"ksample_time_s":(named ? short(stringcolumn("label")) : "") with labels offset 0,0.9 noenhanced notitle, \
	file using (column("on_front") == 1 ? column("ksample_usd") : NaN):"ksample_time_s" \
	smooth unique with linespoints lw 2 pt 7 ps 1.3*dot lc rgb red title "no other is faster and cheaper"
