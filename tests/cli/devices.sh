. "$ROOT/tests/cli/lib.sh.inc"
# Platforms from keys, wherever a file is taken; device types of one's own, with a file and without.
mkdir tmp; export TMPDIR=$PWD/tmp
try 0 'x.xml' platform generate gpu=GB200,nodes=64,gpus=4,fabric=nvl72,domain=64 -o x.xml
try 0 'ok: 256 devices on 4 machines' platform check x.xml
try 0 'ok: 32 devices on 4 machines' platform check 'gpu=A100-SXM4-40GB*2x8+V100-32GB*2x8@3.125; nics=4'
try 0 'H800-SXM-80GB .*machine +200 ' platform show gpu=H800,nodes=2
try 2 "no option 'noodes'; did you mean 'nodes'" platform check gpu=H800,noodes=2
try 2 "gpu=H10O: no such device type; did you mean 'H100'" platform check gpu=H10O,nodes=2
try 2 "'H800': write KEY=VALUE" platform generate H800
# the question's -p: the same results as with the file, and run.ini brings them back
ask="-m $tiny --batch 8 -e expert --evals 4 -j 2"
"$M" platform generate gpu=A100-80GB nodes=2 gpus=2 network=roce -o a100.xml >/dev/null || bad=1
try 0 'on A100-SXM4-80GB-4: ' search $ask -p a100.xml -o file
try 0 'on A100-SXM4-80GB-4: ' search $ask -p 'gpu=A100-80GB; nodes=2,gpus=2 network=roce' -o keys
grep -qx 'platform = gpu=A100-80GB nodes=2 gpus=2 network=roce' keys/run.ini || { cat keys/run.ini; bad=1; }
try 0 'on A100-SXM4-80GB-4: ' run keys/run.ini -o again
cmp file/candidates.csv keys/candidates.csv && cmp keys/candidates.csv again/candidates.csv || bad=1
try 2 'written by another command' search $ask -p 'gpu=A100-80GB nodes=2 gpus=2 network=ib' -o keys
try 0 'step time' simulate -m $tiny --batch 8 -p gpu=A100-80GB,nodes=2,gpus=2,network=roce -P keys/plan-1.json -o sim
try 2 "no option 'nic'; did you mean 'nics'" search $ask -p gpu=A100-80GB,nic=2 -o none
try 2 "no such device type; did you mean 'L40S'" search $ask -p gpu=L4OS -o none
try 2 'gpu=RTX-6000: which one. RTX-6000-Ada, RTX-6000-Turing' platform generate gpu=RTX-6000
try 0 'GTX-1080 ' platform show gpu=1080,nodes=2
try 2 'gpu=Z9: no such device type; `maquette list devices` has all' platform generate gpu=Z9
try 2 'gpu=A100: which one. A100-PCIE-40GB, A100-PCIE-80GB, A100-SXM4-40GB, A100-SXM4-80GB' platform generate gpu=A100 nodes=2
# units as people say them
"$M" platform generate gpu=H100 nodes=2 nic=400Gb/s nvlink=450GB/s nic_us=500ns -o unit.xml >/dev/null || bad=1
"$M" platform generate gpu=H100 nodes=2 nic_GBps=50 nvlink_GBps=450 nic_us=0.5 -o bare.xml >/dev/null; cmp unit.xml bare.xml || bad=1
try 2 'nic_GBps=400GB is not a number or a quantity in GB/s' platform generate gpu=H100 nic_GBps=400GB
"$M" search $ask -p unit.xml --change link.nic.bw=100Gb/s -o abs >/dev/null; "$M" search $ask -p unit.xml --change link.nic.bw=0.25 -o rel >/dev/null
cmp abs/candidates.csv rel/candidates.csv || bad=1
try 2 'give a factor, or a value with its unit' search $ask -p unit.xml --change link.nic.bw=100Gb -o none
# a type without a file: what the platform says, and what had to be assumed
try 0 'assumed: MI999X: .*no fp8, .*; 196.1 GB of memory \(memory_GB=\); 6.535 TB/s to it .*; 1 port of 25 GB/s a machine .*; no price .*; no power' platform generate gpu=MI999X nodes=2 tflops=1307 -o mi.xml
try 0 'assumed: MI999X: .*efficiencies of its kernels as defaults; .*; edit mi.calib.json says more' search $ask -p mi.xml -o mi
python3 - <<'P' || bad=1
import json; d = json.load(open("mi.calib.json")); assert "no power" in d["assumed"] and "unvalidated" in d["source"], d
d["values"]["gemm_t0_s"]["value"] *= 9; json.dump(d, open("mi.calib.json", "w"))
P
try 0 'on MI999X-16: ' search $ask -p mi.xml -o mi3
cmp -s mi/candidates.csv mi3/candidates.csv && { echo "the calibration beside a platform is not read"; bad=1; }
"$M" platform generate gpu=MI300X tflops=1000 memory_GB=192 mem_GBps=5300 -o own300.xml | grep -qx own300.calib.json || bad=1
try 0 'MI300X +8 +1 +1000 +192' platform show own300.xml
try 0 'assumed: MI999X: ' search $ask -p gpu=MI999X,gpus=2,tflops=1307,memory_GB=192,bw_TBps=5.3 -o mi2
! "$M" platform generate gpu=MI999X tflops=1307 memory_GB=192 bw_TBps=5.3 2>&1 >/dev/null | grep . || bad=1
# the same in JSON and in a study, whose platforms keep their calibration
"$M" search $ask -p gpu=MI999X,gpus=2,tflops=1307,memory_GB=192,bw_TBps=5.3 --json -o mi4 2>said.txt >mi4.json || bad=1
printf 'model = %s\nbatch = 8\nengine = expert\nevals = 4\nplatform.gpu = MI999X\nplatform.gpus = 2\nplatform.tflops = 1307\nplatform.memory_GB = 192\nplatform.bw_TBps = 5.3\n' "$tiny" >study4.ini
"$M" whatif study4.ini --json -o study4 >study4.json 2>/dev/null || bad=1
python3 - <<'P' || bad=1
import json
text = json.load(open("mi4.json"))["assumed"]
assert open("said.txt").read().startswith("assumed: " + text) and "memory_GB" not in text, text
row = json.load(open("study4.json"))["whatif"][0]
one = json.load(open("mi4.json"))["plans"][0]
assert row["assumed"] == text, (row["assumed"], text)
assert row["step_time_s"] == one["step_time_s"], (row["step_time_s"], one["step_time_s"], row["plan"], one["plan"])
assert "assumed: " + text in open("study4/answers.txt").read()
P
sed '/<host/s/mq_mem_bw_Bps/mq_other/' mi.xml >less.xml
try 2 'state mq_memory_B and mq_mem_bw_Bps' platform check less.xml
# a file of one's own
cat >mine.json <<'J'
{"kind": "device", "name": "X1", "inherits": "H100-SXM-80GB", "aliases": ["mine"], "source": "here",
 "values": {"nvlink_Bps": 1e11, "memory_B": 4e10}}
