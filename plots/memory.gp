# memory.gp - step time against memory: each feasible plan a point, the best trade-offs joined. Input:
# candidates.csv. Set by the caller: file, out, fmt, engines (best first: ten in colour, the others grey), title, pareto (file of the front),
# low_ms and high_ms (best and worst time worth showing), limit_GB (memory of the device nearest its limit; 0 = not known).
load common
stats pareto skip 1 using 1 name "front" nooutput # before the axes have ranges, which it heeds
set title title noenhanced
set xlabel "memory of the fullest device, GB"
per_s = 1e3 * per_ms(high_ms); low_t = low_ms * per_ms(high_ms); high_t = high_ms * per_ms(high_ms)
set ylabel "step time, ".unit_of(high_ms)
set key outside right top vertical Left reverse
set offsets graph 0.03, graph 0.03, 0, 0
load common[1:strlen(common) - strlen("common.gp")]."ticks.gp"
if (limit_GB > 0) {
	set arrow 1 from first limit_GB, graph 0 to first limit_GB, graph 1 nohead lc rgb red lw 1.5 dt 2
	set label 1 sprintf("device memory %.4g GB", limit_GB) at first limit_GB, graph 1 right rotate by 90 offset -1.2, -0.5 font small textcolor rgb red
	set xrange [0.95e-9 * front_min : 1.03 * limit_GB]
}
plot pareto using (column("peak_memory_B") / 1e9):(per_s * column("step_time_s")) \
	with steps lw 1.5 lc rgb grey title "best trade-off", \
	for [i=11:words(engines)] file \
	using (strcol("engine") eq word(engines, i) && (strcol("verdict") eq "ok" || strcol("verdict") eq "tight") ? column("peak_memory_B") / 1e9 : NaN):(per_s * column("step_time_s")) \
	with points pt 7 ps dot lc rgb pale title (i == 11 ? others : ""), \
	for [i=1:coloured] file \
	using (strcol("engine") eq word(engines, i) && (strcol("verdict") eq "ok" || strcol("verdict") eq "tight") ? column("peak_memory_B") / 1e9 : NaN):(per_s * column("step_time_s")) \
	with points pt 7 ps dot lc rgb color(i - 1) title word(engines, i)
