. "$ROOT/tests/golden/machine.sh.inc"
# Four experts on four devices with 5, 3, 2 and 2 of 12 tokens: products, exchange and memory of the fullest rank.
moe=(-m moe:layers=2,hidden=256,heads=4,kv_heads=4,ffn=256,experts=4,top_k=1,vocab=1024 --seq 128 --batch 8 -p round.xml --calib round.json)
"$M" search "${moe[@]}" -e hybrid --evals 4 --fix dp=4 --fix ep=4 --fix mbs=2 --fix sync=zero1 --fix recompute=none -o s >/dev/null || exit 1
for load in 1 5,3,2,2; do
	"$M" simulate "${moe[@]}" --expert-load $load -P s/plan-1.json -o out | head -n 6
	cat out/memory.csv
	grep -E '^task|,d0,.*(dispatch|experts|combine)' out/timeline.csv
done
