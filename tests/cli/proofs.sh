. "$ROOT/tests/cli/lib.sh.inc"
# Lower bounds of --proof lie below what was simulated, and near it where the candidates are few.
gap() { awk -F, -v e="$2" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
	{ gsub(/"/, ""); if ($c["engine"] == e) print $c["gap"] }' "$1/proof.csv"; }
near() { # near FOLDER MOST: hybrid's gap is from 0 to MOST
	gap "$1" hybrid | awk -v f="$1" -v most="$2" '!($1 >= 0 && $1 <= most) { print f ": gap of hybrid is " $1 }
		END { if (!NR) print f ": no gap of hybrid" }'
}
# A vocabulary that is padded to whole tiles makes the head faster than its unpadded kernels are.
try 0 'plan of any kind has step-time below' search -m bert:layers=2,hidden=512,heads=8 -p gpu=A100-SXM4-80GB,gpus=1 \
	--batch 32 --mode infer -e hybrid --evals 10 --proof -j 1 -o infer; near infer 0.01
# Launches, bubbles and transfers count, not compute alone.
try 0 'candidate of hybrid .usual shapes' search -m alexnet -p gpu=T4,nodes=2,gpus=2,fabric=ethernet --batch 64 -e hybrid \
	--evals 20 --proof -j 1 -o cnn; near cnn 0.15
try 0 'candidate of hybrid .usual shapes' search -m gpt:layers=4,hidden=512,heads=8 -p gpu=T4,gpus=4 --batch 16 -e hybrid \
	--evals 20 --proof -j 1 -o gpt; near gpt 0.15
finish
