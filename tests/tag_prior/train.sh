#!/usr/bin/env bash
# train.sh MAQUETTE WEIGHTS: the prior that engine tag ships with, from scratch: uniform tree searches on 300
# random questions over six models, then training on what they ended at. About 20 minutes of one core.
# Environment: QUESTIONS (300), EVALS (600), EPOCHS (12), WORK (a temporary folder).
set -eu
here=$(cd "$(dirname "$0")" && pwd); maquette=$(realpath "$1"); weights=$(realpath -m "$2")
work=${WORK:-$(mktemp -d)}; mkdir -p "$work"; cd "$work"; rm -f records
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
i=0
"$here/questions.sh" "${QUESTIONS:-300}" 1 vgg19 inception_v3 resnet101 transformer bert bert:size=large |
while read -r model batch dtype nic mix; do
	"$maquette" platform generate --gpu "$mix" --nic_GBps "$nic" --name "q$i" -o "q$i.xml" >/dev/null
	rm -rf run; "$maquette" search -m "$model" -p "q$i.xml" --batch "$batch" --dtype "$dtype" -j 1 --seed 1 \
		--evals "${EVALS:-600}" -e "tag:gnn=false,records=$work/records" -o run >log 2>&1 </dev/null ||
		{ echo "left out: $model on $mix: $(tail -n 1 log)"; }
	i=$((i + 1))
done
"$maquette" solve records -e "tag:save=$weights,epochs=${EPOCHS:-12}" --seed 1
