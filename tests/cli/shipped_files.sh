. "$ROOT/tests/cli/lib.sh.inc"
# Files that are read as the program runs: one that is damaged or gone is named, and nothing goes on without it.
mkdir -p tree/build tree/platforms plan
ln -s "$ROOT"/platforms/* tree/platforms; rm tree/platforms/{launch,models,software}
cp "$M" tree/build/maquette
echo '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000}' >config.json
printf 'distributed_type: FSDP\nnum_processes: 8\n' >accelerate.yaml
ask=(-m config.json -p 8xH100 --batch 8)
"$M" search "${ask[@]}" --software torchtitan -e expert --evals 1 -o plan >/dev/null 2>&1
M=tree/build/maquette
damage() { # FILE SAYS ARGS: with each line of input as the file, and without the file
	local file=$1 text
	while IFS= read -r text; do
		rm -rf tree/platforms/{launch,models,software}
		cp -r "$ROOT"/platforms/{launch,models,software} tree/platforms
		if [ "$text" = gone ]; then rm "tree/platforms/$file"; else printf '%b' "$text" >"tree/platforms/$file"; fi
		try 2 "$file" "${@:2}"
	done
}
damage models/huggingface_keys.csv model -m config.json <<'L'
gone

key,field,read_by,written_by,least,most\n
key,x\nhidden_size,hidden\n
key,field,read_by,written_by,least,most\nhidden_size,pattern,,,1,2\n
key,field,read_by,written_by,least,most\nhidden_size,hidden,,nobody,1,2\n
L
damage models/huggingface_other_keys.csv model -m config.json <<'L'
gone
key\n
key,not_modelled\n
L
damage models/huggingface_builders.csv model -m config.json <<'L'
gone
types,model\n
types,model,key,is,option,absent\nllama,nobody,,,layers,2\n
L
damage models/huggingface_families.json model -m config.json <<'L'
gone
{}
[{}]
[{"model_type": "llama", "architecture": "Llama", "layers": -1}]
[{"model_type": "llama", "architecture": "Llama", "is": "nothing"}]
L
damage models/sizes.json model -m gpt <<'L'
gone
{"gpt": []}
{"gpt": {"1.3b": "layers=many"}}
L
damage software/launch_keys.csv export --import accelerate.yaml "${ask[@]}" --software fsdp -o p.json <<'L'
gone
program,key,when,flag,value,names,refused\n
program,key\naccelerate,distributed_type\n
L
damage launch/torchtitan.py.in export plan/plan-1.json --to torchtitan <<'L'
gone
n = {{no_such_value}}\n
n = {{head\n
{{if one}}\n
{{if one}}\n{{if one}}\n{{end}}\n{{end}}\n
{{else}}\n
{{end}}\n
L
# The points of a study share what is read once: a set that is not whole is refused at each of them.
ln -s "$ROOT/$BUILD/engines" "$ROOT/plots" tree; rm tree/platforms/calib; cp -r "$ROOT/platforms/calib" tree/platforms; echo '{' >tree/platforms/calib/H200-SXM-141GB.json
printf 'model = config.json\nplatform = dgx_h100\nbatch = 8, 16\nplan = plan/plan-1.json\n' >s.ini
"$M" whatif s.ini -j 1 -o study >/dev/null 2>&1
[ "$(grep -c 'H200-SXM-141GB.json:' study/whatif.csv)" = 2 ] || { cut -c-300 study/whatif.csv; bad=1; }
finish
