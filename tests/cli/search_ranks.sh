# Ranks of mpirun share a search's simulations and screens: the same bytes as alone, one voice, and nothing left behind.
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
. "$ROOT/tests/cli/lib.sh.inc"
export OMPI_MCA_rmaps_base_oversubscribe=1
same() { # ranks jobs arguments...
	local n=$1 jobs=$2; shift 2
	rm -rf alone many
	"$M" search "$@" -j 1 -o alone >alone.txt || echo "search fails"
	mpirun --allow-run-as-root --oversubscribe -n $n "$M" search "$@" -j $jobs -o many >many.txt ||
		echo "search under mpirun fails"
	for f in candidates.csv plan-1.json; do cmp alone/$f many/$f; done
	cmp alone.txt many.txt
	[ -e many/ranks ] && echo "many/ranks is left"
}
same 3 1 -m $tiny -p dgx1_v100 --batch 16 -e random,screen --evals 40 --seed 3
# moves on the best plans are screened in groups, by all workers of all ranks
screens=(-m gpt:layers=24,hidden=1024,heads=16 -p gpu=H100,nodes=6,gpus=6 --batch 96 --evals 24)
same 2 1 "${screens[@]}"
[ "$(awk '$1 == "portfolio" { print $6 }' many.txt)" -gt 100 ] || echo "hardly a screen: $(tail -n 1 many.txt)"
same 3 2 "${screens[@]}"
# A rank that dies takes nothing with it: others answer what it had claimed.
rm -rf many
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$M" search "${screens[@]}" -j 1 -o many >many.txt & first=$!
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$M" search "${screens[@]}" -j 1 -o many & other=$!
for i in $(seq 200); do compgen -G 'many/ranks/*.screen' >/dev/null && break; sleep 0.02; done
kill -9 $other; { wait $other; wait $first; rc=$?; } 2>/dev/null
[ $rc -eq 0 ] && cmp alone.txt many.txt && cmp alone/candidates.csv many/candidates.csv || echo "a lost rank: exit code $rc"
# One that comes after a quick search has ended finds it; one whose answer nobody waits for any more does not fail.
rank() { # N arguments...
	OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=2 "$M" search "${@:2}" -j 1 -o many >said.$1.txt 2>&1
}
both() { # what seconds arguments...
	rm -rf many
	rank 0 "${@:3}" & first=$!
	sleep $2; rank 1 "${@:3}"; rc=$?
	wait $first && [ $rc -eq 0 ] || echo "$1: exit code $rc: $(cat said.1.txt)"
	[ -e many/ranks ] && echo "$1: many/ranks is left"
}
both "a late rank" 1 -m $tiny -p dgx1_v100 --batch 16 --evals 1
both "an unwanted answer" 0 -m gpt:layers=24,hidden=1024,heads=16 --batch 512 -p gpu=H100,nodes=2 -e random,expert \
	--fix mbs=1 --no-fold --evals 100 --seconds 1
finish
