. "$ROOT/tests/cli/lib.sh.inc"
# Seconds alone as the budget: estimates have half of them, screens half of the rest, so that plans are judged in time.
"$M" search -m gpt:layers=24,hidden=2048,heads=16 --batch 256 -p cloud_v100_t4 -e hybrid --seconds 0.8 -j 1 -o s >said || { cat said; bad=1; }
awk -F, 'NR > 1 && $4 ~ /^(ok|tight)$/ { n++ } END { exit !n }' s/candidates.csv || { echo "no plan in time"; bad=1; }
# A budget that is over before the first estimate says nothing of memory.
"$M" search -m llama:size=8b --batch 256 -p hgx_h100_ib -e hybrid --seconds 0.001 -j 1 -o none >said 2>&1
grep -q 'fits the memory' said && { cat said; bad=1; }
finish
