#!/usr/bin/env bash
# questions.sh N SEED MODEL...: N random questions, a line each: model batch dtype nic_GBps mix-of-devices.
# 2 to 4 device types of 1 or 2 machines with 1, 2, 4 or 8 devices; at least 3 and at most 24 devices.
set -eu
n=$1 seed=$2; shift 2
awk -v n="$n" -v seed="$seed" -v models="$*" '
function pick(list, a, k) { k = split(list, a, " "); return a[1 + int(rand() * k)] }
BEGIN {
	srand(seed)
	types = "V100-SXM2-32GB V100-SXM2-16GB P100 1080Ti T4 RTX-2080Ti RTX-3090 A100-SXM4-40GB A40 L4"
	while (made < n) {
		k = 2 + int(rand() * 3); mix = ""; total = 0; split("", used)
		for (i = 0; i < k; i++) {
			do { t = pick(types) } while (t in used)
			used[t] = 1; nodes = 1 + int(rand() * 2); gpus = pick("1 2 4 8"); total += nodes * gpus
			mix = mix (i ? "+" : "") t "*" nodes "x" gpus
		}
		if (total < 3 || total > 24) continue
		print pick(models), pick("48 96 120 192"), pick("fp32 fp16"), pick("1.25 2.81 6.25 12.5"), mix
		made++
	}
}'
