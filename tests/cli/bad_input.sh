. "$ROOT/tests/cli/lib.sh.inc"
good=dgx1_v100
search() { local rc=$1 re=$2; shift 2; try $rc "$re" search --batch 4 -e expert --evals 2 -o o "$@"; }
# platforms
printf '<?xml version="1.0"?><platform version="4.1"><zone' >cut.xml
head='<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="r" routing="Full">'
echo "$head<host id=\"a\" speed=\"1Gx\"/></zone></platform>" >unit.xml
echo "$head</zone></platform>" >nobody.xml
gpu() { echo "<host id=\"$1\" speed=\"15Tf\"><prop id=\"mq_type\" value=\"$2\"/></host>"; }
echo "$head$(gpu a V100-SXM2-16GB)$(gpu b V100-SXM2-16GB)</zone></platform>" >noroute.xml
echo "$head$(gpu a NoSuchGPU-3000)</zone></platform>" >notype.xml
# a platform describes hardware: it may not configure, include, read or start anything
two="$(gpu a V100-SXM2-16GB)$(gpu b V100-SXM2-16GB)"
echo "${head/<zone/<config><prop id=\"tracing\" value=\"yes\"/><prop id=\"tracing/filename\" value=\"made\"/></config><zone}$two</zone></platform>" >config.xml
echo "$head$two<include file=\"/etc/passwd\"/></zone></platform>" >include.xml
echo "${head/simgrid.dtd\"/simgrid.dtd\" [<!ENTITY x SYSTEM \"/etc/passwd\">]}$two</zone></platform>" >entity.xml
echo "$head${two/speed=/speed_file=\"\/etc\/passwd\" speed=}</zone></platform>" >profile.xml
echo "$head$two<actor host=\"a\" function=\"f\"/></zone></platform>" >actor.xml
search 2 'config.xml:3: <config> describes no hardware' -m $tiny -p config.xml
search 2 'include.xml:3: <include> describes no hardware' -m $tiny -p include.xml
search 2 'entity.xml:2: .*entities of its own' -m $tiny -p entity.xml
search 2 'profile.xml:3: speed_file of a <host>' -m $tiny -p profile.xml
search 2 'actor.xml:3: <actor> describes no hardware' -m $tiny -p actor.xml
[ ! -e made ] || { echo "a platform wrote a file"; bad=1; }
cluster() { echo "<cluster id=\"$1\" router_id=\"router_$1\" prefix=\"$1\" radical=\"0-1\" suffix=\"\" speed=\"1Tf\" bw=\"1GBps\" lat=\"5us\"><prop id=\"mq_type\" value=\"T4\"/></cluster>"; }
echo "$head$(cluster g)$(cluster m)<link id=\"l\" bandwidth=\"1GBps\" latency=\"5us\"/><zoneRoute src=\"g\" dst=\"m\" gw_src=\"router_m\" gw_dst=\"router_g\"><link_ctn id=\"l\"/></zoneRoute></zone></platform>" >gateways.xml
search 2 'SimGrid refuses the platform: .*gw_src router_m belongs to m, not to g' -m $tiny -p gateways.xml
search 2 'none.xml' -m $tiny -p none.xml
search 2 'cut.xml' -m $tiny -p cut.xml
search 2 'unit.xml' -m $tiny -p unit.xml
search 2 'nobody.xml|no device' -m $tiny -p nobody.xml
search 2 'NoSuchGPU-3000' -m $tiny -p notype.xml
search 2 '/dev/null' -m $tiny -p /dev/null
search 2 "no platform 'dgx1_v10'; did you mean 'dgx1.v100'" -m $tiny -p dgx1_v10
try 1 "invalid: .*no route from 'a' to 'b'" search --batch 4 -m $tiny -p noroute.xml -e data-parallel --evals 2 -o o
# models
head -c 300 /dev/zero | tr '\0' '\377' >noise.onnx
echo '{"hidden_size": -4}' >config.json
echo '{"model_type": "llama", "hidden_size": -4, "num_hidden_layers": 2, "num_attention_heads": 2}' >negative.json
echo '{"nodes": [' >cut.json
search 2 'noise.onnx' -m noise.onnx -p $good
search 2 'config.json' -m config.json -p $good
search 2 'negative.json' -m negative.json -p $good
search 2 'cut.json' -m cut.json -p $good
search 2 'none.onnx' -m none.onnx -p $good
search 2 'nosuchmodel' -m nosuchmodel -p $good
search 2 'layers=-1' -m gpt:layers=-1 -p $good
search 2 'hidden=nan' -m gpt:layers=2,hidden=nan -p $good
search 2 'hiden' -m gpt:layers=2,hiden=64 -p $good
cat >cycle.json <<'J'
{"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 1,
 "nodes": [{"id": 1, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "size": 1},
           {"id": 2, "supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, "size": 1}],
 "edges": [{"sourceId": 1, "destId": 2, "cost": 1}, {"sourceId": 2, "destId": 1, "cost": 1}]}
J
search 2 'cycle' -m cycle.json -p model
sed 's/"fpgaLatency": 1/"fpgaLatency": -1/' cycle.json >minus.json
search 2 'minus.json' -m minus.json -p model
search 2 'brings no devices' -m $tiny -p model
# plans
plan() { try "$1" "$2" simulate -m $tiny --batch 4 -p $good -P "$3" -o o; }
echo '{"ops": [' >cut_plan.json
plan 2 'cut_plan.json:' cut_plan.json
plan 2 'none.json' none.json
echo '[1, 2]' >list.json; plan 2 'list.json' list.json
echo '{}' >empty.json; plan 2 'empty.json' empty.json
"$M" search -m $tiny --batch 4 -p $good -e expert --evals 2 -o sound >/dev/null 2>&1 || echo "the sound search fails"
sed 's/"devices": \[[^]]*\]/"devices": [99]/' sound/plan-1.json >far.json
plan 2 'far.json' far.json
sed 's/"devices": \[[^]]*\]/"devices": ["no-such-gpu"]/' sound/plan-1.json >name.json
plan 2 'no-such-gpu' name.json
try 2 'far.json' search -m $tiny --batch 4 -p $good --start far.json -e expert -o o2
# calibrations
echo '{"kind": "device", "name": "X", "values": {"gemm_eff": "fast"}}' >calib.json
search 2 'calib.json' -m $tiny -p $good --calib calib.json
search 2 'nocalib.json' -m $tiny -p $good --calib nocalib.json
# what does not fit is a verdict: exit 1, with the device and the bytes
try 1 'no feasible plan' search -m gpt:layers=2,hidden=65536,heads=64 --batch 8 -p $good -e data-parallel --evals 3 -o big
grep -q ',oom,' big/candidates.csv || { echo "no verdict oom"; bad=1; }
finish
