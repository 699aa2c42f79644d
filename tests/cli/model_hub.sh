. "$ROOT/tests/cli/lib.sh.inc"
# Shipped configurations: parameters within 3 % of what each model's card says, wherever the program runs.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
python3 - "$M" "$ROOT/platforms/models/hub.json" <<'P' || bad=1
import json, subprocess, sys
hub, bad, kinds = json.load(open(sys.argv[2])), 0, set()
for name, row in hub.items():
    out = subprocess.run([sys.argv[1], "model", name, "--json"], capture_output=True, text=True)
    got = json.loads(out.stdout)["parameters"] if not out.returncode else 0
    kinds.add(row["config"].get("model_type") or row["config"]["_class_name"])
    if abs(got - row["parameters"]) > .03 * row["parameters"]: print(name, got, "for", row["parameters"], out.stderr); bad = 1
if len(hub) < 60 or len(kinds) < 40: print(len(hub), "models of", len(kinds), "kinds"); bad = 1
sys.exit(bad)
P
"$M" model qwen/QWEN3-vl-8b-instruct:towers=false --seq 2048 2>/dev/null | sed -n '2p;$p'
"$M" model Qwen/Qwen3-VL-8B-Instruct:image=896 --seq 2048 2>/dev/null | sed -n '2p;$p'
"$M" model openai/gpt-oss-20b --seq 2048 | grep -E 'param'
try 2 "no configuration that is shipped either; did you mean Qwen/Qwen3-8B" model Qwen/Qwen3-9B
try 2 'no option .imag.; did you mean .image' model Qwen/Qwen3-VL-8B-Instruct:imag=5
try 2 "an image makes 784 of a sequence's 64 tokens" model Qwen/Qwen3-VL-8B-Instruct:image=896 --seq 64
mkdir -p Qwen/Qwen3-8B; echo '{"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 8, "vocab_size": 8}' >Qwen/Qwen3-8B/config.json
"$M" model Qwen/Qwen3-8B | sed -n 2p # a folder of that name comes first
rm -r Qwen
# A software that has no such part says so, by name.
ask() { try 2 "$1" search -m "$2" --seq 512 --batch 8 -p gpu=H100-SXM-80GB --software "$3" -e expert --evals 1 -o out; }
ask "nanotron trains no part .delta-net. of .Qwen/Qwen3-Next" Qwen/Qwen3-Next-80B-A3B-Instruct nanotron
ask "megatron-core trains no part .short-conv. of .LiquidAI/LFM2-1.2B" LiquidAI/LFM2-1.2B megatron-core
ask "megatron-core trains no part .mamba1. of .ai21labs" ai21labs/AI21-Jamba-1.5-Mini megatron-core
ask "torchtitan trains no part .indexer. of .deepseek-ai" deepseek-ai/DeepSeek-V3.2 torchtitan
finish
