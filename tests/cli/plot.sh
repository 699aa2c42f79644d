. "$ROOT/tests/cli/lib.sh.inc"
# Every figure of a search and of a simulation, in both formats, without a word from gnuplot.
command -v gnuplot >/dev/null || { echo "skip: no gnuplot"; exit 77; }
question=(-m $tiny --batch 8 -p dgx1_v100)
"$M" search "${question[@]}" -e data-parallel,expert,random,sfb --evals 10 -o s >/dev/null || bad=1
"$M" simulate "${question[@]}" -P s/plan-1.json -o s/best >/dev/null || bad=1
"$M" plot s -o fig 2>err; "$M" plot s/best -o fig 2>>err
# Predictions against measurements: tables by a column of their own or by their rows' names, and memory.
mkdir -p score condensed
{ echo row_id,verdict,predicted_s,measured_s,error,predicted_mem_GB,measured_mem_GB,platform
	for i in $(seq 20); do echo "one-$i,ok,$i,$((i + 1)),,$((i + 40)),50,p"; echo "two:$i,ok,$((i * 2)),$i,,,,p"; done
	echo one-21,refused,,3,,,,p; } >score/score.csv
{ echo table,row_id,predicted_s,error; for i in $(seq 9); do echo "x_y,r$i,$i,0.$i"; done; } >condensed/score.csv
"$M" plot score -o fig2 2>>err | tr '\n' ' '; "$M" plot condensed -o fig3 2>>err | tr '\n' ' '; echo
cut -d, -f1 fig2/score_points.csv | sort | uniq -c | tr '\n' ' '; sed -n 3p fig2/score_points.csv
sed -n 6p fig3/score_points.csv # 5 = 1.5 x 3.33
grep -o 'x_y: 9 rows, 50.0 %' fig3/score.svg | head -n 1
[ -s err ] && { cat err; bad=1; }
for f in fig*/*.png; do [ "$(head -c 4 "$f" | tail -c 3)" = PNG ] || { echo "$f is no PNG"; bad=1; }; done
for f in fig*/*.svg; do tail -c 8 "$f" | grep -q '</svg>' || { echo "$f is no SVG"; bad=1; }; done
finish
