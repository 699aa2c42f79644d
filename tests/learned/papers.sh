#!/usr/bin/env bash
# papers.sh MAQUETTE OUT.csv: the published engines on the questions of their papers, and what these compare them with: the
# best verdict within PLANS plans (learned engines; list schedules propose one plan) for SEEDS seeds. The row "single" is the
# best device alone. Environment: PLANS (1000), SEEDS (3), ONLY (a paper).
#   placement  Post and the hierarchical planner: training in fp32; P100 over PCIe, not K80; recurrent networks unrolled
#   hsdag      inference of one sample, 503 plans; the GPU's clock makes CPU : GPU what the paper's table has
set -eu
maquette=$(realpath "$1") out=$(realpath -m "$2") here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ask() { # PAPER NAME DEVICES ENGINE PLANS SEED ARGUMENTS...
	local head="$1,$2,$3,$4,$6,$5" engine=$4 plans=$5 seed=$6
	[ "$engine" = single ] && engine=cem plans=$3
	case $4 in exec:*) head="$1,$2,$3,by-layer,$6,$5";; esac
	shift 6; rm -rf run
	"$maquette" search "$@" -e "$engine" --evals "$plans" --seed "$seed" -j 1 -o run >log 2>&1 </dev/null || tail -1 log >&2
	awk -F, -v head="$head" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
		$c["verdict"] == "ok" && (!b || $c["step_time_s"] < b) { b = $c["step_time_s"] }
		END { print head "," b }' run/candidates.csv >>"$out"
}
seeds() { for seed in $(seq "${SEEDS:-3}"); do ask "$1" "$2" "$3" "$4" "$5" "$seed" "${@:6}"; done; }
echo "paper,question,devices,engine,seed,plans,best_step_time_s" >"$out"
n=${PLANS:-1000}
[ "${ONLY:-placement}" != placement ] || while read -r name devices model batch; do
	case $model in rnnlm | nmt:*) IFS=: read -r kind layers hidden vocab <<<"$model:4:2048:10000"
		[ "$kind" = rnnlm ] || { hidden=1024 vocab=30000; }
		python3 "$here/unrolled.py" "$kind" "$layers" "$hidden" "$vocab" 40 "$batch" >"$name.jsonl"; model=$name.jsonl;; esac
	question=(-m "$model" --batch "$batch" --dtype fp32 -p "gpu=P100-PCIE-16GB,gpus=$devices")
	for e in single m-topo m-etf m-sct heft metis data-parallel; do ask placement "$name" "$devices" $e 1 1 "${question[@]}"; done
	[ ! -f "$model" ] || ask placement "$name" "$devices" "exec:$here/by_layer.py" 1 1 "${question[@]}"
	for e in post cem ppo reinforce hsdag; do seeds placement "$name" "$devices" $e "$n" "${question[@]}"; done
	for e in mcmc tag automap; do ask placement "$name" "$devices" $e 300 1 "${question[@]}"; done
done <<-LIST
	inception-2 2 inception_v3 32
	inception-4 4 inception_v3 32
	resnet50-2 2 resnet50 32
	rnnlm-2 2 rnnlm 64
	nmt-2 2 nmt:2 64
	nmt-4 4 nmt:4 64
LIST
[ "${ONLY:-hsdag}" != hsdag ] || while read -r name clock model seq; do
	question=(-m "$model" $seq --batch 1 --mode infer --dtype fp32 -p cpu_gpu_ws --change "device.RTX-3090.clock=$clock")
	for e in single m-etf m-sct heft metis; do ask hsdag "$name" 2 $e 4 1 "${question[@]}"; done
	for e in hsdag hsdag:levels=1 post cem; do SEEDS=$((2 * ${SEEDS:-3})) seeds hsdag "$name" 2 $e 503 "${question[@]}"; done
done <<-LIST
	inception 0.255 inception_v3
	resnet50 0.41 resnet50
	bert-base 0.553 bert:size=base --seq=128
LIST
