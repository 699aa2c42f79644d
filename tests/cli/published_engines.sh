. "$ROOT/tests/cli/lib.sh.inc"
# What the engines after papers promise beyond their own units: locality, phases, latency.
least() { awk -F, 'NR > 1 && $4 == "ok" || NR > 1 && $4 == "\"ok\"" { if (!n++ || $5 < m) m = $5 } END { print m }' "$1/candidates.csv"; }
# PaSE: of two kinds of machines each layer wants neighbours of its own; machine by machine alone is a third slower.
cnn="search -m alexnet --batch 64 -p cloud_v100_t4"
"$M" $cnn -e pase:micro_batches=1 -o any >/dev/null || echo "pase fails"
"$M" $cnn -e pase:micro_batches=1,block=4 -o machine >/dev/null || echo "pase:block=4 fails"
awk -v a="$(least any)" -v m="$(least machine)" 'BEGIN { if (!(a < 0.75 * m)) print "orders of the devices gain nothing: " a, m }'
# ip: two layers, 6 + 1 and 1 + 6 forward and backward, on an accelerator each: 7, or 6 and 6 where the passes take turns.
node() { echo "{\"id\": $1, \"supportedOnFpga\": 1, \"fpgaLatency\": $2, \"cpuLatency\": 1000, \"size\": 1, \"isBackwardNode\": $3, \"colorClass\": $4}"; }
edge() { echo "{\"sourceId\": $1, \"destId\": $2, \"cost\": 0}"; }
cat >two.json <<J
{"maxSizePerFPGA": 10, "maxFPGAs": 2, "maxCPUs": 1,
 "nodes": [$(node 0 6 0 0), $(node 1 1 0 1), $(node 2 6 1 1), $(node 3 1 1 0)],
 "edges": [$(edge 0 1), $(edge 1 2), $(edge 2 3)]}
J
"$M" search -m two.json -p model --objective max-load -e ip -o load | grep '^max-load'
"$M" search -m two.json -p model --objective max-load -e ip:phases=1 -o phases | grep '^forward'
try 2 "phases=true is of --objective max-load and graphs that bring backward ops" search -m $tiny -p dgx1_v100 --batch 8 -e ip:phases=1 -o no
# The expert takes images at once, sequences one or two at a time.
"$M" search -m resnet50 --batch 64 -p gpu=H100-SXM-80GB,gpus=1 -e expert --evals 1 -o images | grep -c 'one device, 1 micro-batches' >/dev/null || echo "images come in parts"
"$M" search -m gpt:size=1.3b --batch 64 -p gpu=H100-SXM-80GB,gpus=1 -e expert --evals 1 -o tokens | grep -c ', 1 micro-batches' >/dev/null && echo "sequences come at once"
# Chunks that are asked for bring the schedule that has them.
"$M" search -m llama:size=1b --seq 4096 --batch 64 -p gpu=H100-SXM-80GB,nodes=2 -e expert --fix pp=2 --fix virtual=2 --evals 1 -o chunks | grep -c 'interleaved x2' >/dev/null || echo "virtual=2 brings no interleaved schedule"
# HSDAG: a CPU and a GPU about as fast, a network with branches: better than either alone by more than a twentieth.
for seed in 3 4 5; do
	"$M" search -m inception_v3 --batch 1 --mode infer --dtype fp32 -p cpu_gpu_ws --change device.RTX-3090.clock=0.25 \
		-e hsdag --evals 503 --seed $seed -o hsdag-$seed >/dev/null || echo "hsdag fails"
	awk -F, 'NR == 2 || NR == 3 { if (!one || $5 < one) one = $5 } $4 == "ok" && (!b || $5 < b) { b = $5 }
		END { print 100 * (1 - b / one) }' hsdag-$seed/candidates.csv
done | awk '$1 > best { best = $1 } END { if (!(best > 5)) print "two devices gain only " best " %" }'
# Post's cross-entropy: branches of Inception-v3 on two P100, an eighth less than on one of them, which it proposes first.
"$M" search -m inception_v3 --batch 32 --dtype fp32 -p gpu=P100-PCIE-16GB,gpus=2 -e cem --evals 1500 -o cem >/dev/null || echo "cem fails"
awk -v one="$(sed -n 2p cem/candidates.csv | cut -d, -f5)" -v m="$(least cem)" 'BEGIN { if (!(m < 0.9 * one)) print "branches gain nothing: " m, one }'
finish
