# Parameters planted in the mocks come back within 2 %: the whole way from probes to the calibration file.
export MAQUETTE_CUDART=$ROOT/$BUILD/mock/mock_cudart.so MAQUETTE_CUBLAS=$ROOT/$BUILD/mock/mock_cublas.so
export MAQUETTE_NCCL=$ROOT/$BUILD/mock/mock_nccl.so TMPDIR=$PWD
calibrate() { # SEED DRAWS
	MOCK_NOISE=0.005 MOCK_SEED=$1 "$MAQUETTE" calibrate --executor cuda --devices 2 --reps 5 --launches 1 \
		--draws "$2" -o c.json >log 2>&1 || cat log
}
near() { # NAME VALUE: fitted within 2 % of the value; counts how often the value is in the stated interval
	awk -v name="$1" -v want="$2" '$1 == name { found = 1; gsub(/[\[\],]/, " "); r = $2 / want
		if (r < .98 || r > 1.02) print name, $2, "instead of", want > "/dev/stderr"
		print ((want < $3 || want > $4) ? "outside " name : "inside") }
		END { if (!found) print name, "was not fitted" > "/dev/stderr" }' log >>intervals
}
product() { # eff x peak, since only their product is planted
	awk -v want="$1" '$1 == "gemm_eff" { e = $2 } END { while ((getline line < "c.json") > 0)
		if (line ~ /peak_bf16_flops/) { getline line < "c.json"; gsub(/[^0-9.e+]/, "", line)
		r = e * line / want; if (r < .98 || r > 1.02) print "eff x peak off by", r } }' log
}
for seed in 1 2 3 4 5; do
	calibrate $seed 100
	near launch_s 3e-06
	near copy_bw_Bps 25e9
	near gemm_t0_s 5e-06
	near gemm_kt 36
	near gemm_a0 14
	near gemm_q 0.4
	# bytes per second of sweeps, and calls: 12 us + bytes / 150 GB/s
	near all_reduce_t1_s 12.00005e-6
	near all_reduce_t7_s 25.981e-6
	near sendrecv_t9_s 906.785e-6
done
# Bootstrap intervals of five samples cover a little less than the 95 % that they state: 40 of these 45.
[ "$(grep -c inside intervals)" -ge 36 ] || sort intervals | uniq -c
calibrate 1 20
grep -c "held out" log
# The probes inside the simulator, communication included: what was fitted is what is simulated.
awk '/^the probes in the simulator/ { on = 1; next } on && $NF ~ /^[0-9.]+$/ { n++; if ($NF < .95 || $NF > 1.05) print }
	END { print n, "probes simulated" }' log
grep -o 'link class .*' log
# The node's platform is what NCCL said of it; where there is one GPU and so no NCCL, the usual machine.
grep -o 'the platform of this node.*' log
grep -c 'mq_type" value="unknown-GPU"' c.xml; grep -o 'mq_class" value="nv[a-z]*' c.xml | sort | uniq -c
MOCK_DEVICES=1 "$MAQUETTE" calibrate --executor cuda --reps 3 --launches 1 --draws 10 -o one.json 2>&1 | grep -o 'the platform of this node.*'
"$MAQUETTE" search -m gpt:layers=2,hidden=256,heads=4,vocab=1024,fused_attention=false --batch 8 --dtype bf16 -p c.xml --calib c.json -e expert --evals 3 -o s | head -n 1
"$MAQUETTE" calibrate --from c.samples --draws 20 --executor cuda -o again.json >again.log 2>&1 || cat again.log
cmp c.json again.json && echo "a fit of the same samples is the same, byte for byte"
