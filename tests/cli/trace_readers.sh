# Traces of Nsight Systems (SQLite) and of Chakra are read into the same table as PyTorch's: the same collectives, classes,
# layers; several devices in a report; what is refused.
. "$ROOT/tests/cli/lib.sh.inc"
python3 -c 'import sqlite3' 2>/dev/null || { echo "skipped: no python3 with sqlite3"; exit 77; }
cp "$ROOT/tests/cli/trace_readers.py" make.py
python3 make.py
"$M" search -m gpt:layers=4,hidden=512,heads=8,vocab=4096,seq=256 --batch 8 -p dgx_a100 --max devices=2 --fix dp=2 -e expert --evals 2 -o s >/dev/null || bad=1
for trace in one.sqlite two.sqlite@1 run.0.et unstarted.1.et; do
	echo "== $trace"
	"$M" validate s --against "$trace" -o v >said || bad=1
	grep -E 'rank |unnamed|kernels,|starts are not|layers, forward' said | sed 's/[0-9.]* ms predicted/P ms predicted/; s/layer 3: [0-9.]*/layer 3: P/'
	cut -d, -f1,3 v/against.csv; cut -d, -f1,2,6- v/against_calls.csv
	[ ! -e v/against_layers.csv ] || cut -d, -f1,3 v/against_layers.csv; rm -rf v
done
try 2 'kernels of 2 devices' validate s --against two.sqlite -o x
try 2 'no kernel ran on device 5' validate s --against two.sqlite@5 -o x
try 2 'no table of kernels' validate s --against bare.sqlite -o x
try 2 'made and not run' validate s --against made.0.et -o x
try 2 'cut short after byte' validate s --against half.0.et -o x
cp make.py make.py.et
try 2 'no message of Chakra|no node of Chakra|cut short' validate s --against make.py.et -o x
cp one.sqlite 'file:one?mode=rwc#.sqlite' # a name, no URI
try 0 '6 kernels' validate s --against 'file:one?mode=rwc#.sqlite' -o x
try 2 'too big' validate s --against large.sqlite -o x
head -c 3000 one.sqlite >cut.sqlite
try 2 'cut.sqlite' validate s --against cut.sqlite -o x
finish
