. "$ROOT/tests/cli/lib.sh.inc"
try 0 'Usage: maquette platform' platform --help
for w in generate check show import; do try 0 "Usage: maquette platform $w" platform $w --help; done
try 0 "ok: 16 devices on 4 machines" platform check cloud_v100_t4
# what is generated loads, and says what it is
try 0 'h100.xml' platform generate --nodes 4 --gpu H100-80GB --fabric rail --leaf 2 -o h100.xml
try 0 'ok: 32 devices on 4 machines' platform check h100.xml
try 0 'half to half, all at once: 800 GB/s each way' platform show h100.xml
try 0 'mix.xml' platform generate gpu=V100-16GB*2x4+T4*2x4 nics=1 nic_GBps=3 fabric=ethernet oversub=2 leaf=2 -o mix.xml
try 0 'T4 +T4 +network +3 ' platform show mix.xml
"$M" platform generate --nodes 4 --gpu H100-80GB --fabric rail --leaf 2 >again.xml
cmp h100.xml again.xml || bad=1
if command -v dot >/dev/null; then
	try 0 'devices' platform show h100.xml -o picture
	grep -q '<svg' picture.svg && head -c 8 picture.png | grep -q PNG || { echo "no picture"; bad=1; }
	"$M" platform show h100.xml -o /nowhere/picture.svg 2>&1 >/dev/null | grep -q 'dot could not write' || bad=1
else echo "skipped: drawings (no graphviz)"; fi
try 0 'devices' platform show h100.xml -o text.dot
grep -q 'NVSwitch' text.dot || bad=1
# bad usage
try 2 'say generate, check' platform
try 2 "no 'shwo'; did you mean 'show'" platform shwo
try 2 'unknown option --noodes; did you mean --nodes' platform generate --noodes 4
try 2 "no option 'noodes'; did you mean 'nodes'" platform generate noodes=4
try 2 'write KEY=VALUE' platform generate nodes
try 2 'nodes=x is not a number' platform generate --nodes x
try 2 'nodes=0 is out of range' platform generate --nodes 0
try 2 "did you mean" platform generate --gpu H100-SXM-80
try 2 'multiple of 8' platform generate nodes=7 fabric=dragonfly
try 2 'cannot write' platform generate -o /nowhere/x.xml
try 2 'is the disk full' platform generate -o /dev/full
[ -c /dev/full ] || { echo "/dev/full is gone"; bad=1; }
try 2 'give a platform file' platform check
try 2 "no platform 'dgx1_v101'; did you mean 'dgx1.v100'" platform check dgx1_v101
try 2 'none.xml: cannot open' platform show none.xml
# broken platforms: one line, never an abort
head='<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="r" routing="Full">'
gpu() { printf '<host id="%s" speed="1Tf"><prop id="mq_type" value="T4"/>%s</host>' "$1" "$2"; }
tail='</zone></platform>'
broken() { printf '%s' "$3" >broken.xml; try 2 "$2" platform check broken.xml; }
broken cut 'the XML is cut or broken' '<?xml version="1.0"?><platform version="4.1"><zone'
broken text 'the XML is cut or broken' 'hello'
broken unit 'unknown unit' "$head<host id='a' speed='1Gx'/>$tail"
broken route "no route from 'a' to 'b'" "$head$(gpu a)$(gpu b)$tail"
broken floyd "broken.xml: No route from 'a' to 'b'" "${head/Full/Floyd}$(gpu a)$(gpu b)$tail"
broken none 'has no device' "$head<host id='a' speed='1Tf'/>$tail"
broken rank 'both have mq_rank=1' "$head$(gpu a '<prop id="mq_rank" value="1"/>')$(gpu b '<prop id="mq_rank" value="1"/>')$tail"
broken number "mq_memory_B='much' is not a number" "$head$(gpu a '<prop id="mq_memory_B" value="much"/>')$tail"
broken kind "mq_kind='tpu' is none of" "$head$(gpu a '<prop id="mq_kind" value="tpu"/>')$tail"
broken class "mq_class='wet' is none of" "$head$(gpu a)<link id='l' bandwidth='1GBps' latency='1us'><prop id='mq_class' value='wet'/></link>$tail"
broken type 'T5000' "$head<host id='a' speed='1Tf'><prop id='mq_type' value='T5000'/></host>$tail"
# import
printf '\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n' >topo.txt
try 0 'mine.xml: 2 A100-SXM4-80GB, 1 sockets' platform import topo.txt --gpu A100 -o mine.xml
try 0 'machine +100 ' platform show mine.xml
try 2 'give --gpu TYPE' platform import topo.txt -o x.xml
try 0 'here.xml: [0-9]+ ' platform import --here -o here.xml
try 0 'ok: ' platform check here.xml
try 2 'give the file to read .*and -o' platform import topo.txt
try 2 'neither hwloc XML' platform import mine.xml -o x.xml
try 2 'cannot open' platform import nothing.txt -o x.xml
printf '<?xml version="1.0"?><topology version="2.0"><object type="Machine" cpuset="0x3"><object' >hwloc.xml
try 2 'hwloc.xml: ' platform import hwloc.xml -o x.xml
[ ! -e x.xml ] || { echo "a failed import left a file"; bad=1; }
for n in 0 1; do [ "$("$M" platform generate gpu=H100-SXM-80GB nodes=1 nvls=$n | grep -c mq_nvls)" = $n ] || { echo "nvls=$n"; bad=1; }; done
finish
