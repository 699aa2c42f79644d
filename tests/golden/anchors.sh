# The drift gate: predictions of rows of the published runs that stand for all. What changes one of them changes a
# prediction: look at old and new, and bless it only where it is meant (`make bless`); `make accuracy` says what the
# change does to all rows.
mkdir rows
while read -r table row; do
	case $table in \#*) continue ;; esac
	[ -f "rows/$table.csv" ] || head -n 1 "$ROOT/results/published/$table.csv" >"rows/$table.csv"
	grep -m 1 "^$row," "$ROOT/results/published/$table.csv" >>"rows/$table.csv" || echo "$table: no row $row"
done <"$ROOT/tests/golden/anchors.txt"
"$MAQUETTE" score rows -j 2 -o out >said.txt 2>&1 || { tail -n 3 said.txt; exit 1; }
cut -d, -f1-3 out/score.csv | sed "s/,tight,/,ok,/" # what is tight follows from the index of errors
