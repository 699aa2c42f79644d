. "$ROOT/tests/cli/lib.sh.inc"
# Ports of 500 us instead of half a one: whatever algorithm carries a step's gradients between two machines, each of its
# steps over the network takes two ports longer; --left-out belongs to tables of collectives.
question=(-m gpt:layers=2,hidden=512,heads=8,vocab=1024 --seq 256 --batch 8)
wide() { echo "gpu=A100-SXM4-80GB nodes=2 gpus=4 nic_us=$1"; }
"$M" search "${question[@]}" -p "$(wide 0.5)" -e data-parallel --evals 1 --fix sync=allreduce -o s >/dev/null || exit 1
step() { "$M" simulate "${question[@]}" -p "$(wide "$1")" -P s/plan-1.json -o "o$1" >/dev/null && awk -F, 'NR == 1 {
	for (i = 1; i <= NF; i++) if ($i == "step_time_s") c = i } NR == 2 { print $c }' "o$1/summary.csv"; }
awk -v near="$(step 0.5)" -v far="$(step 500)" 'BEGIN {
	if (!(far > near + 0.000997))
		printf "%s s with ports of 500 us, %s s with ports of 0.5\n", far, near
}' | grep . && bad=1
: >table.csv
try 2 'left-out is for runs and collectives' score table.csv --gemm --left-out -o x
finish
