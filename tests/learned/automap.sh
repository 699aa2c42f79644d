#!/usr/bin/env bash
# automap.sh MAQUETTE OUT.csv: engine automap on the questions of its paper: operator partitioning of VGG-19 and T5-base
# (weights split, and after how many plans all of those that pay off or can be split were), pipeline cuts of a BERT of
# 48 layers on 2, 3 and 4 machines of 8 V100 with 25 Gbit/s between them. cpu_s: user time of the whole command.
# `machines` is the same pipeline with stages cut at machine boundaries, all micro-batch counts and recomputations.
set -eu
maquette=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
TIMEFORMAT=%U
echo "question,seed,plans,cpu_s,weights_split,first_found_after,step_time_s,cuts" >"$out"
weights() { # RUN: most weights split, and the first plan that does so
	awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
		$c["engine_objective"] > m { m = $c["engine_objective"]; at = $c["index"] + 1 }
		$c["verdict"] == "ok" && (!b || $c["step_time_s"] < b) { b = $c["step_time_s"] } END { print m "," at "," b }' "$1/candidates.csv"
}
for seed in $(seq "${SEEDS:-3}"); do
	for q in vgg19:128:true:100 t5:16:true:100 t5:16:false:500; do
		IFS=: read -r model batch tie evals <<<"$q"; rm -rf run
		cpu=$( { time "$maquette" search -m "$model" --batch "$batch" -p dgx1_v100 -j 1 --seed "$seed" --evals "$evals" \
			-e "automap:mode=opp,reward=count,tie=$tie,explore=$((evals / 2))" -o run >log 2>&1 </dev/null; } 2>&1 )
		echo "$model tie=$tie,$seed,$evals,$cpu,$(weights run)," >>"$out"
	done
	for nodes in 2 3 4; do
		"$maquette" platform generate --gpu V100-SXM2-16GB --nodes "$nodes" --gpus 8 --nics 1 --nic_GBps 3.125 \
			--network eth -o p.xml >/dev/null
		for cuts in 3 0; do
			rm -rf run
			cpu=$( { time "$maquette" search -m bert:layers=48,hidden=1024,heads=16 --batch 512 -p p.xml -j 1 --seed "$seed" \
				--evals 1000 -e "automap:mode=pp,stages=$nodes,cuts=$cuts,explore=600" -o run >log 2>&1 </dev/null; } 2>&1 )
			[ $cuts = 0 ] && name=machines || name=bert-48
			awk -F, -v head="$name x$nodes,$seed,1000,$cpu,," 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
				$c["verdict"] == "ok" && (!b || $c["step_time_s"] < b) { b = $c["step_time_s"]; at = $c["index"] + 1; plan = $0 }
				END { sub(/^[^"]*/, "", plan); print head at "," b "," plan }' run/candidates.csv >>"$out"
		done
	done
done
