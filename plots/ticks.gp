# ticks.gp - round numbers on a logarithmic vertical axis from low_ms to high_ms: steps of 1, 2 or 5 times a power of
# ten where the axis spans less than a factor of five, else 1, 2 and 5 of every power of ten between.
set ytics ()
step_ms = high_ms - low_ms > 0 ? (high_ms - low_ms) / 5.0 : low_ms / 5.0
power_ms = 10 ** floor(log10(step_ms))
step_ms = power_ms * (step_ms / power_ms < 1.5 ? 1 : step_ms / power_ms < 3.5 ? 2 : step_ms / power_ms < 7.5 ? 5 : 10)
if (high_ms < 5 * low_ms) {
	do for [i=ceil(0.93 * low_ms / step_ms):floor(1.1 * high_ms / step_ms)] { set ytics add (sprintf("%g", i * step_ms) i * step_ms) }
} else {
	do for [k=floor(log10(low_ms)) - 1:ceil(log10(high_ms))] {
		do for [m in "1 2 5"] {
			tick_ms = m * 10.0 ** k
			if (tick_ms >= 0.93 * low_ms && tick_ms <= 1.1 * high_ms) { set ytics add (sprintf("%g", tick_ms) tick_ms) }
		}
	}
}
