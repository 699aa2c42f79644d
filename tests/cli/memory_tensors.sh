. "$ROOT/tests/cli/lib.sh.inc"
# The tensors of one layer, of each training software: bytes in units of tokens x hidden for what a forward pass makes
# (name, operator that makes it, size, operator that frees it), and bytes a parameter for what stays and for what
# optimizers by lists (foreach) have at once. One GPU, two
# micro-batches, bf16, no recomputation: each line can be held against the software's source.
model=llama:layers=3,hidden=256,heads=4,ffn=1024,vocab=512,seq=512
cat >list.py <<'P'
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
unit, parameters = 512 * 256, float(sys.argv[2])
made, lines, stays, listed = {}, [], {}, 0
forward = True
for e in s["device_traces"][0]:
    if e["action"] == "alloc":
        name, op, purpose = e["frames"][0]["name"], e["frames"][0]["filename"], e["frames"][1]["name"]
        made[e["addr"]] = (name, op, purpose, e["size"])
        if op == "loss" and name == "gradient of input":
            forward = False  # the first backward pass has begun
        if forward and op.startswith("layer1.") and purpose == "activations":
            lines.append([e["addr"], op[7:], name, e["size"] / unit, "-"])
    elif e["action"] == "free_completed":
        for l in lines:
            if l[0] == e["addr"] and l[4] == "-":
                l[4] = e["frames"][0]["filename"].replace("layer1.", "")
                break
        made.pop(e["addr"])
    at_once = sum(m[3] for m in made.values() if m[0] == "list of the step" and m[1].startswith("layer1."))
    listed = max(listed, at_once)
for name, op, purpose, size in made.values():
    if op.startswith("layer1."):
        stays[name] = stays.get(name, 0) + size
print("  bytes a parameter:", ", ".join("%s %.3g" % (n, b / parameters) for n, b in sorted(stays.items())))
if listed:
    print("  at once in the step: %.3g" % (listed / parameters))
for _, op, name, size, by in lines:
    print("  %-11s %-18s %6.3f  %s" % (op, name, size, by))
P
printf '%s\n' "--micro-batch-size 1" >in.sh
for software in megatron-core megatron-deepspeed deepspeed ddp fsdp torchtitan nanotron transformers llm-foundry internevo; do
	ask=(-m $model -p "gpu=A100-SXM4-80GB nodes=1 gpus=1" --batch 2 --dtype bf16 --software $software)
	"$M" export --import in.sh "${ask[@]}" -o p.json >/dev/null || { bad=1; continue; }
	"$M" simulate "${ask[@]}" --executor analytic -P p.json --memory-snapshot s.pickle >/dev/null || { bad=1; continue; }
	echo "$software"
	python3 list.py s.pickle $((4 * 256 * 256 + 3 * 256 * 1024 + 2 * 256)) || bad=1
done
# Adapters behind a norm whose GEMM is frozen in fp8: Transformer Engine keeps its copy of the norm's output.
ask=(-m $model -p "gpu=H100-SXM-80GB nodes=1 gpus=1" --batch 2 --gemm-dtype fp8 --software megatron-core
	--train lora:rank=8,targets=linear_qkv+linear_proj,dropout=0.1,base=fp8)
"$M" export --import in.sh "${ask[@]}" -o p.json >/dev/null || bad=1
"$M" simulate "${ask[@]}" --executor analytic -P p.json --memory-snapshot s.pickle >/dev/null || bad=1
echo "megatron-core, lora in fp8"
python3 list.py s.pickle $((4 * 256 * 256 + 3 * 256 * 1024 + 2 * 256)) || bad=1
finish
