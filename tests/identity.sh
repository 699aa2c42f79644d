#!/usr/bin/env bash
# identity.sh DIR [TABLE...]: is the step time that `score` predicts of a row that of `run` of the job it writes for
# it, and of `simulate` with the options in it, to the last digit? Says which rows differ and "N of M rows equal".
# Every row of each table that is scored; with EVERY=N each N-th. JOBS at a time (default: the processors).
# Without tables: those of results/published. MAQUETTE: the program.
set -u
M=${MAQUETTE:-build/maquette}
if [ "${1:-}" = --row ]; then # JOB.ini PREDICTED: a line, "equal" or what differs
	ini=$2 want=$3 args=() at=$(mktemp -d)
	trap 'rm -rf "$at"' EXIT
	step() { awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "step_time_s") c = i } NR == 2 { print $c }' "$1/summary.csv" 2>/dev/null; }
	"$M" run "$ini" -o "$at/run" >"$at/said" 2>&1
	while IFS= read -r line; do
		key=${line%% = *} value=${line#* = }
		case $key in
		command | output) ;;
		*) [ "$value" = true ] && args+=("--$key") || args+=("--$key=$value") ;;
		esac
	done <"$ini"
	"$M" simulate "${args[@]}" -o "$at/simulate" >"$at/said2" 2>&1
	if [ "$(step "$at/run")" = "$want" ] && [ "$(step "$at/simulate")" = "$want" ]; then echo equal
	else echo "$ini: score $want, run $(step "$at/run"), simulate $(step "$at/simulate"): $(tail -n 1 "$at/said" | cut -c1-200)"; fi
	exit 0
fi
out=$1; shift
[ $# -gt 0 ] || set -- results/published/[a-z]*.csv
mkdir -p "$out"; : >"$out/.list"
for table in "$@"; do
	stem=$(basename "$table" .csv)
	"$M" score "$table" --write-jobs "$out/$stem.jobs" -o "$out/$stem" >/dev/null 2>"$out/$stem.err" || tail -n 1 "$out/$stem.err"
	[ -s "$out/$stem/score.csv" ] && python3 - "$out/$stem/score.csv" "$out/$stem.jobs" "${EVERY:-1}" <<'P' >>"$out/.list"
import csv, sys
rows = [r for r in csv.DictReader(open(sys.argv[1])) if r["predicted_s"]]
for r in rows[::int(sys.argv[3])]:
    print(f"{sys.argv[2]}/{r['row_id']}.ini\0{r['predicted_s']}", end="\0")
P
done
xargs -0 -r -n 2 -P "${JOBS:-$(nproc)}" "$0" --row <"$out/.list" >"$out/.answers"
grep -v '^equal$' "$out/.answers" | sort
n=$(wc -l <"$out/.answers"); same=$(grep -c '^equal$' "$out/.answers")
echo "$same of $n rows equal"
[ "$n" -gt 0 ] && [ "$same" -eq "$n" ]
