. "$ROOT/tests/cli/lib.sh.inc"
# Hugging Face configurations of published models: parameters as published (the models' cards and index files), within
# what the reader's head says it leaves out.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
python3 "$ROOT/tests/cli/model_families.py" "$M" || bad=1
# The window, the layers without it, and squared error are in the work: twice the sequence is less than four times the
# attention where it has a window.
flop() { "$M" model "$1" --seq "$2" --csv ops.csv >/dev/null && awk -F, 'NR>1 && $2=="layer0.attention"{print $10}' ops.csv; }
short=$(flop gemma2-9b.json 4096); sed 's/"gemma2"/"gemma2", "sliding_window": 4096/' gemma2-9b.json >w.json; long=$(flop w.json 8192)
echo "a layer with a window of 4096: $(awk "BEGIN{print $long / $short}") times the work of 4096 tokens at 8192" # 4 (1/2 (2 - 1/2)) = 3
echo '{"model_type": "newer", "d_model": 5}' >newer.json; try 2 '"model_type" is newer, not a family that is read, and no Llama: d_model may change a layer' model newer.json
finish
