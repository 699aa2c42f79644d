# Parameters planted in the mocks come back within 2 %: the whole way from probes to the calibration file.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
export LD_PRELOAD=$MAQUETTE_CUDART # the host's clock is the mocks' too
calibrate() { # SEED DRAWS
	MOCK_NOISE=0.005 MOCK_SEED=$1 "$MAQUETTE" calibrate --executor cuda --devices 2 --reps 5 --launches 1 \
		--draws "$2" -o c.json >log 2>&1 || cat log
}
near() { # NAME VALUE [SHARE]: fitted within 2 % of the value, or that share; counts how often the value is in the stated interval
	awk -v name="$1" -v want="$2" -v off="${3:-.02}" '$1 == name && $3 != "shapes" { found = 1; gsub(/[\[\],]/, " "); r = $2 / want
		if (r < 1 - off || r > 1 + off) print name, $2, "instead of", want > "/dev/stderr"
		print ((want < $3 || want > $4) ? "outside " name : "inside") }
		END { if (!found) print name, "was not fitted" > "/dev/stderr" }' log >>intervals
}
product() { # SHARE VALUE: that share of the peak, since only their product is planted
	awk -v name="$1" -v want="$2" '$1 == name && $3 != "shapes" { e = $2 } END { while ((getline line < "c.json") > 0)
		if (line ~ /peak_bf16_flops/) { getline line < "c.json"; sub(/.*: */, "", line); found = 1
		r = e * line / want; if (r < .98 || r > 1.02) print name, "x peak off by", r }
		if (!found) print name, "x peak was not fitted" }' log
}
for seed in 1 2 3 4 5; do
	calibrate $seed 40
	near launch_s 3e-06
	near copy_bw_Bps 25e9
	near gemm_t0_s 5e-06
	near gemm_kt 36 .03 # what a tile costs beside its steps: small shapes alone tell
	near gemm_a0 14
	near gemm_q 0.4
	product gemm_eff 328e12; product conv_eff 244e12
	near optimizer_share 0.66
	# bytes per second of sweeps, and calls: 12 us + bytes / 150 GB/s
	near all_reduce_t1_s 12.00005e-6
	near all_reduce_t7_s 25.981e-6
	near sendrecv_t9_s 906.785e-6
done
# Bootstrap intervals of five samples cover a little less than the 95 % that they state: 44 of these 50.
[ "$(grep -c inside intervals)" -ge 40 ] || sort intervals | uniq -c
calibrate 1 20
# What runs as something else is fitted to nothing: without cuDNN and NVRTC none of the three.
grep -c attention_scale log
MAQUETTE_CUDNN=off MAQUETTE_NVRTC=off "$MAQUETTE" calibrate --executor cuda --devices 2 --reps 3 --launches 1 --draws 10 -o bare.json >bare.log 2>&1 || cat bare.log
grep -cE '^ *(conv_eff|optimizer_share|attention_scale)' bare.log
grep -c "held out" log
# The probes inside the simulator, communication included: what was fitted is what is simulated.
awk '/^the probes in the simulator/ { on = 1; next } on && $NF ~ /^[0-9.]+$/ { n++; if ($NF < .95 || $NF > 1.05) print }
	END { print n, "probes simulated" }' log
grep -o 'link class .*' log
# The node's platform is what NVML and CUDA say of it, without NVML what NCCL does, and where neither can (one GPU
# without NVML is described by CUDA alone), links as is usual.
grep -o 'the platform of this node.*' log
grep -c 'mq_type" value="Mock-GPU"' c.xml; grep -o 'mq_class" value="nv[a-z]*' c.xml | sort | uniq -c
MOCK_DEVICES=1 "$MAQUETTE" calibrate --executor cuda --reps 3 --launches 1 --draws 10 -o one.json 2>&1 | grep -o 'the platform of this node.*'
look() { # what the importer makes of four GPUs' topology: links by class, routes between the first and the others
	MOCK_DEVICES=4 "$REPLAY" --executor cuda --warmup 0 --reps 1 -o topo c.samples/empty.jsonl c.samples/memory.jsonl &&
		"$MAQUETTE" platform import topo/$1 --gpu A100-PCIE-80GB -o topo.xml >/dev/null &&
		grep -o 'mq_class" value="[a-z-]*' topo.xml | sort | uniq -c | awk '{ printf "%s %s, ", $1, substr($3, 8) } END { print "" }' &&
		sed -n 's/.*src="dev0" dst="\(dev[0-9]\)">/\1 /p' topo.xml | sed 's/<link_ctn id="\([a-z0-9_]*\)"[^>]*>/\1 /g; s/<.route>//'
	rm -rf topo topo.xml
}
MOCK_LINKS=pairs look topology.xml
MOCK_LINKS=none MOCK_NO_PEERS=1 look topology.xml
MAQUETTE_NVML=/nonexistent MOCK_DEVICES=2 "$REPLAY" --executor cuda --warmup 0 --reps 1 -o nccl c.samples/comm.jsonl c.samples/empty.jsonl; ls nccl | grep topology
# A CPU beside the GPU: its own entry, the calls between the two, and its place in the platform; in the machine's time.
unset LD_PRELOAD
MOCK_DEVICES=1 "$MAQUETTE" calibrate --executor cuda --cpus 1 --cores 1 --cpu-type C --reps 3 --launches 1 --draws 2 -o w.json >w.log 2>&1 || cat w.log
tail -n 1 w.log; grep -c '"kind"' w.json
grep -o 'mq_type" value="[^"]*"\|mq_kind" value="[^"]*"\|<route src="dev0" dst="dev1"><link_ctn id="[a-z0-9]*"' w.xml
awk '/^between/ { on = 1 } on && $1 == "sendrecv_t9_s" { print ($2 > .8 * 134217728 / 25e9 ? "copies of the GPU are in it" : $2) }' w.log
"$MAQUETTE" calibrate --executor cuda --from w.samples --draws 2 -o w2.json >/dev/null 2>&1 && cmp w.json w2.json && echo "and again from the samples"
"$MAQUETTE" calibrate --cpus 1 -o x.json 2>&1; "$MAQUETTE" calibrate --executor cuda --devices 1 --type G --cpus 1 --cores 4 --cpu-type C --schedule-only --samples e -o e.json | sed 's/ e.[a-z]*.jsonl.*//'
"$MAQUETTE" search -m gpt:layers=2,hidden=256,heads=4,vocab=1024,fused_attention=false --batch 8 --dtype bf16 -p c.xml --calib c.json -e expert --evals 3 -o s | head -n 1
"$MAQUETTE" calibrate --from c.samples --draws 20 --executor cuda -o again.json >again.log 2>&1 || cat again.log
cmp c.json again.json && echo "a fit of the same samples is the same, byte for byte"
