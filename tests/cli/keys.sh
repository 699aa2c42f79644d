# results/guides/keys.md: every example is a study that whatif takes, and every key of platform generate, jitter and failures
# that the program has is there.
. "$ROOT/tests/cli/lib.sh.inc"
base=('model = gpt:layers=4,hidden=256,heads=4,vocab=1000' 'batch = 32' 'engine = expert' 'evals = 1' 'platform.gpu = A100-80GB' 'platform.nodes = 2')
"$M" search -m "${base[0]#model = }" --batch 32 -p "gpu=A100-80GB nodes=2" -e expert --evals 1 -o s >/dev/null || bad=1
asks() { # LINES: what they do not say is the base's
	{ printf '%s\n' "$1" | sed 's#= FILE#= s/plan-1.json#'; printf '%s\n' "${base[@]}"; } | awk -F ' = ' '!seen[$1]++' >study.ini
	"$M" whatif study.ini --dry-run -o out >said 2>&1 || { echo "$1: $(tail -n 1 said)"; bad=1; }
}
n=0; hardware= spread= jobs= # what goes together is asked at once, hardware with the first of its values
while IFS= read -r example; do
	n=$((n + 1)); lines=${example//; /$'\n'}
	case $example in
	failures*|jitter*|epoch*) spread+=$'\n'$lines ;;
	job*) jobs+=$'\n'$lines ;;
	*fabric*|*platform.gpu*|breakeven*|'plan ='*|scaling*|sensitivity*) asks "$lines" ;;
	*) hardware+=$'\n'$(sed 's/,.*//' <<<"$lines") ;;
	esac
done < <(grep -o '| `[^`|]* = [^`|]*` |$' "$ROOT/results/guides/keys.md" | sed 's/^| `//; s/` |$//')
asks "${hardware#?}"; asks "${spread#?}"; asks "${jobs#?}"
page=$(cat "$ROOT/results/guides/keys.md")
for key in $("$M" platform generate --help | grep -oE '^ +(-., )?--[a-z_A-Z]+' | grep -oE '[a-zA-Z_]+$' | grep -vxE 'calib|output|help|usage'); do
	[[ $page == *"\`platform.$key\`"* ]] || { echo "no platform.$key"; bad=1; }
done
for key in $("$M" whatif --help | tr -d '\n' | grep -oE '(failures|jitter)\.[a-z_]+'); do [[ $page == *"\`$key\`"* ]] || { echo "no $key"; bad=1; }; done
finish
