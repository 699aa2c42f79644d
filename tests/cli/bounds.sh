. "$ROOT/tests/cli/lib.sh.inc"
# No plan is faster than its lower bound, over ranges of devices, lengths and types: where causal attention is most of
# the work, where boards beat their data sheets, in fp32 on tensor cores.
below() { # STUDY ROWS: holds each row that has a step against its bound; there are so many at least
	rm -rf "$1"; "$M" whatif "$1.ini" -j 1 -o "$1" >/dev/null || bad=1
	awk -F, -v least="$2" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
		{ line = $0; while (match($0, /"[^"]*"/)) $0 = substr($0, 1, RSTART - 1) "x" substr($0, RSTART + RLENGTH) }
		$c["step_time_s"] > 0 { n++; if ($c["lower_bound_s"] > $c["step_time_s"]) { print "beats its bound: " line; f = 1 } }
		END { if (n < least) print n + 0 " rows"; exit f || n < least }' "$1/whatif.csv" || bad=1
}
cat >long.ini <<I
model = llama:layers=4,hidden=4096,heads=32
platform.gpu = RTX-3090, RTX-5090, RTX-4090, L40S, A100-SXM4-80GB, H100-SXM-80GB, B200, MI300X, T4, V100-32GB
seq = 2048, 65536, 1048576
batch = 1
mode = infer
software = generic, megatron-core
I
cat >exact.ini <<I
model = vgg11; resnet50; llama:layers=2,hidden=2048,heads=16,seq=1048576
platform.gpu = RTX-3090, A100-SXM4-80GB, H100-SXM-80GB, V100-32GB
dtype = fp32
software = generic, ddp
batch = 8
I
for study in long exact; do
	printf '%s\n' 'platform.nodes = 1' 'platform.gpus = 1' 'platform.memory_GB = 4000' 'engine = data-parallel' >>$study.ini
done
below long 60
below exact 20
# Faster parts never make a plan slower, on boards at their limit of power and with kernels of every kind.
for part in mem_bw flops clock; do
	cat >$part.ini <<-I
		model = gpt:size=125m; resnet50
		platform.gpu = B200, H200, L40S
		platform.nodes = 1
		platform.gpus = 1
		batch = 16
		software = ddp
		device.all.$part = 1, 1.3, 3
		engine = data-parallel
	I
	"$M" whatif $part.ini -j 1 -o $part >/dev/null || bad=1
	awk -F, -v part=$part 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { t = $c["step_time_s"]; n++ }
		$c["device.all." part] > 1 && t > last * 1.0001 { print "slower with more " part ": " $0 } { last = t }
		END { if (n != 18) print part, n " rows" }' $part/whatif.csv
done
# The FLOPs of MFU are the model's, whatever the plan: a vocabulary padded for more ranks adds none.
"$M" search -m llama:layers=2,hidden=1024,heads=16,vocab=50257 --batch 8 -p 8xA100-SXM4-80GB -e expert --fix cp=1 --fix pp=1 --evals 30 -j 1 -o padded >/dev/null
awk -F, 'NR > 1 && $5 > 0 { f = $5 * $7 * $10; n++; tp[$12]; if (!one) one = f; if (f / one > 1 + 1e-6 || f / one < 1 - 1e-6) print "FLOPs differ: " $0 }
	END { for (t in tp) k++; if (n < 6 || k < 3) print n " plans, " k " degrees" }' padded/candidates.csv
# A software that lets fp32 products use TF32 does so where the device has it.
step() { "$M" search -m vgg11 --batch 8 --dtype fp32 -e data-parallel -j 1 -o "$3" -p "gpu=$1 nodes=1 gpus=1" --software "$2" >/dev/null; sed -n 2p "$3/candidates.csv" | cut -d, -f5; }
for d in A100-SXM4-80GB V100-32GB; do
	echo "$d $(step $d ddp "$d.1") $(step $d ddp,tf32=0 "$d.0")"
done | awk '/A100/ ? !($2 < .8 * $3) : $2 != $3 { print "TF32 and fp32: " $0 }'
finish
