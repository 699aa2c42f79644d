. "$ROOT/tests/cli/lib.sh.inc"
# The pages of search, simulate, score and whatif in headless Chromium: they load without an error, draw all their points,
# sort by a button that says how (aria-sort), are as wide as a phone, and show times in a unit fit to read.
for b in chromium chromium-browser google-chrome; do command -v $b >/dev/null && browser=$b && break; done
[ -n "${browser:-}" ] || { echo "skip: no Chromium"; exit 77; }
gpt=gpt:layers=4,hidden=256,heads=4,vocab=1000
"$M" search -m $gpt -p dgx1_v100 --batch 16 -e data-parallel,random --evals 8 --top 4 -j 1 -o s >/dev/null || bad=1
"$M" simulate -m $gpt -p dgx1_v100 --batch 16 -P s/plan-1.json -o one >/dev/null || bad=1
printf 'model,gpu,gpus,gbs,step_time_s,mbs\n"gpt:layers=2,hidden=64,heads=2,vocab=512,seq=64",T4,4,16,.001,4\n"gpt:layers=2,hidden=64,heads=2,vocab=512,seq=64",T4,4,32,.002,4\n' >own.csv
"$M" score own.csv --executor analytic --software ddp -j 1 -o own >/dev/null || bad=1
printf 'model = %s\nbatch = 8, 16\nplatform = dgx1_v100\nengine = expert\nevals = 2\n' $gpt >study.ini
"$M" whatif study.ini -o study >/dev/null 2>&1 || bad=1
# show PAGE SCRIPT WANTED: the page's title after the script ran in it
show() {
	sed "s#</body>#<script>$2</script></body>#" "$1/report.html" >"$1.html"
	timeout 100 "$browser" --headless --no-sandbox --disable-gpu --window-size=412,900 --enable-logging=stderr --dump-dom \
		"file://$PWD/$1.html" >"$1.dom" 2>log || { echo "$1: the browser fails"; bad=1; }
	grep -i 'uncaught\|syntaxerror\|err_' log && bad=1
	grep -q "<title>$3</title>" "$1.dom" || { echo "$1: $(grep -m 1 -o '<title>[^<]*</title>' "$1.dom"), not $3"; bad=1; }
	python3 - "$1.dom" "$1/report.html" <<'P' || { echo "$1: points are lost"; bad=1; }
import json, re, sys
dom, page = (open(f).read() for f in sys.argv[1:])
plots = re.findall(r'<figure class="plot"><script type="application/json">(.*?)</script>', page, re.S)
sys.exit(dom.count("<circle") != sum(len(json.loads(p)["points"]) for p in plots))
P
}
rows='document.querySelectorAll("\#TABLE tbody tr").length'
wide='(document.documentElement.scrollWidth>innerWidth?" too wide":"")'
tick='[...document.querySelectorAll("figure.plot text")].some(t=>/e[+]/.test(t.textContent)||t.textContent.length>60)'
sorted='document.querySelector("\#plans th").ariaSort+" by "+document.activeElement.tagName'
sort="document.querySelector('\#plans').classList.remove('cards');document.querySelector('\#plans th button').focus();document.activeElement.click();"
show s "${sort}document.title='first '+document.querySelector('\#plans tbody td').textContent+' of '+${rows/TABLE/plans}+' '+$sorted+($tick?' odd ticks':'');" \
	'first 4 of 4 descending by BUTTON'
show s "document.title='plans'+$wide;" plans
show one "document.title=document.querySelectorAll('.bar').length+' kinds of devices, '+${rows/TABLE/links}+' of links'+$wide;" \
	"$(python3 -c "
import csv
memory = {tuple(v for k, v in r.items() if k not in ('device', 'type')) for r in csv.DictReader(open('one/memory.csv'))}
links = {(r['class'], r['bandwidth_Bps'], r['bytes']) for r in csv.DictReader(open('one/links.csv')) if float(r['utilisation']) > 0}
print(len(memory), 'kinds of devices,', len(links), 'of links')")"
show own "document.title=${rows/TABLE/score}+' rows, '+document.querySelectorAll('circle').length+' points'+$wide;" '2 rows, 2 points'
show study "document.title=([...document.querySelectorAll('figure.plot text')].some(t=>t.textContent==='batch')?'its axis':'no axis')+$wide;" 'its axis'
# The board of published runs: a dot for each.
timeout 100 "$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$ROOT/results/accuracy/board.html" >board.dom 2>/dev/null
python3 - board.dom <<'P' || bad=1
import re, sys
dom = open(sys.argv[1]).read()
drawn, said = dom.count("<circle"), re.search(r'<p id="sum">(\d+) runs(?: and (\d+) outputs)?', dom)
if not said or drawn != int(said[1]) + int(said[2] or 0) or f"<h2>{int(said[1]):,} published runs" not in dom: sys.exit(f"the board draws {drawn} dots: {said}")
P
finish
