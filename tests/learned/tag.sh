#!/usr/bin/env bash
# tag.sh MAQUETTE OUT.csv: engine tag on TAG's testbed, the paper's six models and batches in fp32: step time of data
# parallelism over all GPUs (all-reduce), and of the best plan within 50, 800 and 2,000 playouts.
set -eu
maquette=$(realpath "$1") out=$(realpath -m "$2")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
bert=vocab=305220,heads=16
echo "model,batch,seq,baseline,baseline_s,speedup_50,speedup_800,speedup_2000,heterog_2000,devices,plan" >"$out"
while read -r name model batch seq; do
	for o in heterog=false heterog=true; do
		dir=${o#heterog=}; rm -rf "$dir"; "$maquette" search -m "$model" --batch "$batch" ${seq:+--seq "$seq"} --dtype fp32 -p tag_testbed \
			-e "tag:$o" --evals 2004 --seed 1 -j 1 -o "$dir" >log 2>&1 </dev/null || cat log
	done
	awk -F, -v head="$name,$batch,${seq:-}" '
		FNR == 1 { file++; for (i = 1; i <= NF; i++) c[$i] = i; next }
		{ t = $c["step_time_s"]; n = $c["index"] - 3 }
		file == 1 && base == "" && $c["verdict"] ~ /^(ok|tight)$/ { base = t; kind = $c["index"] ? "model-parallel" : "data-parallel" }
		$c["verdict"] != "ok" { next }
		file == 2 { if (!h || t < h) h = t; next }
		n <= 50 && (!a || t < a) { a = t }
		n <= 800 && (!b || t < b) { b = t }
		!d || t < d { d = t; devices = $c["devices"]; plan = $0; sub(/^.*,"/, "\"", plan); sub(/",.*/, "\"", plan); if (plan !~ /^"/) plan = $NF }
		END { printf "%s,%s,%s,%.3f,%.3f,%.3f,%.3f,%s,%s\n", head, kind, base, base / a, base / b, base / d, base / h,
			devices, plan }' false/candidates.csv true/candidates.csv >>"$out"
done <<-LIST
	inception_v3 inception_v3 120
	resnet101 resnet101 120
	vgg19 vgg19 120
	transformer transformer 600 10
	bert_small bert:layers=4,hidden=1024,ffn=1024,$bert 32 128
	bert_large bert:layers=24,hidden=2048,ffn=2048,$bert 32 128
LIST
