# Every example does what its second line says, and shows what its first line asks for.
. "$ROOT/tests/cli/lib.sh.inc"
runs() { # FILE COMMAND...
	local file=$1; shift
	rm -rf out
	[[ "$*" == *"results/examples/$(basename "$file") -o out" ]] || { echo "$file: its command is not about it: $*"; bad=1; return; }
	(cd "$ROOT" && timeout 120 "$M" "${@/%out/$OLDPWD/out}") >said 2>&1 || { echo "$file: $*: $(tail -n 3 said)"; bad=1; return; }
	[ -s out/report.html ] || { echo "$file: no report"; bad=1; }
	echo "$(basename "$file"): $(ls out | grep -c 'csv$') tables"
}
for file in "$ROOT"/results/examples/*.ini; do
	read -r _ _ command < <(sed -n 2p "$file")
	runs "$file" $command
done
runs "$ROOT/results/examples/own-runs.csv" score results/examples/own-runs.csv -o out
finish
