# The ledger of fitted values: it has all of them and no other, and what stands in for them does.
. "$ROOT/tests/cli/lib.sh.inc"
python3 - "$ROOT/platforms" <<'P' || bad=1
import csv, fnmatch, glob, json, os, re, sys
root, good = sys.argv[1], True
ledger = {r["value"] for r in csv.DictReader(open(root + "/fitted.csv"))}
fitted, known = set(), set()
for path in glob.glob(root + "/software/*.json"):
    for field, v in json.load(open(path)).items():
        if isinstance(v, dict) and "from" in v:
            name = "software:%s.%s" % (os.path.basename(path)[:-5], field)
            known.add(name)
            if v["from"] == "fitted":
                fitted.add(name)
for path in glob.glob(root + "/calib/*.json"):
    top = json.load(open(path))
    for entry in top.get("entries", [dict(top, name=os.path.basename(path)[:-5])]):
        for field, v in entry.get("values", {}).items():
            if isinstance(v, dict) and re.search(r"\bfit\b", v.get("source", "")):
                fitted.add("%s.%s" % (entry["name"], field))
for name in sorted(fitted):
    if not any(fnmatch.fnmatch(name, v) for v in ledger):
        good = print(name, "is fitted: add it to platforms/fitted.csv, with what stands in for it") or False
for value in sorted(ledger):
    if not value.startswith("constant:") and not any(fnmatch.fnmatch(name, value) for name in fitted):
        good = print("platforms/fitted.csv:", value, "is fitted no more: take it out") or False
for r in csv.DictReader(open(root + "/fitted-models.csv")):
    if r["value"] not in ledger or not r["models"]:
        good = print("platforms/fitted-models.csv:", r["value"], "is not in fitted.csv, or its line names no models") or False
sys.exit(not good)
P
# A platforms folder of its own, where one value of an ancestor rests on table "one" and stands in by a number,
# a second by the value of another software, and a third on no table here.
cp -r "$ROOT/platforms" p
ledger() { printf 'value,tables,without,about\n' >p/fitted.csv; printf '%s\n' "$@" >>p/fitted.csv; }
ledger 'software:megatron-lm-2021.host,one,1,' 'A100-SXM*.gemm_eff,o*e;z,H100-SXM-80GB.gemm_eff,' 'A100*.gemm_odd,two,.1,'
head='row_id,model,model_spec,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,zero,mbs,gbs,step_time_s,status,software'
for t in one two three; do
	printf '%s\n' "$head" "$t,x,gpt,4,1024,16,1024,51200,A100-80GB,8,8,bf16,1,1,,1,8,0.1,ok,megatron-deepspeed" >$t.csv
done
h100=$(sed -n 's/.*"gemm_eff": {"value": \([0-9.]*\),.*/\1/p' p/calib/H100-SXM-80GB.json)
"$M" score one.csv --platforms p --left-out -o left >log || bad=1
"$M" score one.csv --platforms p --set software:megatron-deepspeed.host=1 --set "A100-SXM*.gemm_eff=$h100" -o set >/dev/null || bad=1
mean() { awk -F, -v kind="$2" '$1 == kind { print $5 }' "$1/summary.csv"; }
[ -n "$(mean left left-out)" ] && [ "$(mean left left-out)" = "$(mean set step-time)" ] || {
	echo "left out $(mean left left-out), set by hand $(mean set step-time)"; bad=1; }
[ "$(mean left step-time)" != "$(mean left left-out)" ] || { echo "leaving out changes nothing"; bad=1; }
cut -d, -f1,2,4,5 left/fitted.csv
"$M" score three.csv --platforms p --left-out -o third | grep fitted; grep -c left-out third/summary.csv
# Rows of a model of their own: what the table's others give.
printf 'value,tables,models,without,about\nA100-SXM*.gemm_eff,one,x*,%s,\nsoftware:megatron-lm-2021.host,one,y,9,\n' "$h100" >p/fitted-models.csv
"$M" score one.csv --platforms p --left-out -o part >log || bad=1
"$M" score one.csv --platforms p --set "A100-SXM*.gemm_eff=$h100" -o set >/dev/null || bad=1
[ -n "$(mean part model-left-out)" ] && [ "$(mean part model-left-out)" = "$(mean set step-time)" ] || {
	echo "model left out $(mean part model-left-out), set by hand $(mean set step-time)"; bad=1; }
[ "$(mean part left-out)" = "$(mean left left-out)" ] || { echo "the whole table left out is another with parts"; bad=1; }
printf 'value,tables,models,without,about\nA100-SXM*.gemm_eff,one,x*,7,\n' >p/fitted-models.csv
try 2 "fitted-models.csv:2: without '7': give a number from 0.001 to 2" score one.csv --platforms p --left-out -o x
rm p/fitted-models.csv
# What a ledger may not say.
ledger 'software:none.host,one,1,'; try 2 'fitted.csv:2: .*no such software' score one.csv --platforms p --left-out -o x
ledger 'A100-SXM*.gemm_eff,,1,'; try 2 "fitted.csv:2: .*rests on no table" score one.csv --platforms p --left-out -o x
ledger 'A100-SXM*.gemm_eff,one,7,'; try 2 "fitted.csv:2: without '7': give a number from 0.001 to 2" score one.csv --platforms p --left-out -o x
ledger 'A100-SXM*.gemm_eff,one,Z9.gemm_eff,'; try 2 'fitted.csv:2: .*no such device type' score one.csv --platforms p --left-out -o x
ledger 'A100-SXM*.gemm_eff,one,T4.gemm_eff,' 'T4.gemm_eff,one,.5,'
try 2 'fitted.csv:2: T4.gemm_eff rests on one, too: it cannot stand in for A100' score one.csv --platforms p --left-out -o x
try 2 'left-out is for runs and collectives' score one.csv --gemm --left-out -o x
finish
