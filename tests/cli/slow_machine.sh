# Speeds are of devices, not of type names: where the second of two equal machines runs at half its clock, engines that
# estimate say so before anything is simulated. And links that a screen finds free contend: what was judged on all
# machines tells the list to try fewer.
. "$ROOT/tests/cli/lib.sh.inc"
first() { # ENGINE [CHANGE...]: objective and plan of its first proposal
	engine=$1; shift
	rm -rf o
	"$M" search -m gpt:layers=8,hidden=1024,heads=16 -p "gpu=A100-SXM4-40GB,nodes=2,gpus=2" --batch 16 -e $engine --evals 1 \
		-j 1 "$@" -o o >log 2>&1 || { cat log; bad=1; }
	awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i } NR == 2 { print $c["engine_objective"] }' o/candidates.csv
}
for e in hybrid piper pase; do
	even=$(first $e)
	slow=$(first $e --change rank.2.clock=0.5 --change rank.3.clock=0.5)
	awk -v e=$e -v a="$even" -v b="$slow" 'BEGIN { printf "%s: %s\n", e, (b > 1.2 * a && a > 0 ? "slower" : "the same: " a " and " b " s") }'
done
rm -rf o
"$M" search -m vit:size=base -p cloud_v100_t4 --batch 512 -e hybrid --evals 6 -j 1 -o o >log 2>&1 || { cat log; bad=1; }
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { n[$c["devices"]]++ }
	END { print "hybrid: machines behind slow ports:", (n[16] && n[8] ? "all and fewer" : "none but all") }' o/candidates.csv
finish
