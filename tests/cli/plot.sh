. "$ROOT/tests/cli/lib.sh.inc"
# Every figure of a search and of a simulation, in both formats, without a word from gnuplot.
command -v gnuplot >/dev/null || { echo "skip: no gnuplot"; exit 77; }
question=(-m $tiny --batch 8 -p dgx1_v100)
"$M" search "${question[@]}" -e data-parallel,expert,random,sfb --evals 10 -o s >/dev/null || bad=1
"$M" simulate "${question[@]}" -P s/plan-1.json -o s/best >/dev/null || bad=1
"$M" plot s -o fig 2>err; "$M" plot s/best -o fig 2>>err
[ -s err ] && { cat err; bad=1; }
for f in fig/*.png; do [ "$(head -c 4 "$f" | tail -c 3)" = PNG ] || { echo "$f is no PNG"; bad=1; }; done
for f in fig/*.svg; do tail -c 8 "$f" | grep -q '</svg>' || { echo "$f is no SVG"; bad=1; }; done
finish
