. "$ROOT/tests/cli/lib.sh.inc"
# What theory says of answers. Break-even: a plan over the network takes a + b / f at f times its bandwidth, one
# inside a machine always c, so they tie at b / (c - a). Sensitivities: finite differences of independent runs.
# Without contention nothing gets slower on better hardware, exactly; costs are prices times time.
small="gpt:layers=4,hidden=512,heads=8,vocab=512"
ask=(-m "$small" --batch 16 -p p.xml)
"$M" platform generate gpu=A100-80GB nodes=2 gpus=4 nic_GBps=1 price_per_h=2 power_W=400 -o p.xml >/dev/null
step() { # PLAN OPTIONS...: its step time
	rm -rf one; "$M" simulate "${ask[@]}" -P "$@" -o one >/dev/null || echo "does not run: $*" >&2
	sed -n 2p one/summary.csv | cut -d, -f1; }
"$M" search "${ask[@]}" -e expert --evals 20 --fix dp=8 -o wide >/dev/null
"$M" search "${ask[@]}" -e data-parallel --evals 3 --devices 0-3 -o near >/dev/null
cat >tie.ini <<INI
model = $small
batch = 16
platform = p.xml
plan = wide/plan-1.json
epoch = 1e6
sensitivity = 0.05
breakeven.target = link.nic.bw
breakeven.plan_a = wide/plan-1.json
breakeven.plan_b = near/plan-1.json
INI
"$M" whatif tie.ini -o tie | grep break-even | sed 's/below .* times/below F times/'
awk -v t1="$(step wide/plan-1.json)" -v t2="$(step wide/plan-1.json --change link.nic.bw=2)" -v c="$(step near/plan-1.json)" \
	-v t4="$(step wide/plan-1.json --change link.nic.bw=4)" -v got="$(awk -F, 'NR == 2 { print $3 }' tie/breakeven.csv)" 'BEGIN {
	b = 2 * (t1 - t2); a = t1 - b; want = b / (c - a)
	if (t4 - (a + b / 4) > 1e-9 || (a + b / 4) - t4 > 1e-9) print "not a + b / f: " t1, t2, t4
	if (!(got / want - 1 < 1e-6 && 1 - got / want < 1e-6)) print "ties at " got ", closed form " want }'
# Every row of the sensitivities, as runs of their own.
base=$(step wide/plan-1.json); rows=0
while IFS=, read -r _ target factor time elasticity _; do
	case $target in target|batch) continue ;; esac
	awk -v r="$(step wide/plan-1.json --change "$target=$factor")" -v t="$time" -v e="$elasticity" -v b="$base" -v f="$factor" -v n="$target" 'BEGIN {
		d = (r / b - 1) / (f - 1) - e; if (r != t || d > 1e-6 || d < -1e-6) print n, f, "differs:", r, t, d }'
	rows=$((rows + 1))
done <tie/sensitivity.csv
[ $rows -ge 10 ] || echo "only $rows sensitivities"
# 8 devices at $2 and 400 W.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { while (match($0, /"[^"]*"/)) $0 = substr($0, 1, RSTART - 1) "x" substr($0, RSTART + RLENGTH)
	t = $c["step_time_s"]; n = split("usd_per_step kWh_per_step epoch_s usd_per_epoch kWh_per_epoch usd_per_Mtoken", name, " ")
	want[1] = t * 16 / 3600; want[2] = t * 3.2 / 3600; want[3] = t * 1e6 / 16; want[4] = want[1] * 1e6 / 16; want[5] = want[2] * 1e6 / 16
	want[6] = want[1] / 16 / 2048 * 1e6
	for (i = 1; i <= n; i++) { r = $c[name[i]] / want[i]; if (r > 1 + 1e-8 || r < 1 - 1e-8) print name[i], $c[name[i]], want[i] } }' tie/whatif.csv
# Monotone: better never slower, worse never faster, for plans of every kind.
"$M" search "${ask[@]}" -e hybrid --evals 6 --top 2 --fix pp=2 -o pipe >/dev/null
"$M" search "${ask[@]}" -e expert --evals 6 --top 1 --fix tp=4 -o split >/dev/null
for plan in wide/plan-1.json pipe/plan-1.json pipe/plan-2.json split/plan-1.json; do
	for target in link.nic.bw link.nvswitch.bw link.all.latency device.all.flops device.all.mem_bw rank.1.clock; do
		for f in 0.5 1 1.2 4; do echo "$f $(step $plan --executor analytic --change "$target=$f")"; done |
			awk -v up="${target##*.latency}" -v what="$plan $target" 'NR > 1 && (up ? $2 > last : $2 < last) { print what, "not monotone:", last, "then", $2, "at", $1 } { last = $2 }'
	done
done
finish
