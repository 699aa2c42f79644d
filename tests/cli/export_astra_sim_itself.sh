# ASTRA-sim takes what a plan takes here, within 5 % where nothing is in each other's way. ASTRA_SIM names its program.
. "$ROOT/tests/cli/lib.sh.inc"
[ -x "${ASTRA_SIM:-}" ] || { echo "skip: no ASTRA-sim (ASTRA_SIM=.../AstraSim_Analytical_Congestion_Unaware)"; exit 77; }
check() {
	sh "$1/run.sh" >ran 2>/dev/null
	awk '{ off = $2 / $5 - 1; if ($1 == "ASTRA-sim" && off < .05 && off > -.05) good = 1 } END { exit !good }' ran || { cat ran; return 1; }
}
. "$ROOT/tests/cli/astra_sim.sh.inc"
finish
