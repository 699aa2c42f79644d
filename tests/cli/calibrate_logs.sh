# Links from logs of nccl-tests: what is planted in them comes back; one node and two in one log give two link classes.
. "$ROOT/tests/cli/lib.sh.inc"
table() { # NODES US GBPS: an all-reduce of 4 ranks a node that takes US and S / GBPS
	awk -v nodes="$1" -v us="$2" -v gbps="$3" 'BEGIN {
		n = 4 * nodes
		print "# Collective test starting: all_reduce_perf"
		for (r = 0; r < n; r++) printf "#  Rank %2d Group  0 Pid %d on node%d device %d [0x%02x] NVIDIA H100\n", r, 70 + r, r / 4, r % 4, r
		print "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
		for (s = 8; s <= 8 ^ 9; s *= 2) {
			t = us + s / gbps / 1000; a = s / t / 1000; b = a * 2 * (n - 1) / n
			printf "%d %d float sum -1 %.4f %.6f %.6f 0 %.4f %.6f %.6f 0\n", s, s / 4, t, a, b, t, a, b
		}
	}'
}
table 1 12 150 >one.log; table 2 40 20 >two.log; cat one.log two.log >both.log
planted() { # LINE-OF-THE-OUTPUT US GBPS: the fitted times after that line, at 8, 64, ... bytes
	awk -v from="$1" -v us="$2" -v gbps="$3" 'index($0, from) { on = 1; next } on && /^ *all_reduce_t/ { n++; s = 8 ^ n
		want = 1e-6 * us + 1e-9 * s / gbps; if ($2 < .99 * want || $2 > 1.01 * want) print $1, $2, "instead of", want
		if (n == 9) { print "9 times as planted"; exit } }' said
}
"$M" calibrate --from both.log --link-class inside,fabric --draws 20 -o both.json >said || { cat said; bad=1; }
sed '1i begin' said >all && mv all said; planted begin 12 150; planted 'between nodes (8 ranks on 2)' 40 20
tail -n 1 said; grep -oE '"name": "[a-z]+"' both.json; grep -A1 '"measured_ranks"' both.json | grep -oE '"value": [0-9]+'
"$M" calibrate --from one.log --from two.log --link-class inside,fabric --draws 20 -o apart.json >/dev/null && cmp both.json apart.json && echo "the same from two files"
"$M" calibrate --from two.log --link-class fabric --draws 20 -o two.json | tail -n 1
try 2 'of 2 nodes: name the class of the links between them with --link-class$' calibrate --from two.log -o x.json
try 2 'with --link-class WITHIN,BETWEEN' calibrate --from both.log -o x.json
for names in inside inside, ,fabric a,b,c; do try 2 'name both classes, WITHIN,BETWEEN' calibrate --from both.log --link-class $names -o x.json; done
try 2 'one class: give one name' calibrate --from one.log --link-class a,b -o x.json
(head -n 9 one.log; tail -n 1 one.log) >few.log
try 2 'all_reduce: 4 sizes measured, at least 9 are needed .nccl-tests: -b 8' calibrate --from few.log --link-class a -o x.json
try 2 'a pipe cannot be read twice; save it as a file' calibrate --from <(cat one.log) --link-class a -o x.json
table 4 60 20 >four.log
try 2 'four.log:[0-9]+: 16 ranks on 4 nodes, those before are 8 on 2' calibrate --from both.log --from four.log --link-class a,b -o x.json
finish
