# ticks.gp - round numbers on a logarithmic vertical axis from low_t to high_t: steps of 1, 2 or 5 times a power of
# ten where the axis spans less than a factor of five, else 1, 2, 3, 5 and 7 of every power of ten between.
set logscale y
set format y "%g"
set yrange [0.93 * low_t : 1.1 * high_t]
set ytics ()
step_t = (1.1 * high_t - 0.93 * low_t) / 6.0
power_t = 10 ** floor(log10(step_t))
step_t = power_t * (step_t / power_t < 1.5 ? 1 : step_t / power_t < 3.5 ? 2 : step_t / power_t < 7.5 ? 5 : 10)
if (high_t < 5 * low_t) {
	do for [i=ceil(0.93 * low_t / step_t):floor(1.1 * high_t / step_t)] { set ytics add (sprintf("%g", i * step_t) i * step_t) }
} else {
	do for [k=floor(log10(low_t)) - 1:ceil(log10(high_t))] {
		do for [m in "1 2 3 5 7"] {
			tick_t = m * 10.0 ** k
			if (tick_t >= 0.93 * low_t && tick_t <= 1.1 * high_t) { set ytics add (sprintf("%g", tick_t) tick_t) }
		}
	}
}
