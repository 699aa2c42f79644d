. "$ROOT/tests/cli/lib.sh.inc"
# Names are names: of folders for gnuplot and of hosts in report.html, whatever they look like.
command -v gnuplot >/dev/null || { echo "skipped: no gnuplot"; exit 77; }
search=(search -m $tiny --batch 16 -p dgx1_v100 -e expert,random --evals 6)
for folder in '<touch PWNED;:' '|touch PWNED' "it's \`touch PWNED\`" -; do
	"$M" "${search[@]}" "--output=$folder" >/dev/null || { echo "search refuses $folder"; bad=1; }
	"$M" plot -- "$folder" >/dev/null || { echo "plot refuses $folder"; bad=1; }
	[ -s "$folder/convergence.svg" ] || { echo "no figure in $folder"; bad=1; }
done
"$M" "${search[@]}" -o ok >/dev/null
"$M" plot ok -o '|touch PWNED;' >/dev/null && [ -s '|touch PWNED;/memory.png' ] || { echo "plot -o fails"; bad=1; }
"$M" plot ok -o drawn -t "a'; system('touch PWNED'); b=\`touch PWNED\`" >/dev/null || { echo "plot -t fails"; bad=1; }
"$M" "${search[@]}" -o $'a\nsystem("touch PWNED")' >/dev/null
try 2 'No such file' plot $'a\nsystem("touch PWNED")' # gnuplot cannot be told of a line break
[ ! -e PWNED ] || { echo "a folder's name ran a program"; bad=1; }

sed -e 's#id="gpu0"#id="\&lt;/script\&gt;\&lt;script\&gt;x()//"#; s#id="gpu1"#id="q\&quot;q\\n"#' "$ROOT/platforms/dgx1_v100.xml" >odd.xml
sed -i -e 's#\(src\|dst\)="gpu0"#\1="\&lt;/script\&gt;\&lt;script\&gt;x()//"#g; s#\(src\|dst\)="gpu1"#\1="q\&quot;q\\n"#g' odd.xml
cat >s.ini <<INI
model = $tiny
batch = 16
platform = odd.xml
link.nvlink.bw = 1, 2
engine = expert
evals = 4
sensitivity = 0.1
INI
"$M" whatif s.ini -o '|touch PWNED' -j 1 >/dev/null || { echo "whatif refuses an odd folder"; bad=1; }
[ -s '|touch PWNED/tornado.svg' ] || { echo "no tornado"; bad=1; }
[ ! -e PWNED ] || { echo "a study's folder ran a program"; bad=1; }
python3 - <<'P' || bad=1
import json
from html.parser import HTMLParser
class Reader(HTMLParser):
    def __init__(self): super().__init__(); self.scripts = []; self.inside = False
    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script"
        if self.inside: self.scripts.append("")
    def handle_endtag(self, tag): self.inside = False
    def handle_data(self, data):
        if self.inside: self.scripts[-1] += data
r = Reader(); r.feed(open("|touch PWNED/report.html").read()); r.close()
data = [json.loads(s) for s in r.scripts[:-1]] # all but the last are data
names = next(d["bands"] for d in data if "bands" in d)
assert "</script><script>x()//" in names and 'q"q\\n' in names, names
P
finish
