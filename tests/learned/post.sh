#!/usr/bin/env bash
# post.sh MAQUETTE DATA OUT.csv: Post and its parts taken alone on the graphs of the placement data set, with 3 and
# with 6 accelerators: best step time within EVALS plans, for ten seeds each. DATA: its throughput-inputs folder.
# Environment: EVALS (600), SEEDS (10), GRAPHS (all layer graphs).
set -eu
maquette=$(realpath "$1") data=$(realpath "$2") out=$(realpath -m "$3")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
graphs=${GRAPHS:-$(cd "$data/LayerGraphs" && ls | sed 's/.json$//')}
echo "graph,accelerators,engine,seed,evals,best_step_time_s" >"$out"
for g in $graphs; do for k in 3 6; do
	sed -E "s/(\"maxFPGAs\": *)[0-9.]+/\1$k/" "$data/LayerGraphs/$g.json" >g.json
	for e in post cem ppo reinforce; do for seed in $(seq "${SEEDS:-10}"); do
		rm -rf run; "$maquette" search -m g.json -p model -e "$e" --evals "${EVALS:-600}" --seed "$seed" -j 1 -o run \
			>log 2>&1 </dev/null || true
		awk -F, -v head="$g,$k,$e,$seed,${EVALS:-600}" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
			$c["verdict"] == "ok" && (!b || $c["step_time_s"] < b) { b = $c["step_time_s"] }
			END { print head "," b }' run/candidates.csv >>"$out"
	done; done
done; done
