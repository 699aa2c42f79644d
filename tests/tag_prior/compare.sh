#!/usr/bin/env bash
# compare.sh MAQUETTE OUT.csv: on random questions that no training saw, playouts of engine tag until it is faster
# than data parallelism over everything, and until it is within 1 % of the best of the uniform prior's search;
# with the shipped prior, with an untrained network, and with a uniform prior. Two of the five models are not
# in the training set either. A playout that is never reached counts as one more than the budget.
# Environment: QUESTIONS (30), PLAYOUTS (400), SEED (1000).
set -eu
here=$(cd "$(dirname "$0")" && pwd); maquette=$(realpath "$1"); out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
first=4 # proposals before the tree search: the baselines
playouts=${PLAYOUTS:-400}; i=0
echo "question,model,batch,dtype,nic_GBps,devices,prior,baseline_s,best_s,speedup,to_baseline,to_uniform_best" >"$out"
"$here/questions.sh" "${QUESTIONS:-30}" "${SEED:-1000}" vgg19 transformer bert resnet50 gpt:layers=12,hidden=768,heads=12 |
while read -r model batch dtype nic mix; do
	"$maquette" platform generate --gpu "$mix" --nic_GBps "$nic" --name "q$i" -o "q$i.xml" >/dev/null
	for prior in uniform untrained shipped; do
		case $prior in uniform) o=gnn=false ;; untrained) o=weights=none ;; shipped) o=gnn=true ;; esac
		rm -rf "$prior"; "$maquette" search -m "$model" -p "q$i.xml" --batch "$batch" --dtype "$dtype" -j 1 --seed 1 \
			--evals $((playouts + first)) -e "tag:$o" -o "$prior" >log 2>&1 </dev/null || true
	done
	for prior in uniform untrained shipped; do
		awk -F, -v first=$first -v most="$playouts" -v who="$prior" -v q="$i,\"$model\",$batch,$dtype,$nic,$mix" '
			FNR == 1 { file++; for (k = 1; k <= NF; k++) c[$k] = k; next }
			$c["verdict"] !~ /^(ok|tight)$/ { next }
			{ t = $c["step_time_s"]; at = $c["index"] - first + 1 }
			file == 1 { if (at > 0 && (!best || t < best)) best = t; next }
			base == "" { base = t }
			at > 0 { if (!mine || t < mine) mine = t
				if (!beat && t < 0.99 * base) beat = at
				if (!reach && t <= 1.01 * best) reach = at }
			END { printf "%s,%s,%s,%s,%.4g,%d,%d\n", q, who, base, mine, mine ? base / mine : 0,
				beat ? beat : most + 1, reach ? reach : most + 1 }' \
			uniform/candidates.csv "$prior/candidates.csv" >>"$out"
	done
	i=$((i + 1))
done
