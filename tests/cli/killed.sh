. "$ROOT/tests/cli/lib.sh.inc"
# The kernel may kill any process of a simulation when memory is short: one death changes no byte, many are an
# exit code of their own, and what was not answered is asked anew.
args=(-m gpt:layers=24,hidden=1024,heads=16 --batch 2048 -p cloud_v100_t4 -e hybrid --evals 16 --seed 7 -j 1)
children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
# simulators PROCESS worker|server|servers: workers, the server that has some, or any server.
simulators() {
	local server
	for server in $(children "$1"); do
		case $2 in
		worker) children $server ;;
		server) [ -z "$(children $server)" ] || echo $server ;;
		servers) echo $server ;;
		esac
	done
}
# strike PROCESS VICTIM once|always: kills what simulates, until the process ends or has written its table.
strike() {
	local n=0 victim
	while kill -0 "$1" 2>/dev/null && [ ! -f part/whatif.csv ]; do
		for victim in $(simulators "$1" "$2"); do kill -9 "$victim" 2>/dev/null && n=$((n + 1)); done
		[ $n -eq 0 ] || [ "$3" = always ] || return
		[ "$3" = always ] || sleep 0.01
	done
}
struck() { # victim how-often expected-exit-code arguments...
	local victim=$1 often=$2 want=$3 rc; shift 3
	"$M" "$@" >said.txt 2>&1 & local pid=$!
	strike $pid $victim $often
	wait $pid; rc=$?
	[ $rc -eq "$want" ] || { echo "$1, $victim killed $often: exit code $rc, expected $want: $(tail -n 1 said.txt)"; bad=1; }
}
"$M" search "${args[@]}" -o whole >whole.txt || echo "search fails"
for victim in worker server; do
	rm -rf part
	struck $victim once 0 search "${args[@]}" -o part
	cmp whole/candidates.csv part/candidates.csv && cmp whole/evaluations.csv part/evaluations.csv || bad=1
	cmp whole.txt said.txt || bad=1
done
rm -rf part
struck worker always 4 search "${args[@]}" -o part
grep -q 'plans have no result: their simulator died twice' said.txt || { echo "does not say: $(tail -n 1 said.txt)"; bad=1; }
! grep -q ',crash,' part/evaluations.csv || { echo "a crash is kept"; bad=1; }
"$M" search "${args[@]}" -o part >again.txt || echo "is not tried anew"
cmp whole/candidates.csv part/candidates.csv || bad=1

cat >s.ini <<INI
model = gpt:layers=24,hidden=1024,heads=16
batch = 32, 64
platform = cloud_v100_t4
engine = hybrid
evals = 6
INI
"$M" whatif s.ini -o whole -j 1 >/dev/null || echo "whatif fails"
for victim in worker server; do
	rm -rf part
	struck $victim once 0 whatif s.ini -o part -j 1
	cmp whole/whatif.csv part/whatif.csv || bad=1
done
rm -rf part
struck servers always 4 whatif s.ini -o part -j 1
! grep -q refused part/whatif.csv || { echo "a killed server is a refusal"; bad=1; }
[ "$(cut -d, -f3 part/whatif.csv | grep -c crash)" -eq 2 ] || { echo "no crash in: $(cat part/whatif.csv)"; bad=1; }
"$M" whatif s.ini -o part -j 1 >/dev/null || echo "points are not done anew"
cmp whole/whatif.csv part/whatif.csv || bad=1

# A study's processes go with it, however many points are left.
sed 's/^batch.*/batch = 8, 16, 24, 32, 40, 48, 56, 64, 72, 80/' s.ini >long.ini
setsid "$M" whatif long.ini -o long -j 3 >/dev/null 2>&1 & study=$!
for i in $(seq 100); do [ "$(pgrep -c -s $study)" -ge 5 ] && break; sleep 0.1; done
kill -9 $study; wait $study 2>/dev/null
for i in $(seq 20); do [ -z "$(pgrep -s $study)" ] && break; sleep 0.1; done
[ -z "$(pgrep -s $study)" ] || { echo "left: $(pgrep -a -s $study)"; kill -9 $(pgrep -s $study); bad=1; }
finish
