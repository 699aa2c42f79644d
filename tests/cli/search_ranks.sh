# Ranks of mpirun share a search's simulations: the same bytes as alone, one voice, and nothing left behind.
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
. "$ROOT/tests/cli/lib.sh.inc"
ask="-m $tiny -p dgx1_v100 --batch 16 -e random,screen --evals 40 --seed 3 -j 1"
"$M" search $ask -o alone >alone.txt || echo "search fails"
export OMPI_MCA_rmaps_base_oversubscribe=1
mpirun --allow-run-as-root --oversubscribe -n 3 "$M" search $ask -o many >many.txt || echo "search under mpirun fails"
for f in candidates.csv plan-1.json; do cmp alone/$f many/$f; done
cmp alone.txt many.txt
[ -e many/ranks ] && echo "many/ranks is left"
finish
