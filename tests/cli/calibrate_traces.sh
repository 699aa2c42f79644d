# A calibration from a trace of PyTorch's profiler: what is in it, what is fitted, what is not.
. "$ROOT/tests/cli/lib.sh.inc"
trace=$DATA/traces/resnet_ddp_2gpu.pt.trace.json.gz
[ -r "$trace" ] || { echo "skipped: no $trace"; exit 77; }
cp "$trace" rank0.json.gz
"$M" calibrate --from rank0.json.gz -o t.json | sed -n '1,/products and sweeps/p'
cat t.calls.csv
"$M" platform show dgx_a100 --calib t.json >/dev/null 2>&1 || "$M" simulate -m "$tiny" --batch 8 -p dgx_a100 --calib t.json -o s >/dev/null || echo "the calibration cannot be used"
# Beside a prediction, class by class: what was measured is the trace's, whatever was predicted.
"$M" search -m resnet50 --batch 64 --dtype fp32 -p dgx_a100 --max devices=2 --fix dp=2 -e expert --evals 2 -o s >/dev/null || bad=1
"$M" validate s --against rank0.json.gz -o v >said || bad=1
grep -o '^most is off in idle' said; cut -d, -f1,3 v/against.csv
try 2 'is of rank 0|cannot open' validate s --against nothing.json -o x
# Unpacked it is the same; twice the same rank, half a file, and a file without a GPU are refused.
gzip -dc rank0.json.gz >rank0.json; "$M" calibrate --from rank0.json -o u.json >/dev/null && cmp t.calls.csv u.calls.csv && echo "the same unpacked"
cp rank0.json rank1.json
try 2 'both of rank 0' calibrate --from rank0.json --from rank1.json -o x.json
head -c 1000000 rank0.json >half.json; head -c 100000 rank0.json.gz >half.json.gz
try 2 'cut short after byte 1000000' calibrate --from half.json -o x.json
try 2 'is the file whole|cut short' calibrate --from half.json.gz -o x.json
echo '{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1}]}' >cpu.json
try 2 'not one kernel of a GPU' calibrate --from cpu.json -o x.json
echo '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":1}]}' >bare.json
try 2 'nothing to fit' calibrate --from bare.json -o x.json
finish
