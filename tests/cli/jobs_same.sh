# Plans are judged and screened by as many processes as -j says; which plans, and what they take, does not depend on it.
. "$ROOT/tests/cli/lib.sh.inc"
for e in portfolio hybrid; do
	for j in 1 3; do
		"$M" search -m gpt:layers=6,hidden=512,heads=8 -p amp_mixed --batch 16 -e $e --evals 40 -j $j -o $e$j >$e$j.txt 2>&1 || { cat $e$j.txt; bad=1; }
	done
	cmp ${e}1/candidates.csv ${e}3/candidates.csv || bad=1
	screens=$(awk -v e=$e '$1 == e { print $6 }' ${e}3.txt)
	[ "${screens%% *}" -gt 40 ] || { echo "$e: $screens screens"; bad=1; }
done
finish
