#!/bin/sh
# accuracy.sh - `make accuracy`: holds predictions against published measurements, writes the tables to
# build/accuracy, the whole of it between the markers of results/README.md and a line per kind between those of
# README.md, and all rows with a figure to results/accuracy. Runs: results/published. Timings of collectives, kernels
# and GEMMs: DATA (default ../shared/data); what is not there is skipped, and said. JOBS: worker processes (default:
# the processors); ROW_TASKS: tasks of a row's simulation at most.
set -eu
data=${DATA:-../shared/data}
out=build/accuracy
maquette=build/maquette

mkdir -p $out
echo "== step times and memory"
for table in results/published/*.csv; do
	$maquette score "$table" --left-out --row-tasks "${ROW_TASKS:-4e6}" -j "${JOBS:-$(nproc)}" \
		-o "$out/$(basename "$table" .csv)" | tee "$out/$(basename "$table" .csv).txt"
done
for kind in gemm collectives kernels; do
	folder=$data/compute
	[ $kind = collectives ] && folder=$data/nccl
	[ $kind = kernels ] && folder=$data/kernels
	[ -d "$folder" ] || { echo "accuracy: SKIPPED: no $folder: no figures of $kind; set DATA=DIR"; continue; }
	echo "== $kind"
	$maquette score --$kind "$folder" -o $out/$kind | tee $out/$kind.txt
done

if [ -d "$data/nccl" ]; then
	$maquette score --collectives "$data/nccl" --left-out -o $out/systems | tee $out/systems.txt
fi

# One Markdown table out of the summaries: tables that nothing was fitted to, tables with their source left
# out, all that was fitted to, the rest; beside it what others reached on the same rows.
awk -F, '
function cell(x, scale, digits) { return x == "" ? "" : sprintf("%.*f", digits, x * scale) }
function plain(x) { gsub(/"/, "", x); return x }
BEGIN {
	peer["vtrain_a100_multi_node"] = "vTrain 14.7, Calculon 12.9"
	peer["vtrain_a100_single_node"] = "Calculon 38.9 (outputs of a predictor, not runs)"
	peer["bloom_a100_topology_search"] = "Calculon 33 (6.6 scaled), rank 0.57"
	peer["internevo_a100_8_to_1024"] = "Calculon 14.3, rank 0.48"
	peer["torchtitan_a100_h100_h200"] = "Phantora 2.9 (needs a GPU)"
	peer["megatron_sc21_and_v1"] = "Calculon 3.65"
	peer["amp_aws_t4_v100"] = "AMP 48 / 16, rank 0.94 / 0.85"
	peer["sailor_gh200_and_hetero"] = "Sailor 8.9 (from profiles)"
	print "| table | rows | refused | mean % | median % | p90 % | bias % | rank | regret | others, mean % |"
	print "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
}
FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
$at["rows"] > 0 || $at["refused"] > 0 {
	name = plain($at["table"])
	if ($at["kind"] ~ /collectives|kernel/ && name !~ /^all/)
		next
	kind = plain($at["kind"])
	if (kind == "left-out")
		rests[name] = 1
	n++
	kinds[n] = kind
	names[n] = name
	cells[n] = sprintf("%s | %s | %s | %s | %s | %s | %s | %s | %s |", $at["rows"], $at["refused"],
		cell($at["mean"], 100, 1), cell($at["median"], 100, 1), cell($at["p90"], 100, 1),
		cell($at["bias"], 100, 1), cell($at["spearman"], 1, 2), cell($at["regret"], 1, 3), peer[name])
}
# Lines whose kind is one, or of step times those of tables that something rests on or nothing does.
function put(kind, label, resting,    k) {
	for (k = 1; k <= n; k++)
		if (kinds[k] == kind && (resting < 0 || (names[k] in rests) == resting))
			printf "| %s %s | %s\n", label, names[k], cells[k]
}
END {
	put("step-time", "never fitted:", 0)
	put("left-out", "source left out:", -1)
	put("model-left-out", "network left out:", -1)
	put("step-time", "fitted:", 1)
	put("memory", "memory:", -1)
	told["step-time"] = told["left-out"] = told["model-left-out"] = told["memory"] = 1
	for (i = 1; i <= n; i++)
		if (!(kinds[i] in told)) {
			told[kinds[i]] = 1
			put(kinds[i], kinds[i], -1)
		}
}' $out/*/summary.csv >$out/table.md

# How many rows each fitted value rests on, the least first; the others rest on timings of kernels and collectives.
awk -F, 'FNR > 1 { rows[$2] += $5; value[$2] = $3; tables[$2] = tables[$2] (tables[$2] ? ";" : "") $1 }
	END { for (v in rows) print v "," value[v] "," rows[v] "," tables[v] }' $out/*/fitted.csv |
	sort -t, -k3,3n -k1,1 >$out/rests.csv
echo "accuracy: $(wc -l <$out/rests.csv) values are fitted to runs; rows each rests on: $out/rests.csv"

# Every predicted row in one table, and the figure of it; measurements stay where they are.
record=results/accuracy
mkdir -p $record
{ echo "value,fitted,rows,tables"; cat $out/rests.csv; } >$record/fitted.csv
{
	echo table,row_id,predicted_s,error
	for scored in $out/*/score.csv; do
		name=$(basename "$(dirname "$scored")")
		awk -F, -v name="$name" 'FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
			!("row_id" in at) || "collective" in at { next }
			$at["predicted_s"] != "" && $at["error"] != "" {
				print name "," $at["row_id"] "," $at["predicted_s"] "," $at["error"] }' "$scored"
	done
} >$record/score.csv
$maquette plot $record -o $out/figure -t "step times of published runs" >/dev/null &&
	cp $out/figure/score.svg $record/score.svg
echo "accuracy: $record/score.csv, $record/score.svg"

# The same by kind, each table counted once.
awk -F'|' '
/^\| (never fitted|source left out|fitted):/ && $3 > 0 {
	split($2, part, ":")
	kind = part[1]
	gsub(/^ +/, "", kind)
	if (!(kind in tables))
		kinds[++n] = kind
	tables[kind]++
	runs[kind] += $3
	mean[kind] += $5
	median[kind] += $6
	if (best[kind] == "" || $5 + 0 < best[kind])
		best[kind] = $5 + 0
	if ($5 + 0 > worst[kind])
		worst[kind] = $5 + 0
}
END {
	print "| values | tables | runs | mean error % | median error % | means of the best and the worst table % |"
	print "| --- | --- | --- | --- | --- | --- |"
	for (i = 1; i <= n; i++) {
		k = kinds[i]
		printf "| %s | %d | %d | %.1f | %.1f | %.1f to %.1f |\n", k, tables[k], runs[k], mean[k] / tables[k],
			median[k] / tables[k], best[k], worst[k]
	}
}' $out/table.md >$out/by-kind.md

# put_between NAME FILE PAGE: FILE in place of what stands between the page's markers of that name.
put_between() {
	grep -q "<!-- $1:begin -->" "$3" || { echo "accuracy: $3 has no $1 markers; the table is $2"; return; }
	awk -v name="$1" -v table="$2" '
	index($0, "<!-- " name ":begin -->") { print; while ((getline line < table) > 0) print line; skip = 1; next }
	index($0, "<!-- " name ":end -->") { skip = 0 }
	!skip' "$3" >$out/page.md
	cat $out/page.md >"$3"
	echo "accuracy: $3 updated; rows in $out/*/score.csv"
}
put_between accuracy $out/table.md results/README.md
put_between accuracy-summary $out/by-kind.md README.md
