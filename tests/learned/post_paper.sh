#!/usr/bin/env bash
# post_paper.sh MAQUETTE OUT.csv: Post and its parts taken alone on the models of its paper (Inception-v3, ResNet and RNNLM,
# GNMT as the translator), four P100 on PCIe, whole ops in fp32: best step time within EVALS plans. Three seeds, ten of GNMT.
# Environment: EVALS (600).
set -eu
maquette=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
echo "model,batch,devices,engine,seed,evals,best_step_time_s" >"$out"
for q in inception_v3:32:3 resnet50:32:3 rnnlm:64:3 gnmt:64:10; do
	IFS=: read -r model batch seeds <<<"$q"
	for e in post cem ppo reinforce; do for seed in $(seq "$seeds"); do
		rm -rf run; "$maquette" search -m "$model" --batch "$batch" --dtype fp32 -p "gpu=P100-PCIE-16GB,gpus=4" -e "$e" \
			--evals "${EVALS:-600}" --seed "$seed" -j 1 -o run >log 2>&1 </dev/null || cat log
		awk -F, -v head="$model,$batch,4,$e,$seed,${EVALS:-600}" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
			$c["verdict"] == "ok" && (!b || $c["step_time_s"] < b) { b = $c["step_time_s"] }
			END { print head "," b }' run/candidates.csv >>"$out"
	done; done
done
