. "$ROOT/tests/cli/lib.sh.inc"
good=dgx1_v100
try 2 "unknown command 'serach'; did you mean 'search'" serach
try 2 "unknown command 'nosuchcommand'" nosuchcommand
try 2 'unknown option --modle; did you mean --mode' search --modle x
try 2 'unknown option --frobnicate' search --frobnicate
try 2 'option requires an argument' search -m
try 2 '\-m is missing' search -p $good -o o
try 2 '\-p is missing' search -m $tiny -o o
try 2 '\-o is missing' search -m $tiny -p $good
try 2 '\-\-batch 0: give a whole number' search --batch 0 -m $tiny -p $good -o o
try 2 '\-\-batch -3: give a whole number' search --batch -3 -m $tiny -p $good -o o
try 2 '\-\-batch nan: give a whole number' search --batch nan -m $tiny -p $good -o o
try 2 '\-\-dtype fp12: give one of fp32' search --dtype fp12 -m $tiny -p $good -o o
try 2 '\-\-dtype int8: give one of fp32' search --dtype int8 -m $tiny -p $good -o o
try 2 'option --products is now --gemm-dtype' search --products fp8 -m $tiny -p $good -o o
printf 'command = search\ndocuments = 100\n' >old.ini; try 2 'option --documents is now --sequence-packing' run old.ini
try 2 '\-\-gemm-dtype bf16: give one of dtype fp8 mxfp8 fp4' search --gemm-dtype bf16 -m $tiny -p $good -o o
try 2 'no device of .dgx1_v100. can run .* in fp8; choose another platform, --dtype or --gemm-dtype' \
	search --gemm-dtype fp8 --batch 4 -m $tiny -p $good -e data-parallel -o o
try 2 '\-\-fix tp: give KEY=VALUE' search --fix tp -m $tiny -p $good -o o
try 2 '\-\-fix tp: it is given twice' search --fix 'tp=2 pp=1' --fix tp=4 -m $tiny -p $good -o o
try 2 '^maquette export: nowhere/plan-1.json: cannot open' export nowhere/plan-1.json --to megatron
try 2 '\-\-fix tp -1: give a whole number' search --fix tp=-1 -m $tiny -p $good -o o
try 2 '\-\-fix schedule gipe: give one of gpipe' search --fix schedule=gipe -m $tiny -p $good -o o
try 2 '\-\-max banana=3: give KEY=VALUE' search --max banana=3 -m $tiny -p $good -o o
try 2 '\-\-evals 0: give' search --evals 0 -m $tiny -p $good -o o
try 2 '\-\-seconds inf: give' search --seconds inf -m $tiny -p $good -o o
try 2 "objective steptime: give .*did you mean 'step-time'" search --objective steptime -m $tiny -p $good -o o
try 2 "no engine 'nosuchengine'" search -m $tiny --batch 4 -p $good -e nosuchengine -o o
try 2 "no engine 'exprt'; did you mean 'expert'" search -m $tiny --batch 4 -p $good -e exprt -o o
try 2 "engine 'random' has no option 'kepe'; did you mean 'keep'" search -m $tiny --batch 4 -p $good -e random:kepe=1 -o o
try 2 'keep=2 is out of range' search -m $tiny --batch 4 -p $good -e random:keep=2 -o o
try 2 "proof: engine 'mcmc' shows no lower bound; these do: dpl exhaustive hybrid" search -m $tiny --batch 4 -p $good -e mcmc --proof -o o
try 2 'given twice' search -m $tiny --batch 4 -p $good -e random,random -o o
try 2 'exec: names no program' search -m $tiny --batch 4 -p $good -e exec: -o o
try 2 'the program ended' search -m $tiny --batch 4 -p $good -e exec:/no/such/program -o o
try 2 'is not a JSON object' search -m $tiny --batch 4 -p $good -e 'exec:sh -c "echo hello; cat"' -o o
try 2 'cannot make the folder' search -m $tiny --batch 4 -p $good -e expert --evals 1 -o /dev/null/x
try 2 'give a job file' run
try 2 'none.ini: cannot open: No such file' run none.ini
printf 'model = gpt\n' >nocommand.ini; try 2 'no `command = NAME`' run nocommand.ini
printf 'command = fly\n' >fly.ini; try 2 'command = fly is no command' run fly.ini
printf 'command = search\n[stuff]\na = 1\n' >sect.ini; try 2 'section \[stuff\] means nothing' run sect.ini
printf 'command = search\nmodle = x\n' >opt.ini; try 2 'unknown option --modle; did you mean --mode' run opt.ini
try 2 'nothing to list: give engines' list
try 2 'no list of engnes' list engnes
try 2 'cannot open the results folder' plot nowhere
mkdir empty; try 2 'nothing to draw' plot empty
touch a.json; try 2 'give two plan files' diff a.json
try 2 '\-P is missing' simulate -m $tiny -p $good -o o
try 2 'give a file to solve' solve
try 2 'none.json: cannot open' solve none.json
echo '{"hello": 1}' >hello.json; try 2 'no engine knows this kind of file' solve hello.json
try 2 'option --e is the beginning of --e.* and of --e.*: write more of it' search --e expert -m $tiny -p $good
try 2 "option --no-fold takes no value; leave '=yes' away" search --no-fold=yes -m $tiny -p $good
# A name's beginning is nearer than a slip; platforms in words say how several kinds and how many devices are written.
try 2 "no training software 'megatron': its runs are described by megatron-core, or" search -m $tiny -p $good --batch 8 --software megatron -o o
try 2 'several kinds are keys, TYPE.MACHINESxGPUS@PORT: "gpu=A100' platform show 16xA100-80GB+16xL40S
try 2 "no platform '8'; give .* devices as 64xH100 or machines as 2xp5.48xlarge" platform show 8
try 0 'Usage: maquette COMMAND' --help
# The page of the program has the exit codes and verdicts as the program says them.
codes=$("$M" --help | awk '/^  [0-9]+ / { sub(/^ +/, ""); sub(/ +/, " "); printf "%s%s", n++ ? " · " : "", $0 }')
grep -qF "Exit codes: $codes." "$ROOT/sim/README.md" || { echo "sim/README.md does not have: $codes"; bad=1; }
words=$("$M" --help | awk '/^  [a-z]+ +[0-9]+$/ { printf "%s%s", n++ ? " " : "", $1 }')
grep -qF "Verdicts: \`$words\`." "$ROOT/sim/README.md" || { echo "sim/README.md does not have the verdicts $words"; bad=1; }
for c in search simulate diff list plot solve run model; do try 0 "Usage: maquette $c" $c --help; done
finish