J
try 0 'X1 +8 +1 +989.4 +40' platform show gpu=mine --calib mine.json
try 0 'on X1-8: ' search $ask -p gpu=X1 --calib mine.json -o mine
try 0 'own.xml' platform generate gpu=mine --calib mine.json -o own.xml
printf 'model = %s\nbatch = 8\nengine = expert\nevals = 2\ncalib = mine.json\nplatform.gpu = mine\nplatform.nodes = 1, 2\n' "$tiny" >study.ini
try 0 '.' whatif study.ini -o study
grep -q 'X1' study/report.html || { echo "the study has no X1"; bad=1; }
sed -i 's/H100-SXM-80GB/H100-SXM-8OGB/' mine.json
try 2 "mine.json: 'X1' inherits 'H100-SXM-8OGB', and there is no such device; did you mean 'H100-SXM-80GB'" platform show gpu=X1 --calib mine.json
[ -z "$(ls tmp)" ] || { echo "left behind: $(ls tmp)"; bad=1; }
# names as drivers and clouds print them
while IFS='|' read -r name type; do
	"$M" platform generate gpu="$name" -o named.xml >/dev/null && grep -q "mq_type\" value=\"$type\"" named.xml || { echo "'$name' is no $type"; bad=1; }
done <<'N'
NVIDIA H100 80GB HBM3|H100-SXM-80GB
NVIDIA H100 PCIe|H100-PCIE-80GB
NVIDIA A100-SXM4-40GB|A100-SXM4-40GB
NVIDIA A100 80GB PCIe|A100-PCIE-80GB
Tesla V100-SXM2-32GB|V100-SXM2-32GB
NVIDIA GeForce RTX 4090|RTX-4090
NVIDIA RTX 6000 Ada Generation|RTX-6000-Ada
NVIDIA GH200 480GB|GH200-96GB
AMD Instinct MI300X|MI300X
Standard_ND96amsr_A100_v4|A100-SXM4-80GB
p4d.24xlarge|A100-SXM4-40GB
a3-megagpu-8g|H100-SXM-80GB
N
try 0 'on H100-SXM-80GB-16: ' search -m gpt:layers=2 --batch 16 -p "gpu=NVIDIA H100 80GB HBM3 nodes=2" -e data-parallel --evals 1 -o named
# few of unlike devices are the fastest, whatever their ranks
for e in hybrid,refine,expert automap cem; do
	try 0 '.*' search -m $tiny --batch 8 -p 'gpu=RTX-A6000*1x2+L40S*2x2 network=roce' -e $e --evals 4 -j 2 --max devices=4 -o few.$e
	python3 - few.$e <<'P' || bad=1
import json, sys; used = {d for c in json.load(open(sys.argv[1] + "/plan-1.json"))["configs"] for d in c["devices"]}; assert used and used <= {2, 3, 4, 5}, used
P
done
finish
