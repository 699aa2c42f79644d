#!/bin/sh
# accuracy.sh - `make accuracy`: holds predictions against published measurements, writes the tables to
# build/accuracy, summaries, verdicts and all rows with a figure to results/accuracy, and from these the tables
# and figures of README.md and results/README.md (tests/accuracy-pages). Runs: results/published. Timings of collectives, kernels
# and GEMMs: DATA (default ../shared/data); what is not there is skipped, and said. JOBS: worker processes (default:
# the processors); ROW_TASKS: tasks of a row's simulation at most.
set -eu
data=${DATA:-../shared/data}
out=build/accuracy
maquette=build/maquette

mkdir -p $out
echo "== step times and memory"
for table in results/published/[a-z]*.csv; do
	$maquette score "$table" --left-out --row-tasks "${ROW_TASKS:-4e6}" -j "${JOBS:-$(nproc)}" \
		-o "$out/$(basename "$table" .csv)" | tee "$out/$(basename "$table" .csv).txt"
done
# Tables of machines whose timings are published: once more with these, for the board.
for table in $(cut -d, -f1 results/calibrated.csv | sed 1d | sort -u); do
	set -- $(awk -F, -v table="$table" '$1 == table { print "--set", $2 }' results/calibrated.csv)
	$maquette score "results/published/$table.csv" "$@" --row-tasks "${ROW_TASKS:-4e6}" -j "${JOBS:-$(nproc)}" \
		-o "$out/calibrated/$table" >"$out/calibrated-$table.txt"
done
for kind in gemm collectives kernels; do
	folder=$data/compute
	[ $kind = collectives ] && folder=$data/nccl
	[ $kind = kernels ] && folder=$data/kernels
	[ -d "$folder" ] || { echo "accuracy: SKIPPED: no $folder: no figures of $kind; set DATA=DIR"; continue; }
	echo "== $kind"
	rm -rf $out/timings/$kind
	tests/kernel-timings "$folder"/*.csv $out/timings/$kind
	$maquette score --$kind $out/timings/$kind -o $out/$kind | tee $out/$kind.txt
done

# What servers' software was timed with: summaries of kinds of their own.
for kind in gemm collectives kernels; do
	tables=nccl
	[ $kind = gemm ] && tables=gemm
	[ $kind = kernels ] && tables="attention moe moe_exchange"
	[ -d "$data/aic" ] || { echo "accuracy: SKIPPED: no $data/aic: no figures of served $kind; set DATA=DIR"; continue; }
	echo "== served $kind"
	rm -rf "$out/timings/served-$kind"
	for table in $tables; do
		tests/kernel-timings "$data/aic/$table.csv" "$out/timings/served-$kind"
	done
	$maquette score --$kind "$out/timings/served-$kind" -o "$out/served-$kind" | tee "$out/served-$kind.txt"
	sed -i "s/^$kind/served $kind/" "$out/served-$kind/summary.csv"
done

if [ -d "$data/nccl" ]; then
	$maquette score --collectives $out/timings/collectives --left-out -o $out/systems | tee $out/systems.txt
fi

# How many rows each fitted value rests on, the least first; the others rest on timings of kernels and collectives.
awk -F, 'FNR > 1 { rows[$2] += $5; value[$2] = $3; tables[$2] = tables[$2] (tables[$2] ? ";" : "") $1 }
	END { for (v in rows) print v "," value[v] "," rows[v] "," tables[v] }' $out/*/fitted.csv |
	sort -t, -k3,3n -k1,1 >$out/rests.csv
echo "accuracy: $(wc -l <$out/rests.csv) values are fitted to runs; rows each rests on: $out/rests.csv"

# How far to trust a prediction: the errors with each source left out, in units of what other publishers' runs let
# expect, and the interval of each run with its own source among nobody's neighbours.
record=results/accuracy
rm -rf $out/trust # no table of its own
$maquette fit --trust $out -o $out/trust
cp $out/trust/trust.csv $record/trust.csv

# Every predicted row in one table, and the figure of it; measurements stay where they are.
mkdir -p $record
{ echo "value,fitted,rows,tables"; cat $out/rests.csv; } >$record/fitted.csv
intervals=$out/trust/intervals.csv
{
	echo "table,row_id,predicted_s,error,$(head -n 1 $intervals | cut -d, -f3-)"
	for scored in $out/*/score.csv; do
		name=$(basename "$(dirname "$scored")")
		awk -F, -v name="$name" 'FILENAME == ARGV[1] {
				at_row = $1 "," $2; interval[at_row] = substr($0, length(at_row) + 2); next }
			FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
			!("row_id" in at) || "collective" in at { next }
			$at["predicted_s"] != "" && $at["error"] != "" {
				print name "," $at["row_id"] "," $at["predicted_s"] "," $at["error"] "," interval[name "," $at["row_id"]] }' \
			$intervals "$scored"
	done
} >$record/score.csv
$maquette plot $record -o $out/figure -t "step times of published runs" >/dev/null &&
	cp $out/figure/score.svg $record/score.svg
echo "accuracy: $record/score.csv, $record/score.svg"

tests/accuracy-pages gather $out/*/
tests/accuracy-pages write
tests/accuracy-board $out
tests/accuracy-gate
