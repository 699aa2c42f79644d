# Batches that the devices do not divide, devices that are left out, and simulations that would take too long.
. "$ROOT/tests/cli/lib.sh.inc"
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { print $c[name] }' "$1"; }
# 64 samples on 7 equal devices: each micro-batch is divided unevenly, and the plan runs.
try 0 'dp 7 tp 1 pp 1.*uneven batch' search -m $tiny -p gpu=RTX-3090,gpus=7 --batch 64 --fix dp=7 -e hybrid --evals 4 -j 1 -o seven
[ "$(column seven/candidates.csv verdict | sort -u)" = ok ] || echo "not all plans on seven devices run"
grep -q '"shares": \[1, 1, 1, 1, 1, 1, 1\]' seven/plan-1.json || echo "equal devices have unlike shares"
# 4 of 5: a batch of 12 has a division over four devices and over three.
try 0 'dp 4 tp 1 pp 1' search -m $tiny -p gpu=RTX-3090,gpus=5 --batch 12 --fix dp=4 --fix tp=1 --fix pp=1 -e exhaustive -j 1 -o four
[ "$(column four/candidates.csv devices | sort -u)" = 4 ] || echo "not four of five devices"
# A batch that eight devices do not share evenly: as many of them as do, where the software has replicas alone.
try 0 'dp 5 tp 1 pp 1' search -m resnet50 -p gpu=H100,gpus=8 --batch 125 --software ddp -e data-parallel --evals 1 -j 1 -o five
# Micro-batches and degrees of machines of six are all divisors.
try 0 'dp 6 tp 3 pp 1, 1 micro-batches' search -m gpt:layers=2,hidden=96,heads=6 -p gpu=RTX-3090,nodes=3,gpus=6 --batch 36 \
	--fix dp=6 --fix tp=3 -e hybrid --evals 8 -j 1 -o six
# The first plan comes at once: as many stages as machines, or replicas of unlike samples.
try 0 '' search -m gpt:layers=13,hidden=64,heads=2,seq=64 -p gpu=H100,nodes=13,gpus=2 --batch 777 --evals 17 -j 1 -o stages
[ "$(column stages/candidates.csv pp | head -n 1)" = 13 ] || echo "first plan: $(sed -n 2p stages/candidates.csv)"
try 0 '' search -m resnet50 -p gpu=H100,nodes=13,gpus=2 --batch 777 --evals 17 -j 1 -o unlike
[ "$(column unlike/candidates.csv dp | head -n 1)" = 26 ] || echo "first plan: $(sed -n 2p unlike/candidates.csv)"
# So are the micro-batches of placements of models without layers.
try 0 '' search -m vgg19 -p gpu=RTX-3090,gpus=2 --batch 6 -e hybrid:moves=0 --evals 40 -j 1 -o thirds
paste -d, <(column thirds/candidates.csv dp) <(column thirds/candidates.csv micro_batches) | grep -q '^,3$' ||
	echo "no placement in three micro-batches"
# Where nothing fits, and the software has no optimizer on the host, the user hears of memory.
try 1 '' search -m gpt:layers=56,hidden=2048,heads=16 --batch 16 -p gpu=T4,gpus=4 --software nanotron -e hybrid --evals 3 -j 1 -o full
[ "$(column full/candidates.csv verdict | sort -u)" = oom ] || echo "what does not fit is not out of memory"
# What a simulation costs is known before it is run, and what is too dear is refused with the way out.
try 1 'refused: its simulation takes more than .* s \(3 tasks of a micro-batch on 1 ranks\), --simulation-time allows 1e-09; raise it' \
	search -m $tiny -p gpu=RTX-3090,gpus=2 --batch 8 -e data-parallel --evals 1 -j 1 --simulation-time 1e-9 -o dear
try 0 'dp 2 tp 1 pp 1' search -m $tiny -p gpu=RTX-3090,gpus=2 --batch 8 -e data-parallel --evals 1 -j 1 -o two
try 1 'refused: its simulation takes more than .* tasks of a micro-batch on 2 ranks\), --simulation-time allows 1e-09; raise it' \
	simulate -m $tiny -p gpu=RTX-3090,gpus=2 --batch 8 -P two/plan-1.json --no-fold --simulation-time 1e-9
# Limits are of what runs: of steady micro-batches a few.
try 1 'refused: its simulation takes more than .* \(6.5e\+02 tasks on 4 ranks\), --simulation-time allows 0.0003; raise it' \
	search -m gpt:layers=4,hidden=64,heads=2,vocab=512 -p gpu=RTX-3090,gpus=4 --batch 1024 --fix mbs=1 --fix pp=4 --fix schedule=1f1b \
	-e hybrid --evals 1 -j 1 --simulation-time 3e-4 -o long
try 0 '' search -m $tiny -p gpu=RTX-3090,gpus=2 --batch 1000000 --fix mbs=1 --fix sync=zero1 -e data-parallel --evals 1 -j 1 --simulation-time .1 -o many
[ "$(column many/candidates.csv micro_batches)" = 500000 ] || echo "not half a million micro-batches: $(tail -n 1 many/candidates.csv)"
try 1 '32000000 tasks or more are too many to simulate one by one: 16000000 micro-batches over 1 stages; use fewer micro-batches' \
	search -m $tiny -p gpu=RTX-3090,gpus=2 --batch 32000000 --fix mbs=1 --fix sync=zero1 -e data-parallel -j 1 -o most
finish
