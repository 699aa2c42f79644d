. "$ROOT/tests/cli/lib.sh.inc"
# The pages of search, simulate, score and whatif in headless Chromium: they load without an error, have all their rows
# and points, sort at a click, and are as wide as a phone.
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
	[ "$(grep -o '<circle' "$1.dom" | wc -l)" -eq "$(grep -o '<circle' "$1/report.html" | wc -l)" ] || { echo "$1: points are lost"; bad=1; }
}
rows='document.querySelectorAll("\#TABLE tbody tr").length'
wide='(document.documentElement.scrollWidth>innerWidth?" too wide":"")'
show s "document.querySelectorAll('\#plans th')[0].click();document.title='first '+document.querySelector('\#plans tbody td').textContent+' of '+${rows/TABLE/plans}+$wide;" 'first 4 of 4'
show one "document.title=document.querySelectorAll('\#memory text').length+' devices, '+${rows/TABLE/links}+' links'+$wide;" \
	"8 devices, $(($(wc -l <one/links.csv) - 1 < 64 ? $(wc -l <one/links.csv) - 1 : 64)) links"
show own "document.title=${rows/TABLE/score}+' rows, '+document.querySelectorAll('circle').length+' points'+$wide;" '2 rows, 2 points'
show study "document.title='study'+$wide;" 'study'
finish
