. "$ROOT/tests/cli/lib.sh.inc"
# Plans on more than 8 devices are simulated folded: the tables say what they say with every rank simulated, but
# for timeline.csv and tasks.csv, which have a device for all like it. A schedule has every rank all the same.
"$M" platform generate gpu=A100-SXM4-80GB nodes=16 gpus=8 -o p.xml >/dev/null
ask=(-m gpt:layers=10,hidden=512,heads=8,seq=256,vocab=1024 -p p.xml --batch 64)
printf '%s\n' --tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 --sequence-parallel \
	--num-virtual-stages-per-pipeline-rank=3 --account-for-embedding-in-pipeline-split \
	--account-for-loss-in-pipeline-split --use-distributed-optimizer --overlap-grad-reduce >in.sh
"$M" export --import in.sh "${ask[@]}" -o plan.json >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P plan.json --trace few.json -o few >few.txt || bad=1
"$M" simulate "${ask[@]}" -P plan.json --timeline all -o all >all.txt || bad=1
"$M" simulate "${ask[@]}" -P plan.json --timeline none -o none >/dev/null || bad=1
[ ! -e none/timeline.csv ] && [ -e none/links.csv ] || bad=1
try 2 'give one of folded none all' simulate "${ask[@]}" -P plan.json --timeline some
"$M" simulate "${ask[@]}" -P plan.json --json | python3 -c 'import json,sys; json.load(sys.stdin)["step_time_s"]' || bad=1
"$M" simulate "${ask[@]}" -P plan.json --schedule all.sched -o sched >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P plan.json --no-fold --schedule whole.sched -o whole >/dev/null || bad=1
cmp all.sched whole.sched || bad=1
grep -h "devices, each" few.txt all.txt
python3 - <<'P' || bad=1
import csv, json
rows = lambda name: list(csv.DictReader(open(name)))
for table in "summary", "memory", "links":
    for one, other in zip(rows(f"few/{table}.csv"), rows(f"all/{table}.csv"), strict=True):
        for key in one:
            if key == "bottleneck": # of devices alike, another may be named
                continue
            try:
                a, b = float(one[key]), float(other[key])
            except ValueError:
                assert one[key] == other[key], (table, one, other)
                continue
            assert abs(a - b) <= 2e-8 * abs(b), (table, key, one, other)
devices = lambda name: len({r["device"] for r in rows(name)})
print(devices("few/timeline.csv"), "of", devices("all/timeline.csv"), "devices in timeline.csv")
assert devices("sched/timeline.csv") == 128 == len(rows("few/memory.csv"))
assert len(rows("few/tasks.csv")) == len(rows("few/timeline.csv"))
json.load(open("few.json"))
P
# Of more rows than have room: a device, and a link, for all like it.
"$M" simulate "${ask[@]}" -P plan.json --file-size 0.05MB -o small | grep '^of more' || bad=1
python3 - <<'P' || bad=1
import csv
rows = lambda name: list(csv.DictReader(open(name)))
kinds = lambda name: {(r["class"], r["bandwidth_Bps"], r["bytes"]) for r in rows(name)}
assert kinds("small/links.csv") == kinds("few/links.csv") and len(rows("small/links.csv")) == len(kinds("small/links.csv"))
assert {r["device"] for r in rows("small/memory.csv")} == {r["device"] for r in rows("few/timeline.csv")}
assert all(r in rows("few/memory.csv") for r in rows("small/memory.csv"))
P
# More tasks than fit in memory: what to do about it.
"$M" platform generate gpu=A100-SXM4-80GB nodes=512 gpus=8 -o large.xml >/dev/null
ask=(-m gpt:layers=64,hidden=512,heads=8,seq=256,vocab=1024 -p large.xml --batch 65536)
printf '%s\n' --pipeline-model-parallel-size 64 --micro-batch-size 1 >in.sh
"$M" export --import in.sh "${ask[@]}" -o plan.json >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P plan.json --trace large.json -o large | grep 'room in 50 MB' || bad=1
find large large.json -size +50000k | grep . && bad=1
try 1 'too many to simulate one by one; let identical ranks be folded' \
	simulate "${ask[@]}" -P plan.json --no-fold -o x
# Files of a sane size: a trace is compressed where its name says so, and has whole devices as far as there is room.
big=(-m gpt:layers=8,hidden=256,heads=4,vocab=1000 -p dgx1_v100 --batch 64)
"$M" search "${big[@]}" -e expert --evals 1 --fix pp=8 --fix mbs=1 -o big >/dev/null || bad=1
"$M" simulate "${big[@]}" -P big/plan-1.json --trace t.json -o all >/dev/null; "$M" simulate "${big[@]}" -P big/plan-1.json --trace t.json.gz >/dev/null
gzip -dc t.json.gz | cmp - t.json || bad=1
"$M" simulate "${big[@]}" -P big/plan-1.json --trace small.json --file-size 300kB -o small | grep 'room in 0.3 MB' || bad=1
[ "$(stat -c %s small.json small/timeline.csv small/tasks.csv | awk '$1 > 300000' | wc -l)" = 0 ] || { ls -l small small.json; bad=1; }
[ "$(tail -n +2 small/timeline.csv | cut -d, -f1 | cmp - <(tail -n +2 small/tasks.csv | cut -d, -f1))" = "" ] || bad=1
python3 -c 'import json; e = json.load(open("small.json"))["traceEvents"]; assert e and {x["ph"] for x in e} <= set("MXsf"), "trace"' || bad=1
finish
