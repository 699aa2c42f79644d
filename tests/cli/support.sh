# `support` says what of a question is covered before anything is simulated, in words and as JSON.
. "$ROOT/tests/cli/lib.sh.inc"
q=(-m llama:size=8b -p hgx_h100_ib_2 --software megatron-core)
"$M" support "${q[@]}" | grep -v '^runs\|published runs' | sed 's/[0-9]* \(fitted\|counted\|documented\|assumed\)/N \1/g' || bad=1
look() { # what is told of parts that are not covered, or assumed
	"$M" support "$@" --json 2>&1 | python3 -c 'import json, sys
for l in json.load(sys.stdin):
    if l["known"] != "covered" and l["part"] != "runs": print(l["part"], "|", l["known"], "|", l["text"])'
}
echo "== all of it"; look "${q[@]}"
echo "== fp4 on a device that has none"; look -m llama:size=8b -p "gpu=A100-SXM4-80GB nodes=1 gpus=8" --software megatron-core --gemm-dtype fp4
echo "== scales of 32 values, which Hopper does not apply"; look -m llama:size=8b -p 8xH100 --software megatron-core --gemm-dtype mxfp8
echo "== no software"; look -m resnet50 -p "gpu=V100-SXM2-16GB nodes=1 gpus=8"
echo "== a device that nobody has calibrated"; look -m llama:size=8b -p "gpu=NewChip nodes=1 gpus=8 tflops=900 memory_GB=100 bw_TBps=3" --software nanotron
echo "== prompts, over TCP"; look -m llama:size=8b --mode infer -p "gpu=L40S nodes=2 network=eth nics=1 nic_GBps=12.5" --software nanotron
# The counts are those of the index.
"$M" support "${q[@]}" --json | python3 -c 'import csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1])))
said = {l["text"].split(" published runs ")[1]: int(l["text"].split()[0]) for l in json.load(sys.stdin) if " published runs " in l["text"]}
count = lambda **w: sum(all(r[k] == v for k, v in w.items()) for r in rows)
for what, n in (("on this device type", count(device="H100-SXM-80GB")), ("of this software or its kin", count(parent="megatron-core")),
                ("of this kind on this generation", count(family="hopper", kind="dense"))):
    if said[what] != n: print(what, said[what], "but", n)' "$ROOT/results/accuracy/trust.csv" || bad=1
try 2 'platform' support -m llama:size=8b -p nothere
finish
