. "$ROOT/tests/cli/lib.sh.inc"
# report.html in headless Chromium: it loads without an error, has all its points, and sorts at a click.
for b in chromium chromium-browser google-chrome; do command -v $b >/dev/null && browser=$b && break; done
[ -n "${browser:-}" ] || { echo "skip: no Chromium"; exit 77; }
"$M" search -m gpt:layers=4,hidden=256,heads=4,vocab=1000 -p dgx1_v100 --batch 16 -e data-parallel,random --evals 8 --top 4 -j 1 -o s >/dev/null || bad=1
sed 's#</body>#<script>document.querySelectorAll("\#plans th")[0].click();document.title="first "+document.querySelector("\#plans tbody td").textContent;</script></body>#' \
	s/report.html >click.html
timeout 100 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --dump-dom "file://$PWD/click.html" >dom.html 2>log || bad=1
grep -i 'uncaught\|syntaxerror' log && bad=1
[ "$(grep -o '<circle' dom.html | wc -l)" -eq "$(grep -o '<circle' s/report.html | wc -l)" ] || { echo "the browser lost points"; bad=1; }
grep -q '<title>first 4</title>' dom.html || { grep '<title>' dom.html; bad=1; }
finish
