. "$ROOT/tests/cli/lib.sh.inc"
# README's way from a fresh clone to a tornado figure: at most five commands; here all but the build are run as
# they stand there, on a config.json of one's own.
block=$(awk '/^From a clone/ { seen = 1 } seen && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' "$ROOT/README.md")
[ "$(printf '%s\n' "$block" | sed 's/#.*//; s/&&/\n/g' | grep -c .)" -le 5 ] || { echo "more than five commands"; bad=1; }
cat >config.json <<'J'
{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
 "num_hidden_layers": 4, "vocab_size": 1024, "max_position_embeddings": 512, "tie_word_embeddings": true}
J
printf '%s\n' "$block" | grep -vE '^make |^xdg-open' | sed "s#build/maquette#\"$M\"#" >commands.sh
[ "$(wc -l <commands.sh)" -ge 2 ] || { echo "README has no such commands: $block"; bad=1; }
bash -e commands.sh >said.txt 2>&1 || { cat said.txt; bad=1; }
grep -q 'buys most' said.txt || { echo "no upgrade named"; cat said.txt; bad=1; }
if command -v gnuplot >/dev/null; then [ -s study/tornado.svg ] && [ -s study/tornado.png ] || { echo "no tornado"; bad=1; }; fi
[ -s study/report.html ] || { echo "no report"; bad=1; }
finish
