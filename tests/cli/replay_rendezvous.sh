# Where ranks meet: strays are turned away, names that others could guess are this user's alone, a long TMPDIR is one.
. "$ROOT/tests/cli/lib.sh.inc"
mocks; export MOCK_DEVICES=2
deep=$PWD/$(printf 'd%.0s' $(seq 150)); mkdir "$deep"
"$MAQUETTE" calibrate --executor cuda --schedule-only --devices 2 --type G --samples m -o m/g.json >/dev/null
replay=("$REPLAY" --executor cuda --deadline 20 --reps 1 --warmup 0 -o out m/comm.jsonl)
rank() { MAQUETTE_RANK=$1 MAQUETTE_SIZE=2 MAQUETTE_LOCAL_RANK=$1 "${replay[@]}" --rendezvous "$2"; }

TMPDIR=$deep "${replay[@]}" >said.txt 2>&1 || { echo "a long TMPDIR: $(tail -n 1 said.txt)"; bad=1; }
[ -z "$(ls "$deep")" ] || { echo "left behind: $(ls "$deep")"; bad=1; }

# A link in the way of the file is not followed; strays before the second rank: garbage, a guess, silence.
echo mine >precious; ln -s precious meet.draft
rank 0 file:meet >zero.txt 2>&1 & zero=$!
for i in $(seq 200); do [ -s meet ] && break; sleep 0.05; done
[ "$(stat -c %a meet)" = 600 ] || { echo "others may read the token: $(stat -c %a meet)"; bad=1; }
read -r host port token <meet
for word in 'GET / HTTP/1.0\r\n\r\n' '\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00'; do
	exec 9<>"/dev/tcp/127.0.0.1/$port" && printf "$word" >&9; exec 9>&-
done
exec 9<>"/dev/tcp/127.0.0.1/$port"
rank 1 file:meet >one.txt 2>&1 || { echo "rank 1: $(tail -n 1 one.txt)"; bad=1; }
exec 9>&-
wait $zero || { echo "rank 0: $(tail -n 1 zero.txt)"; bad=1; }
[ "$(cat precious)" = mine ] || { echo "a link was followed"; bad=1; }
[ ! -e meet ] || { echo "the meeting place is left"; bad=1; }
finish
