# The options of every command as a program reads them: names, types, defaults, ranges, words; of one command alone.
set -eu
"$MAQUETTE" --help --json >all.json
python3 - all.json <<'P'
import json, sys
commands = json.load(open(sys.argv[1]))["commands"]
print(len(commands) == len([c for c in commands.values() if c["summary"] and c["options"]]))
search = {o["name"]: o for o in commands["search"]["options"]}
for name in ("batch", "software", "optimizer", "fix", "timeout", "top", "json"):
    print(json.dumps({k: v for k, v in search[name].items() if k != "help"}))
print([o["name"] for o in commands["whatif"]["options"] if o.get("positional")])
P
"$MAQUETTE" run --help --json | sed -n '2,$p'
