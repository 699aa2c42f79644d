. "$ROOT/tests/cli/lib.sh.inc"
# Where nothing fits: the nearest plan of all that engines looked at, how many devices do, what the software has that
# needs less; and what no plan can have is said before any is tried.
big=(-m gpt:layers=48,hidden=8192,heads=64,vocab=32000,seq=2048 --batch 64)
try 1 '^nearest: dp 1 tp 8 pp 1, 64 micro-batches.* needs .* which has 85.9 GB; try --software megatron-core,offload_optimizer=yes, more devices' \
	search "${big[@]}" -p "gpu=A100-80GB nodes=1" -e expert --software megatron-core --evals 5 -o a
try 1 '^16 devices do, where 8 do not: dp .* of 85.9 GB$' \
	search "${big[@]}" -p "gpu=A100-80GB nodes=1" -e expert --software megatron-core --evals 5 -o a
try 0 'feasible' search "${big[@]}" -p "gpu=A100-80GB nodes=2" -e expert --software megatron-core --evals 5 -o b
try 1 'needs .*; try --fix recompute=full, ' \
	search "${big[@]}" -p "gpu=A100-80GB nodes=1" -e expert --fix recompute=none --software megatron-core --evals 5 -o c
# the nearest was only asked about: no proposal is as near
"$M" search "${big[@]}" -p "gpu=A100-80GB nodes=1" -e screen,data-parallel --evals 5 -o d >said.txt 2>&1; [ $? -eq 1 ] || bad=1
python3 - <<'P' || bad=1
import csv, re
near = float(re.search(r"^nearest: .* needs ([0-9.]+) GB", open("said.txt").read(), re.M)[1])
rows = [float(r["peak_memory_B"]) / 1e9 for r in csv.DictReader(open("d/candidates.csv")) if r["peak_memory_B"]]
assert rows and near <= min(rows) * 1.0005, (near, rows)
P
ask=(-m gpt:layers=8,hidden=512,heads=8 --batch 64 -e expert)
try 2 'fix tp=3 does not divide the 8 heads' search "${ask[@]}" -p "gpu=H100 nodes=2" --fix tp=3 -o n
try 2 'tensor-parallel groups stay inside a machine, and those of .* have 4 devices at most; fix tp=4 or less' \
	search "${ask[@]}" -p "gpu=H100 nodes=4 gpus=4" --fix tp=8 --software megatron-core -o n
try 2 'fix dp=1 tp=8 pp=4 cp=1: 32 ranks, but .* has 16 devices' search "${ask[@]}" -p "gpu=H100 nodes=2" --fix tp=8 --fix pp=4 -o n
try 2 'fix dp=16: a step has 8 samples; fix dp=8 or less' search "${ask[@]}" --batch 8 -p "gpu=H100 nodes=2" --fix dp=16 -o n
try 2 'fix cp=2 does not divide the 511 tokens' search "${ask[@]}" --seq 511 -p "gpu=H100 nodes=2" --fix cp=2 -o n
try 2 "'hybrid': no division of 64 samples per step over the devices keeps --fix" search "${ask[@]:0:4}" -e hybrid -p "gpu=H100 nodes=1" --fix pp=3 -o n
finish
