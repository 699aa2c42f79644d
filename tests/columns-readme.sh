#!/bin/sh
# columns-readme.sh [--check] - writes the tables of output columns into sim/README.md, between the two lines that
# mark them, from sim/include/maquette/result.def. With --check it only says whether they are as that file has it.
set -eu
readme=sim/README.md
new=$(mktemp)
trap 'rm -f "$new"' EXIT

tables() {
	awk '
	# MQ_COLUMN(name, "unit", "about"): name and texts of a line.
	function parse(    rest) {
		rest = $0; sub(/^[A-Z_]*\(/, "", rest); name = rest; sub(/[,)].*/, "", name)
		n = 0
		while (match(rest, /"[^"]*"/)) {
			text[++n] = substr(rest, RSTART + 1, RLENGTH - 2)
			rest = substr(rest, RSTART + RLENGTH)
		}
	}
	function column() {
		if (!(name in about)) order[++n_names] = name
		list = list (list == "" ? "" : ", ") "`" name "`"
	}
	/^MQ_RESULT\(/ { parse(); about[name] = text[2]; order[++n_names] = name }
	/^MQ_TABLE\(/ { parse(); file = "`" text[1] "`"; what = text[2]; list = "" }
	/^MQ_(AGAIN|NUMBER)\(/ { parse(); column() }
	/^MQ_COLUMN\(/ { parse(); column(); about[name] = text[2] }
	/^MQ_TABLE_END/ { print "| " file " | " what " | " list " |" }
	BEGIN { print "| file | what it has | columns |\n| --- | --- | --- |" }
	END {
		print "\n`evaluations.csv` has the columns from `step_time_s` to `lower_bound_s`.\n"
		print "| column | meaning |\n| --- | --- |"
		for (i = 1; i <= n_names; i++)
			print "| `" order[i] "` | " about[order[i]] " |"
	}' sim/include/maquette/result.def
}

sed '/^<!-- columns: /q' $readme >"$new"
tables >>"$new"
sed -n '/^<!-- end of columns -->/,$p' $readme >>"$new"
if [ "${1:-}" = --check ]; then
	cmp -s "$new" $readme || { echo "$readme: the tables of columns are not those of result.def; run make columns-readme"; exit 1; }
	exit 0
fi
cat "$new" >$readme
echo "columns-readme: $readme"
