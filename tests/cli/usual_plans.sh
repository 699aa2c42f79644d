. "$ROOT/tests/cli/lib.sh.inc"
# The plans that users of a software know come first, those that fit before the others, and are lines below the table;
# every plan that is not the first says why, by its own columns.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
cat >check.py <<'P'
import csv, json, math, sys
name, said = sys.argv[1], json.load(open("said.json"))
rows = {r["plan_hash"]: r for r in csv.DictReader(open("s/candidates.csv"))}
usual = said["usual"]
assert [u["plan_hash"] for u in usual] == list(rows)[:len(usual)], "they come first"
assert [u["verdict"] == "oom" for u in usual] == sorted(u["verdict"] == "oom" for u in usual), "what fits comes first"
for u in usual:
    row = rows[u["plan_hash"]]
    assert row["plan"] == u["plan"] and row["verdict"] == u["verdict"], (u, row)
    assert (u["why_not_first"] == "") == (u["rank"] == 1), u
    if u["verdict"] == "oom": # 4-digit text of the difference
        lacks = float(row["peak_memory_B"]) - 25.769803776e9
        assert u["why_not_first"] == "oom by %.4g GB" % (lacks / 1e9), (u, lacks)
    print(name, "|", u["name"], "|", u["plan"], "|", u["verdict"])
first = said["plans"][0]
for p in said["plans"][1:]:
    why = p["why_not_first"]
    text = lambda share: "%.*f" % (abs(share) < .0995, 100 * share)
    grown = {k: (p[k] - first[k]) / first["step_time_s"] for k in ("compute_s", "bubble_s")}
    if why.startswith("bubble"): assert why == "bubble %s %%" % text(p["bubble_s"] / p["step_time_s"]), p
    elif why == "within 0.05 %": assert 1 < p["step_time_s"] / first["step_time_s"] < 1.0005, p
    elif why.endswith("compute"): assert why == "+%s %% compute" % text(grown["compute_s"]), p
    elif why: assert "communication" in why and p["exposed_comm_s"] > first["exposed_comm_s"], p
    else: assert p["step_time_s"] == first["step_time_s"], p
P
ask=(-m llama:layers=12,hidden=3072,heads=24,kv_heads=8,ffn=8192,vocab=32000,seq=2048 --batch 64 -p "gpu=RTX-4090 nodes=2 gpus=8" --evals 20 -j 1)
for software in torchtitan megatron-core deepspeed; do
	"$M" search "${ask[@]}" --software $software --json -o s >said.json 2>/dev/null || bad=1
	python3 check.py $software || bad=1
	rm -r s
done
# One device exchanges no gradients: only the default is left.
"$M" search -m $tiny --batch 8 --software megatron-core -p gpu=RTX-4090,gpus=1 --evals 20 -j 1 --json -o one 2>/dev/null | python3 -c 'import json, sys
print("one device |", *(u["name"] for u in json.load(sys.stdin)["usual"]))' || bad=1
# Where none of them fits another plan is the first.
"$M" search -m llama:size=7b -p gpu=RTX-4090,gpus=5 --batch 40 --software deepspeed --evals 17 -j 1 -o none >/dev/null 2>&1 || bad=1
cut -d, -f4 none/candidates.csv | sed -n 2,5p | paste -sd' ' | grep -qE '^(ok|tight) oom oom oom' || { cut -d, -f4 none/candidates.csv; bad=1; }
# A list of one or two candidates is screened too: one that fits was passed over for an optimizer on the host.
"$M" search -m gpt:layers=1,hidden=64,heads=4,vocab=128 --batch 1 -p gpu=H100,gpus=1 -e hybrid --evals 1 -o short 2>/dev/null | sed -n 3p | grep -q offload && { echo offload; bad=1; }
# Nobody waits for the engines, which have an objective: unlike devices, a mixture that needs all of them, fixed degrees,
# sequences that only context parallelism divides.
while read -r question; do
	"$M" search $question --evals 17 -j 1 -o first >/dev/null 2>&1 || bad=1
	awk -F, -v question="$question" 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
		$column["verdict"] !~ /^(ok|tight)$/ || $column["engine_objective"] != "" { print question ": " $0; exit 1 }
		{ exit }' first/candidates.csv || bad=1
	rm -r first
done <<'Q'
-m vgg11 -p gpu=L40S*1x4+T4*1x4 --batch 60
-m llama:layers=24,seq=2048 -p gpu=T4*1x4+L4*1x2 --batch 30
-m llama:layers=12 -p gpu=RTX-4090,nodes=2,gpus=8 --batch 64 --software megatron-core --fix tp=2 --fix cp=2
-m llama:layers=4,seq=262144 -p gpu=A100-SXM4-80GB,gpus=8 --batch 2 --software megatron-core
Q
# They keep --fix, and other engines have none.
"$M" search "${ask[@]}" --software megatron-core --fix pp=2 -o fixed >fixed.txt 2>/dev/null || bad=1
grep -q '^usual plan' fixed.txt && { cat fixed.txt; bad=1; }
grep -q '^rank .* why not first' fixed.txt || bad=1
finish
