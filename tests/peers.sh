#!/usr/bin/env bash
# peers.sh MAQUETTE OUT.csv [TABLE...]: plans that other planners chose or tried (AMP's trials, Sailor's plans: tables of
# results/published) beside ours, all judged by our simulator: per question (model, cluster, batch, software) the
# fastest of theirs that ran, and portfolio's best within EVALS (200) plans or SECONDS_EACH of clock time. Exit code 5
# where one of theirs is faster than ours. Alpa's and Galvatron's own plans are in no table at hand.
set -euf
maquette=$(realpath "$1"); out=$(realpath -m "$2"); shift 2
if [ $# -eq 0 ]; then set -- results/published/amp_aws_t4_v100.csv results/published/sailor_gh200_and_hetero.csv; fi
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
keys="model platform software batch seq dtype grad-dtype optimizer"
for table in "$@"; do
	name=$(basename "$table" .csv)
	"$maquette" score "$table" --write-jobs "$work/$name" -o "$work/score-$name" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
	# row, verdict, prediction; what is asked, option by option, is in the row's job
	awk -F, 'NR > 1 && $3 != "" && $2 !~ /oom/ { print $1, $3 }' "$work/score-$name/score.csv" | while read -r row step; do
		ask=$(awk -v keys="$keys" 'BEGIN { n = split(keys, k, " "); for (i = 1; i <= n; i++) want[k[i]] = 1 }
			($1 in want) && $2 == "=" { v = $0; sub(/^[^=]*= /, "", v); printf "--%s\t%s\t", $1, v }' "$work/$name/$row.ini")
		printf '%s|%s|%s|%s\n' "$ask" "$step" "$name" "$row"
	done
done | sort -t'|' -k1,1 -k2,2g | awk -F'|' '{ n[$1]++ } !($1 in best) { best[$1] = $2 "|" $3 "|" $4; order[++m] = $1 }
	END { for (i = 1; i <= m; i++) print order[i] "|" best[order[i]] "|" n[order[i]] }' >"$work/questions"
echo "table,model,platform,batch,plans,their_row,their_step_time_s,portfolio_evals,portfolio_step_time_s,ratio" >"$out"
while IFS='|' read -r ask theirs table row plans; do
	IFS=$'\t' read -ra args <<<"$ask"
	rm -rf "$work/run"
	"$maquette" search "${args[@]}" -e portfolio --evals "${EVALS:-200}" ${SECONDS_EACH:+--seconds "$SECONDS_EACH"} -j 1 -o "$work/run" \
		>"$work/log" 2>&1 </dev/null || { echo "peers: $row:"; tail -n 2 "$work/log"; }
	ours=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { n++ }
		$c["verdict"] ~ /^(ok|tight)$/ && (!b || $c["step_time_s"] + 0 < b + 0) { b = $c["step_time_s"] } END { print n + 0 "," b }' "$work/run/candidates.csv")
	value() { for ((i = 0; i < ${#args[@]}; i += 2)); do [ "${args[i]}" != "--$1" ] || echo "${args[i + 1]}"; done; }
	printf '%s,"%s","%s",%s,%d,%s,%s,%s,%s\n' "$table" "$(value model)" "$(value platform)" "$(value batch)" "$plans" "$row" "$theirs" "$ours" \
		"$(awk -v a="${ours#*,}" -v b="$theirs" 'BEGIN { printf "%.4g", (a > 0 ? a / b : 99) }')" >>"$out"
done <"$work/questions"
awk -F, 'NR > 1 { n++; bad += $NF > 1 } END { printf "%d questions, a plan of theirs is faster in %d\n", n, bad; exit bad ? 5 : 0 }' "$out"
