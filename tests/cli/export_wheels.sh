# Settings against the frameworks' own packages, where `make frameworks` has brought them: every name that a recipe imports is
# defined there, every keyword is a field, the values that the profile rests on are the package's.
. "$ROOT/tests/cli/lib.sh.inc"
packages=$ROOT/build/frameworks
ls "$packages"/torchtitan-0.3.0* "$packages"/deepspeed-0.19.8* >/dev/null 2>&1 || { echo "skip: no packages of frameworks; make frameworks brings them"; exit 77; }
ask=(-m "llama:size=8b" --seq 8192 -p "gpu=H100-SXM-80GB nodes=4" --batch 128 --dtype bf16 -j 1)
for s in torchtitan deepspeed; do
	"$M" search "${ask[@]}" --software $s -e expert --evals 2 --top 1 -o $s.o >/dev/null 2>err || { cat err; bad=1; }
	"$M" export $s.o/plan-1.json "${ask[@]}" --to $s -o $s >/dev/null 2>err || { cat err; bad=1; }
done
cat >latent.json <<'J' # its positions are stretched, its router scaled
{"model_type": "deepseek_v3", "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128, "num_hidden_layers": 2,
 "first_k_dense_replace": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 64, "q_lora_rank": 64,
 "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 16, "n_group": 4, "topk_group": 2,
 "num_experts_per_tok": 4, "n_shared_experts": 1, "vocab_size": 1024, "max_position_embeddings": 4096, "routed_scaling_factor": 2.5,
 "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}}
J
ask=(-m latent.json --seq 512 -p "gpu=H100-SXM-80GB nodes=1" --batch 8 --dtype bf16 -j 1)
echo --micro-batch-size 1 >in.sh; "$M" export --import in.sh "${ask[@]}" -o p.json >/dev/null || bad=1
sed -i -e 's/"allreduce"/"zero3"/' -e '/"overlap_grads"/d' p.json
"$M" export p.json "${ask[@]}" --to torchtitan -o latent >/dev/null || bad=1
python3 - "$packages" <<'P' || bad=1
import ast, glob, json, re, sys, tarfile, zipfile
folder, bad = sys.argv[1], []
titan = zipfile.ZipFile(glob.glob(folder + "/torchtitan-0.3.0*.whl")[0])
sources = {n[:-3].replace("/__init__", "").replace("/", "."): titan.read(n).decode() for n in titan.namelist() if n.endswith(".py")}
recipe, latent = ast.parse(open("torchtitan").read()), ast.parse(open("latent").read())
for node in [*ast.walk(recipe), *ast.walk(latent)]:
    if isinstance(node, ast.ImportFrom) and node.module.startswith("torchtitan"):
        text = sources.get(node.module)
        if text is None: bad.append("no module " + node.module); continue
        for name in node.names:
            if not re.search(rf"\b{name.name}\b", text) and node.module + "." + name.name not in sources:
                bad.append(f"{node.module} has no {name.name}")
trees, fields = [[*ast.walk(ast.parse(text))] for text in sources.values()], {}
for tree in trees:
    for c in tree:
        if isinstance(c, ast.ClassDef):
            own = {s.target.id: ast.unparse(s.value) if s.value else None for s in c.body if isinstance(s, ast.AnnAssign)}
            fields.setdefault(c.name, []).append(own)
def has(name, keyword): return any(keyword in f for f in fields[name])
for node in ast.walk(recipe):
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("TrainingConfig", "ParallelismConfig", "CompileConfig"):
        bad += [f"{ast.unparse(node.func)} has no {k.arg}" for k in node.keywords if not has(ast.unparse(node.func), k.arg)]
checked = []
for node in ast.walk(latent): # calls of its own functions, and of its positions
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    made = [a for tree in trees for d in tree if isinstance(d, ast.FunctionDef) and d.name == name
            for a in [x.arg for x in d.args.args + d.args.kwonlyargs]] if name.startswith("make_") else None
    if name.endswith("RoPE.Config"):
        made = [k for tree in trees for c in tree if isinstance(c, ast.ClassDef) and c.name == "RoPE"
                for d in c.body if isinstance(d, ast.ClassDef) for s in d.body if isinstance(s, ast.AnnAssign) for k in [s.target.id]]
    if made is not None:
        bad += [f"{name} has no {k.arg}" for k in node.keywords if k.arg not in made]
        checked.append(name)
if len({"make_mla_attention_config", "make_router_config", "ComplexRoPE.Config"} & set(checked)) < 3: bad.append(f"only {checked} are checked")
loss = sources["torchtitan.components.loss"]
if not re.search(r"num_chunks: int = 8\b", loss): bad.append("chunks of the loss are not 8")
if 'backend == "sdpa":\n        raise' not in sources["torchtitan.models.common.config_utils"]: bad.append("sdpa is accepted")
if f'backend == "varlen"' not in sources["torchtitan.models.common.config_utils"]: bad.append("no varlen")
if not any(f.get("mixed_precision_reduce") == "'float32'" for f in fields["TrainingConfig"]): bad.append("reductions are not float32")
with tarfile.open(glob.glob(folder + "/deepspeed-0.19.8*.tar.gz")[0]) as t:
    deepspeed = "".join(t.extractfile(m).read().decode(errors="ignore") for m in t if m.name.endswith(".py") and "/deepspeed/runtime/" in m.name)
def keys(d):
    for k, v in d.items():
        yield k
        if isinstance(v, dict): yield from keys(v)
config = json.load(open("deepspeed/ds_config.json"))
bad += [f"DeepSpeed reads no {k}" for k in keys({k: v for k, v in config.items() if k != "optimizer"})
        if not re.search(rf"""["']{k}["']|\b{k}\s*:""", deepspeed)]
print("\n".join(bad) or "torchtitan 0.3.0 and DeepSpeed 0.19.8 define all that is written")
sys.exit(bool(bad))
P
exit $bad
