# The board has every predicted row, other tools' errors in two columns, and fetches nothing.
. "$ROOT/tests/cli/lib.sh.inc"
mkdir -p out/some out/trust out/calibrated/simumax_b200
printf 'row_id,error\na,-.05\nb,.07\n' >out/calibrated/simumax_b200/score.csv
printf 'row_id,verdict,reason\na,refused,"no <network>"\nb,refused,"no <network>"\n' >out/some/refused.csv
"$ROOT/tests/accuracy-board" out board.html >said.txt || { cat said.txt; bad=1; }
python3 - "$ROOT/results/accuracy/score.csv" <<'P'
import csv, json, re, sys
page, rows = open("board.html").read(), list(csv.DictReader(open(sys.argv[1])))
data = json.loads(re.search(r'<script type="application/json" id="runs">(.*?)</script>', page, re.S)[1])
if len(data["runs"]) != len(rows):
    print(len(data["runs"]), "dots of", len(rows), "rows")
for run, row in zip(data["runs"], rows):
    if run[0] != row["row_id"] or abs(run[1] / run[3] - 1 - float(row["error"])) > 1e-3 * (1 + abs(float(row["error"]))):
        print("a dot is not its row:", run, row); break
for text in ("without a calibration of that machine", "<td>SimuMax", "<td>NeuSight", "<td>vTrain", "no &lt;network&gt;</td><td class=\"n\">2", "TEMPLATE.csv",
             "<td>simumax_b200</td><td>Maquette</td><td class=\"n\">18</td><td>"):
    if text not in page:
        print("no", text)
if not re.search(r"<td>simumax_b200</td><td>Maquette</td>.*?<td>6\.0</td></tr>", page):
    print("no error with the machine's timings")
for fetch in re.findall(r'(?:src|href)=["\'][^"\']*|@import|fetch\(', page):
    print("fetches", fetch)
P
finish
