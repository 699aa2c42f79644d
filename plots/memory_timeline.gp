# memory_timeline.gp - what one device holds over a step, by purpose, its peak marked and the device's memory drawn.
# Input: memory_timeline.csv. Set by the caller: file, out, fmt, title, events (last one), peak (event), peak_GB and
# limit_GB; peak_top and top_GB: its height, and that of all.
height = 480
load common
set title title noenhanced
set xlabel "tensors made and freed in a step"
set ylabel "memory, GB"
set xrange [0 : events > 0 ? events : 1]
set yrange [0 : 1.1 * (limit_GB > top_GB ? limit_GB : top_GB)]
set key outside bottom center horizontal
set bmargin 8
set style fill solid 0.85 noborder
GB(n) = (column("reserve_B") + (n > 0 ? column("parameter_B") : 0) + (n > 1 ? column("gradient_B") : 0) + \
	(n > 2 ? column("optimizer_B") : 0) + (n > 3 ? column("buffer_B") : 0) + (n > 4 ? column("activation_B") : 0)) / 1e9
set arrow 1 from first 0, first limit_GB to graph 1, first limit_GB nohead lc rgb red lw 1.5 dt 2
set label 1 sprintf("device memory %.4g GB", limit_GB) at graph 0.01, first limit_GB offset 0, 0.6 font small textcolor rgb red
set label 2 sprintf("peak %.4g GB: %.4g allocated", peak_top, peak_GB) at first peak, first peak_top center offset 0, 0.8 font small point pt 7 ps dot
plot file using (column("event")):((column("reserved_B") + column("reserve_B")) / 1e9) with filledcurves x1 lc rgb pale title "cached by the allocator", \
	file using (column("event")):(GB(5)) with filledcurves x1 lc rgb color(1) title "activations", \
	file using (column("event")):(GB(4)) with filledcurves x1 lc rgb color(5) title "buffers", \
	file using (column("event")):(GB(3)) with filledcurves x1 lc rgb color(2) title "optimizer", \
	file using (column("event")):(GB(2)) with filledcurves x1 lc rgb color(4) title "gradients", \
	file using (column("event")):(GB(1)) with filledcurves x1 lc rgb color(0) title "parameters", \
	file using (column("event")):(GB(0)) with filledcurves x1 lc rgb grey title "context, libraries"
