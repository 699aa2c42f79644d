# memory.gp - step time against memory: each feasible plan a point, the best trade-offs joined. Input:
# candidates.csv. Set by the caller: file, out, fmt, engines (best first: ten in colour, the others grey), title, pareto (file of the front),
# low_ms and high_ms (best and worst time worth showing).
load common
set title title noenhanced
set xlabel "memory of the fullest device, GB"
set ylabel "step time, ms"
set logscale y
set yrange [0.93 * low_ms : 1.1 * high_ms]
set key outside right top vertical Left reverse
set format y "%g"
set offsets graph 0.03, graph 0.03, 0, 0
load common[1:strlen(common) - strlen("common.gp")]."ticks.gp"
plot pareto using (column("peak_memory_B") / 1e9):(1e3 * column("step_time_s")) \
	with fsteps lw 1.5 lc rgb grey title "best trade-off", \
	for [i=11:words(engines)] file \
	using (strcol("engine") eq word(engines, i) && (strcol("verdict") eq "ok" || strcol("verdict") eq "tight") ? column("peak_memory_B") / 1e9 : NaN):(1e3 * column("step_time_s")) \
	with points pt 7 ps dot lc rgb pale title (i == 11 ? others : ""), \
	for [i=1:coloured] file \
	using (strcol("engine") eq word(engines, i) && (strcol("verdict") eq "ok" || strcol("verdict") eq "tight") ? column("peak_memory_B") / 1e9 : NaN):(1e3 * column("step_time_s")) \
	with points pt 7 ps dot lc rgb color(i - 1) title word(engines, i)
