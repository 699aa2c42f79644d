# What executor cuda asks of NVIDIA's libraries is what the schedule says, call by call, and timelines keep its order;
# calls of NCCL are timed without their launch; wrong results are found before anything is timed.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
check=$ROOT/tests/check-replay
for step in "" --hold; do # held in its second run
	"$check" make cuda >gpu.jsonl; rm -rf gpu; mkdir gpu
	MOCK_DEVICES=3 MOCK_LOG=$PWD/gpu LD_PRELOAD=$MAQUETTE_CUDART "$REPLAY" --executor cuda $step --deadline 20 --warmup 0 --reps 1 -o gpu.csv gpu.jsonl &&
		"$check" check gpu.jsonl gpu.csv gpu
	MOCK_DEVICES=3 LD_PRELOAD=$MAQUETTE_CUDART "$REPLAY" --executor cuda $step --deadline 20 --warmup 1 --reps 2 -o gpu.csv gpu.jsonl &&
		"$check" check gpu.jsonl gpu.csv
done
grep -E '^(cublaslt|cudnn|nvrtc)=' gpu.csv.environment.txt | tr '\n' ' '; echo
# Without cuDNN and NVRTC, asked for or (NVRTC) because they are not there: as products, sweeps and copies, said so.
for nvrtc in off /nonexistent.so; do
	rm -rf gpu; mkdir gpu
	MAQUETTE_CUDNN=off MAQUETTE_NVRTC=$nvrtc MOCK_DEVICES=3 MOCK_LOG=$PWD/gpu LD_PRELOAD=$MAQUETTE_CUDART "$REPLAY" --executor cuda --deadline 20 --warmup 0 --reps 1 -o gpu.csv gpu.jsonl &&
		"$check" check --off gpu.jsonl gpu.csv gpu
done
# What is missing is named, before any rank is started; so is what a library has not.
for lack in CUBLASLT CUDNN; do env MAQUETTE_$lack=/nonexistent.so MOCK_DEVICES=3 "$REPLAY" --executor cuda -o x.csv gpu.jsonl; echo "-> $?"; done
printf 'int cublasCreate_v2, cublasDestroy_v2, cublasGetVersion_v2, cublasSetStream_v2, cublasSaxpy_v2, cublasGemmEx, cublasGemmStridedBatchedEx;\n' >old.c
cc -shared -o old.so old.c; MAQUETTE_CUBLAS=./old.so MOCK_DEVICES=3 "$REPLAY" --executor cuda -o x.csv gpu.jsonl; echo "-> $?"
hide() { sed 's/rank [012]/rank N/g; s/element [0-9]*/element I/; s/gave .* as/gave A as/; s/of [0-9.]*: NCCL/of B: NCCL/'; }
refused() { MOCK_DEVICES=3 "$REPLAY" --executor cuda --deadline 5 --warmup 0 --reps 1 -o x.csv odd.jsonl 2>&1 | hide | sort -u; [ "${PIPESTATUS[0]}" -ge 2 ] && echo refused; }
sed 's/"dtype":"fp8","m":64,/"dtype":"fp8","m":63,/' gpu.jsonl >odd.jsonl; refused
sed 's/"kind":"conv","phase":"forward","dtype":"bf16"/"kind":"conv","phase":"forward","dtype":"fp8"/' gpu.jsonl >odd.jsonl; refused
cp gpu.jsonl odd.jsonl; MOCK_FAIL=compile refused
# An all-reduce that lasts 12 us and takes the host 30 us to launch, in the machine's own time: read within 10 %.
task() { printf '{"id":%d,"device":%d,"stream":"comm","kind":"collective","comm":0,"coll":"all_reduce","bytes":8,"dtype":"fp32"}\n' "$1" "$2"; }
{ printf '{"maquette_schedule":1,"model":"m","plan_hash":"1","model_hash":"0","devices":[{"rank":0,"name":"gpu0","type":"G"},{"rank":1,"name":"gpu1","type":"G"}],"comms":[{"id":0,"purpose":"dp","ranks":[0,1]}],"ops":[],"works":[],"tasks":40}\n'
	for i in $(seq 0 2 38); do task "$i" 0; task $((i + 1)) 1; done; } >calls.jsonl
for launch in 30 3000; do # us; the longer one whatever else the machine does
	MOCK_REAL_TIME=1 MOCK_LAUNCH_US=$launch "$REPLAY" --executor cuda --hold --deadline 20 --warmup 1 --reps 9 -o calls.csv calls.jsonl && awk -F, '
		NR > 1 { k = $11 "," int($1 / 2); if ($6 > s[k]) s[k] = $6; if ($7 > f[k]) f[k] = $7 }
		END { for (k in s) print f[k] - s[k] }' calls.csv | sort -g | awk '{ t[NR] = $1 }
		END { m = 1e6 * t[int((NR + 1) / 2)]; print (m > 10.8 && m < 13.2 ? "12 us as planted" : "12 us read as " m) }'
done
# A call that does not return, and one whose result is wrong.
for fail in stuck:-1:15 refuse:0:7 wrong:1:0 wrong:0:1; do
	MOCK_FAIL=$fail "$REPLAY" --executor cuda --deadline 2 --warmup 0 --reps 1 -o x.csv calls.jsonl 2>&1 | hide | sort -u
	[ "${PIPESTATUS[0]}" -ge 3 ] || echo "$fail: exit status ${PIPESTATUS[0]}"
done
# Types that NCCL does not add are refused, before any rank starts to measure.
sed 's/"dtype":"fp32"/"dtype":"fp8"/' calls.jsonl >fp8.jsonl
"$REPLAY" --executor cuda --warmup 0 --reps 1 -o x.csv fp8.jsonl 2>&1 | hide; echo "-> ${PIPESTATUS[0]}"
