. "$ROOT/tests/cli/lib.sh.inc"
# Every plan of a search has the degrees that --fix asks for, those inside of tensor and context parallelism too.
moe="moe:layers=2,hidden=64,heads=4,kv_heads=4,ffn=64,experts=4,vocab=512"
# all PATTERN ENGINE FIX...: plans of an engine, all of which read so
all() {
	local pattern=$1 engine=$2 fix=(); shift 2
	for f; do fix+=(--fix "$f"); done
	rm -rf o; "$M" search -m $moe --seq 64 -p dgx1_v100 --batch 8 -e "$engine" --evals 12 -j 1 "${fix[@]}" -o o >o.txt 2>&1 ||
		{ echo "$engine $*: $(cat o.txt)"; bad=1; return; }
	# a plan with one op split in its own way has no degrees as a whole
	tail -n +2 o/candidates.csv | awk -F, '$4 == "ok"' | grep -vE -- "$pattern|stages of" && { echo "$engine $*: not $pattern"; bad=1; }
	[ "$(awk -F, '$4 == "ok"' o/candidates.csv | wc -l)" -ge 4 ] || { echo "$engine $*: few plans"; cat o/candidates.csv; bad=1; }
}
for e in hybrid screen refine random portfolio; do
	all 'etp 1' $e etp=1 tp=2 ep=4
	all 'cp 4 ulysses 2' $e ulysses=2 cp=4
done
all 'cp [24] ulysses' screen ulysses=2
all ' ep [24] etp 2' screen etp=2 tp=4 ep=2
# Degrees that a part of a large cluster has too few devices for.
try 0 'dp 2 tp 8 pp 8 cp 8' search -m gpt:layers=8,hidden=512,heads=64,vocab=512 --seq 1024 --batch 1024 \
	-p gpu=H100-80GB,nodes=128,gpus=8,fabric=fat-tree --fix pp=8 --fix tp=8 --fix cp=8 -e hybrid --evals 2 -j 1 -o large
try 2 "has no context parallelism in its plans: --fix ulysses=2" search -m $moe -p dgx1_v100 --batch 8 -e heft --fix ulysses=2 -o no
try 2 'one of dp tp pp cp ep etp ulysses' search -m $moe -p dgx1_v100 --batch 8 -e screen --fix heads=2 -o no2
finish
