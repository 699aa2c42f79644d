#!/usr/bin/env bash
# hsdag.sh MAQUETTE OUT.csv: engine hsdag for inference on a workstation of one CPU and one GPU, batch 1: all on the
# CPU, the best single device, and the best placement within 500 plans (25 episodes of 20) for ten seeds.
# "clock-0.38" is the same machine with a GPU slowed down until Inception-v3 takes as long on it as on the CPU, as
# it nearly does on the paper's machine.
set -eu
maquette=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
echo "machine,model,seed,cpu_s,best_single_s,best_s,gain_over_cpu_percent,gain_over_single_percent" >"$out"
while read -r machine change; do
	for model in inception_v3 resnet50 bert; do for seed in $(seq "${SEEDS:-10}"); do
		rm -rf run; "$maquette" search -m "$model" --batch 1 --mode infer --dtype fp32 -p cpu_gpu_ws $change -e hsdag \
			--evals 503 --seed "$seed" -j 1 -o run >log 2>&1 </dev/null || cat log
		awk -F, -v head="$machine,$model,$seed" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
			$c["verdict"] == "ok" { t = $c["step_time_s"]; if (!b || t < b) b = t
				if ($c["index"] < 2) { if ($c["index"] == 0) first = t; else second = t } }
			END { cpu = first > second ? first : second; one = first < second ? first : second
				printf "%s,%s,%s,%s,%.2f,%.2f\n", head, cpu, one, b, 100 * (1 - b / cpu), 100 * (1 - b / one) }' \
			run/candidates.csv >>"$out"
	done; done
done <<-LIST
	cpu_gpu_ws
	clock-0.38 --change device.RTX-3090.clock=0.38
LIST
