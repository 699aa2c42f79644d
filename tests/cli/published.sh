# The published tables say what score reads: columns that it knows, software, options and platforms that there are.
. "$ROOT/tests/cli/lib.sh.inc"
"$M" list software generic >fields.txt || bad=1
python3 - "$ROOT" <<'P' || bad=1
import csv, glob, os, re, sys
root, good = sys.argv[1], True
fields = {line.split()[0] for line in open("fields.txt") if line.strip()}
software = {os.path.basename(f)[:-5] for f in glob.glob(root + "/platforms/software/*.json")}
page = open(root + "/results/published/README.md").read()
columns = {c for line in re.findall(r"^\| ([a-z0-9_, .]+) \|", page, re.M) for c in re.split(r"[, ]+", line)}
ids = set()
def tell(*words):
    global good
    good = print(*words) or False
for path in sorted(glob.glob(root + "/results/published/[a-z]*.csv")):
    name = os.path.basename(path)
    for row in csv.DictReader(open(path)):
        at = name + " " + row["row_id"] + ":"
        if row["row_id"] in ids:
            tell(at, "a second row of that name")
        ids.add(row["row_id"])
        if row["software"] not in software | {""}:
            tell(at, "no software", row["software"])
        for option in filter(None, row["software_options"].split(";")):
            if option.split("=")[0] not in fields:
                tell(at, "no field", option)
        if row["model_spec"] and not row["platform"]:
            tell(at, "no platform")
        if not (row["source"] and row["locator"] and row["mode"] and row["status"] in ("ok", "oom", "failed", "suspect")):
            tell(at, "no source, locator, mode or status")
        if row["precision"] not in ("", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "fp4"):
            tell(at, "precision", row["precision"])
    for c in csv.DictReader(open(path)).fieldnames:
        if c not in columns and not c.startswith("peer") and not c.endswith("_s") and c not in ("cp_kind", "out_of_distribution"):
            tell(name, "has a column that its page has not:", c)
    if "### " + name[:-4] + "\n" not in page:
        tell(name, "is not on its page")
sys.exit(not good)
P
# Of each table one row is judged: those of a table without any verified row are refused.
mkdir rows
for t in "$ROOT"/results/published/[a-z]*.csv; do
	(head -n 1 "$t"; grep -m 1 -E ',(allreduce|zero[123])' "$t") >"rows/$(basename "$t")"
done
"$M" score rows --executor analytic -j 2 -o out >said.txt 2>&1 || { cat said.txt; bad=1; }
ls rows | wc -l
awk -F, 'NR > 1 { n++ } NR > 1 && $2 !~ /^(ok|oom|tight)$/ { print $1, $2 } END { print n " rows" }' out/score.csv
finish
