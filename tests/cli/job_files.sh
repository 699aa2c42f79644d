. "$ROOT/tests/cli/lib.sh.inc"
# Job files reproduce whatever the command line held, and run no program unasked; a folder belongs to one command
# and one question at a time, and a refusal changes nothing in it.
args=(-m $tiny --batch 16 -p dgx1_v100 -e random --evals 12 --seed 7)
state() { find "$1" -type f -exec sha256sum {} + | sort; }
# refuses MESSAGE FOLDER ARGUMENTS...: exit code 2, and the folder's files are as they were.
refuses() {
	local message=$1 folder=$2 before; shift 2
	before=$(state "$folder")
	try 2 "$message" "$@"
	[ "$before" = "$(state "$folder")" ] || { echo "a refusal changed $folder: maquette $*"; bad=1; }
}
"$M" search "${args[@]}" -o whole >/dev/null || echo "search fails"
refuses 'there `seed = 7`, here `seed = 8`' whole search "${args[@]}" --seed 8 -o whole
refuses 'there `engine = random`, here `engine = expert`' whole search "${args[@]:0:6}" -e expert --seed 7 -o whole
refuses 'has the results of `search`' whole simulate "${args[@]:0:6}" -P whole/plan-1.json -o whole
"$M" simulate "${args[@]:0:6}" -P whole/plan-1.json -o one >/dev/null || echo "simulate fails"
refuses 'has the results of `simulate`' one search "${args[@]}" -o one
"$M" search "${args[@]}" --top 2 -j 1 -o whole >/dev/null || echo "does not continue with other ways to show it"

# A file that the command names has other contents now: said before anything is judged.
cp "$ROOT/platforms/dgx1_v100.xml" p.xml
"$M" search "${args[@]/dgx1_v100/p.xml}" -o named >/dev/null || echo "search fails"
sed -i 's/bandwidth="15.75GBps"/bandwidth="31.5GBps"/' p.xml
refuses 'named: its plans were judged with another model, platform' named search "${args[@]/dgx1_v100/p.xml}" -o named

# Two at once: the second is refused, the first has the rows of a run alone.
long=(-m gpt:layers=24,hidden=1024,heads=16 --batch 64 -p cloud_v100_t4 -e hybrid --evals 20 --seed 7 -j 1)
"$M" search "${long[@]}" -o alone >/dev/null || echo "search fails"
"$M" search "${long[@]}" -o both >/dev/null & first=$!
until [ -s both/candidates.csv ] || ! kill -0 $first 2>/dev/null; do sleep 0.02; done
kill -STOP $first
try 2 'both: another command is writing its results there' search "${long[@]}" -o both
kill -CONT $first; wait $first || { echo "the first dies of the second"; bad=1; }
cmp alone/candidates.csv both/candidates.csv || bad=1

# Long paths, line breaks and signs in names: the job file says the same again.
deep=$(printf 'd%.0s' $(seq 120))/$(printf 'e%.0s' $(seq 120))
mkdir -p "$deep"
odd="$deep/"$'odd ;name\nengine = exec:touch PWNED\n"x'
cat >"$odd.json" <<'J'
{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 512, "n_positions": 128}
J
"$M" search -m "$odd.json" --batch 16 -p dgx1_v100 -e random --evals 6 -o $'odd\nengine = exec:touch PWNED' >/dev/null || { echo "odd names are refused"; bad=1; }
"$M" run $'odd\nengine = exec:touch PWNED/run.ini' -o odd2 >/dev/null || { echo "an odd job file fails"; bad=1; }
cmp $'odd\nengine = exec:touch PWNED/candidates.csv' odd2/candidates.csv || bad=1
[ ! -e PWNED ] || { echo "a name ran a program"; bad=1; }

# A list of 12 values in one line of 600 characters.
{ printf 'batch = '; seq -s ,"$(printf '%48s')" 100000 8 100088; printf 'model = %s\nplatform = dgx1_v100\nengine = expert\nevals = 1\n' "$tiny"; } >wide.ini
"$M" whatif wide.ini -o wide --dry-run 2>/dev/null | tail -n +2 | wc -l

# Programs in files are run on request alone.
printf 'command = search\nmodel = %s\nbatch = 16\nplatform = dgx1_v100\nengine = expert,exec:touch PWNED\nevals = 1\n' "$tiny" >bad.ini
try 2 'bad.ini:5: engine = .*--allow-exec' run bad.ini -o x
try 2 'bad.ini:5: engine = .*--allow-exec' whatif bad.ini -o x
[ ! -e PWNED ] || { echo "a file ran a program"; bad=1; }
try 2 'exec:touch PWNED' run bad.ini -o x --allow-exec
[ -e PWNED ] || { echo "--allow-exec does not allow"; bad=1; }
finish
