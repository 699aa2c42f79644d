# Traces as PyTorch's profiler wrote them from 2021 to 2024, of one rank and of two, three steps each: count, bytes and
# median time of the collectives are those planted, to the last digit. The files are made here, after the formats' fields.
. "$ROOT/tests/cli/lib.sh.inc"
python3 -c '' 2>/dev/null || { echo "skipped: no python3"; exit 77; }
cp "$ROOT/tests/cli/trace_years.py" make.py
python3 make.py make
for year in 2021 2022 2023 2024; do
	"$M" calibrate --from y$year.0.json --link-class nvlink -o $year-one.json >said 2>&1 || { cat said; bad=1; }
	python3 make.py check $year-one.calls.csv 0
	grep -o 'rank 0 of 2, Some GPU, 15 kernels, 3 steps marked' said
	"$M" calibrate --from y$year.0.json --from y$year.1.json.gz --link-class nvlink -o $year-two.json >said 2>&1 || { cat said; bad=1; }
	python3 make.py check $year-two.calls.csv 0,1
	grep -o '30 of 30 calls met their like on all 2 ranks' said
	# Cut at the end, wherever that is, a trace is refused with the place.
	for part in 300 3000 15000; do head -c $part y$year.0.json >cut.json; try 2 "cut.json: cut short after byte $part" calibrate --from cut.json -o x.json; done
	head -c -3 y$year.0.json >cut.json; try 2 'cut.json: cut short after byte' calibrate --from cut.json -o x.json
	head -c -200 y$year.1.json.gz >cut.json.gz; try 2 'cut.json.gz: (cannot be unpacked|cut short) after byte' calibrate --from cut.json.gz -o x.json
	sed 's/"world_size": 2/"world_size": 128/; s/\[0, 1\]/[0, 64]/; s/"Group size": 2/"Group size": 128/' y$year.0.json >far.json
	"$M" calibrate --from far.json -o x.json 2>&1 >/dev/null | grep -o 'calls of 128 ranks, where a machine has 8 GPUs'
	try 2 'both of rank 0' calibrate --from y$year.0.json --from y$year.0.json -o x.json
done
finish
