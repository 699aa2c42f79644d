. "$ROOT/tests/cli/lib.sh.inc"
# A plan beside its search's run.ini needs no question again; options override; a plan alone needs one.
ask=(-m gpt:layers=4,hidden=512,heads=8,vocab=2048,seq=128 -p "gpu=A100-80GB nodes=1" --batch 16 --software megatron-core)
"$M" search "${ask[@]}" -e expert --evals 3 -o s >/dev/null || bad=1
try 0 'note: the question is that of s/run.ini: -m gpt:layers=4,.* --batch 16 --software megatron-core' export s/plan-1.json --to megatron -o bare.sh
"$M" export s/plan-1.json "${ask[@]}" --to megatron -o full.sh || bad=1
cmp bare.sh full.sh || bad=1
time_of() { grep -o '^step time.*'; }
[ "$("$M" simulate -P s/plan-1.json -o a 2>/dev/null | time_of)" = "$("$M" simulate -P s/plan-1.json "${ask[@]}" -o b | time_of)" ] || bad=1
[ "$("$M" diff s/plan-1.json s/plan-2.json 2>/dev/null)" = "$("$M" diff s/plan-1.json s/plan-2.json "${ask[@]}" 2>/dev/null)" ] || bad=1
(cd s && "$M" export plan-1.json --to megatron 2>/dev/null) | cmp - full.sh || bad=1
"$M" search "${ask[@]}" --optimizer sgd -e expert --evals 1 -o h >/dev/null || bad=1 # another question is not taken for the same
try 0 'note: the plans were found for different questions \(A: optimizer = adam; B: optimizer = sgd\); both' diff s/plan-1.json h/plan-1.json
"$M" diff s/plan-1.json s/plan-2.json 2>&1 | grep 'different questions' && bad=1
try 0 'batch 32 ' simulate -P s/plan-1.json --batch 32 -o c # an option overrides
try 2 'these are not the settings of --software megatron-core' export s/plan-1.json --to torchtitan
cp s/plan-1.json alone.json
try 2 '\-m is missing' export alone.json --to megatron
# torchtitan's run_train.sh starts one machine; for more there is a line for each of them, which a shell can read
"$M" search -m meta-llama/Llama-3.1-8B -p 16xH100 --batch 64 --software torchtitan -e expert --evals 1 -o t >/dev/null || bad=1
"$M" export t/plan-1.json --to torchtitan -o recipe.py 2>/dev/null || bad=1
python3 -c 'import ast; print(ast.get_docstring(ast.parse(open("recipe.py").read())).split("\n\n")[1])' >line.sh && bash -n line.sh || bad=1
torchrun() { echo "$*"; }
said=$(HOST_OF_RANK_0=a . ./line.sh)
[ "$said" = "--nnodes 2 --nproc_per_node 8 --rdzv_backend c10d --rdzv_id planned --rdzv_endpoint a:29500 -m torchtitan.train --module this.file --config planned" ] ||
	{ echo "launched as: $said"; bad=1; }
finish
