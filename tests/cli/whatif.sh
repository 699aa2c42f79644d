. "$ROOT/tests/cli/lib.sh.inc"
# A study killed at any moment and continued has the bytes of an undisturbed one; so has one shared by the
# ranks of mpirun, of which only the first prints. A sensitivity is the finite difference of two runs.
cat >s.ini <<INI
model = $tiny
batch = 16
platform.nodes = 1, 2
platform.gpus = 4
platform.gpu = V100-32GB, A100-80GB
engine = expert
evals = 6
scaling = strong
sensitivity = 0.1
INI
"$M" whatif s.ini -o whole -j 2 >whole.txt || echo "whatif fails"
for delay in 0.2 0.6; do
	rm -rf part
	setsid "$M" whatif s.ini -o part -j 2 >/dev/null 2>&1 & pid=$!
	sleep $delay; kill -9 -- -$pid 2>/dev/null; wait $pid 2>/dev/null
	"$M" whatif s.ini -o part -j 1 >/dev/null || echo "does not continue after $delay s"
	for f in whatif sensitivity scaling; do cmp whole/$f.csv part/$f.csv || bad=1; done
done
[ "$(ls part/points | grep -vc json)" -eq 4 ] || { echo "points done twice or left half: $(ls part/points)"; bad=1; }
for rank in 1 0; do
	OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank "$M" whatif s.ini -o ranks >rank$rank.txt & ranks="${ranks:-} $!"
done
for pid in $ranks; do wait $pid || { echo "a rank fails"; bad=1; }; done
[ ! -s rank1.txt ] || { echo "the second rank prints"; bad=1; }
sed 's/^ranks/whole/' rank0.txt | cmp - whole.txt || bad=1
cmp whole/whatif.csv ranks/whatif.csv || bad=1
# The row of link.nvlink.bw at 1.1, asked again as a question of its own.
row=$(grep '^0,link.nvlink.bw,1.1,' whole/sensitivity.csv)
base=$(awk -F, 'NR == 2 { print $5 }' whole/whatif.csv)
for p in whole/points/*.json; do
	cat >one.ini <<INI
model = $tiny
batch = 16
platform.nodes = 1
platform.gpus = 4
platform.gpu = V100-32GB
plan = $p
link.nvlink.bw = 1, 1.1
INI
	rm -rf one; "$M" whatif one.ini -o one >/dev/null
	awk -F, -v row="$row" -v base="$base" 'NR == 2 { a = $4 } NR == 3 { b = $4; split(row, r, ",")
		if (a == base && r[4] == b && (b / a - 1) / 0.1 - r[5] < 1e-6 && r[5] - (b / a - 1) / 0.1 < 1e-6) found = 1 }
		END { exit !found }' one/whatif.csv && found=1
done
[ "${found:-}" ] || { echo "sensitivity differs from two runs of its own"; bad=1; }
echo 'scaling = sideways' >bad.ini; try 2 'strong or weak' whatif bad.ini -o x
echo 'colour = red' >bad.ini; try 2 'colour' whatif bad.ini -o x
try 2 'give a study' whatif -o x
try 2 '-o is missing' whatif s.ini
finish
