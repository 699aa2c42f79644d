# study_pareto.gp - time against cost of a study's points; the front joined. Few points are named, of many the front's, and
# in the key: beside them the names of near points would cover each other. Input: pareto.csv. Set by the caller: file, out, fmt, title.
height = 640
load common
set title title noenhanced
set xlabel "cost of 1000 samples, $"
set ylabel "time of 1000 samples, s"
set datafile missing NaN
stats file skip 1 using 3 name "usd" nooutput
stats file skip 1 using 2 name "time" nooutput
few = usd_records <= 8
short(s) = strstrt(s, "platform.") ? s[1:strstrt(s, "platform.") - 1].short(s[strstrt(s, "platform.") + 9:*]) : s
array name[8]
array row[8]
named = 0
take(i, s) = (named = named + 1, row[named] = i, name[named] = short(s), 0)
stats file skip 1 using (named < 8 && (few || $4 == 1) ? take(int($0), stringcolumn(5)) : 0) name "names" nooutput
set xrange [0.95 * usd_min : 1.05 * usd_max] # points that are all equal would give an empty range
low_t = time_min; high_t = time_max
load common[1:strlen(common) - strlen("common.gp")]."ticks.gp"
set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05
set key outside top center vertical Left reverse maxrows 5 # inside it would hide a point
shape(i) = int(word("6 4 8 10 12 14 3 1", i)) # open ones: two at the same place are seen
plot file using "ksample_usd":"ksample_time_s" with points pt 7 ps (few ? .5 : 1) * dot lc rgb grey title few ? "" : "points", \
	file using (column("on_front") == 1 ? column("ksample_usd") : NaN):"ksample_time_s" \
	smooth unique with linespoints pt 7 ps 0.8*dot lw 2 lc rgb red title "no other is faster and cheaper", \
	for [i=1:named] file using (int($0) == row[i] ? column("ksample_usd") : NaN):"ksample_time_s" \
	with points pt shape(i) ps 2*dot lw 1.5 lc rgb color(i) title name[i]
