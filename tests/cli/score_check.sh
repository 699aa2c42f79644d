# `score --check` says of each row all that it lacks, and simulates nothing; the template of a table of runs is complete.
. "$ROOT/tests/cli/lib.sh.inc"
check() { "$M" score "$1" --check >said.txt 2>&1; echo "exit $?"; sed "s|$ROOT/||" said.txt; }
cp "$ROOT/results/published/TEMPLATE.csv" template.csv
check template.csv
# No count of GPUs, a model that nobody knows, a misspelt status: all three at once. The second row is complete.
(head -n 1 template.csv; sed -n 's/,8,8,1,gpu=/,,,,gpu=/; s/llama:size=8b/lama:size=8b/; s/,ok,/,done,/; 2p' template.csv
 sed -n 's/^example-1/example-2/; 2p' template.csv) >bad.csv
check bad.csv
# A row without its source is told, and can be scored; a near name of a column is told.
printf 'row_id,model,gpu,gpus,gbs,seq,step_time_s,grad_acum\na,llama:size=8b,H100-80GB,8,16,4096,1,2\n' >short.csv
check short.csv
# Units, a decimal comma and a row_id given twice are said row by row; a spreadsheet's mark before the header is no part of it.
printf '\xef\xbb\xbfrow_id,model,gpu,gpus,gbs,seq,step_time_s,max_mem_gb\na,llama:size=1b,H100,8,64,2048,"3,9",62 GB
b,llama:size=1b,H100,8,64,2048,-1,\nc,llama:size=1b,H100,8,64,4k,0.9,40\nc,llama:size=1b,H100,8,64,2048,0.5,40\n' >cells.csv
check cells.csv
# Of a refused row nothing is written as measured, not the 3 of "3,9".
"$M" score cells.csv -o cells >/dev/null 2>&1; [ "$(grep -cxE '[ab],refused,+' cells/score.csv)" = 2 ] || { cat cells/score.csv; bad=1; }
# Tables that are none: other separators, a quote left open inside a cell, no rows.
printf 'model;gpu;gpus;gbs;step_time_s\nllama:size=1b;H100;8;64;0,5\n' >semicolons.csv
printf 'model\tgpu\tgpus\tgbs\tstep_time_s\n' >tabs.csv
printf 'model,gpu,gpus,gbs,step_time_s\nllama:size=1b,H100,8,64,5"' >quote.csv
printf 'model,gpu,gpus,gbs,step_time_s\n' >rows.csv
try 2 'semicolons.csv:1: cells are separated by semicolons; write commas' score semicolons.csv --check
try 2 'tabs.csv:1: cells are separated by tabs' score tabs.csv --check
try 2 'quote.csv:2: a quote inside a cell; quote the whole cell' score quote.csv --check
try 2 'rows.csv: a header and no rows' score rows.csv -o none
# Each row that is complete is scored, and each that is scored is complete: the tables of the project, of five tables a row in eight.
for t in "$ROOT"/results/published/{amp,google,sailor,simumax,torchgpipe}*.csv; do awk "NR == 1 || NR % 8 == 3" "$t" >some.csv
	"$M" score some.csv --check 2>/dev/null | awk -F': ' '/: (complete|cannot be scored)$/ { print $2, $3 }' |
		sed -n 's/ complete//p' | sort >complete.txt
	"$M" score some.csv --executor analytic --write-jobs jobs -j 2 -o out >/dev/null 2>&1
	(cd jobs && ls | sed -n 's/\.ini$//p' | sort) >ready.txt; rm -rf jobs
	cmp -s complete.txt ready.txt || { echo "$(basename "$t"): --check and score differ"; diff complete.txt ready.txt | head -n 3; bad=1; }
done
# Of four context-parallel ranks none, two or all exchange heads (ulysses), a divisor of them.
cat >exchanged.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,cp,ulysses,mbs,gbs,step_time_s,status,software
ring,GPT,2,512,8,512,50257,H100,4,4,bf16,4,,1,1,1,ok,megatron-core
both,GPT,2,512,8,512,50257,H100,4,4,bf16,4,2,1,1,1,ok,megatron-core
heads,GPT,2,512,8,512,50257,H100,4,4,bf16,4,4,1,1,1,ok,megatron-core
three,GPT,2,512,8,512,50257,H100,4,4,bf16,4,3,1,1,1,ok,megatron-core
CSV
"$M" score exchanged.csv --write-jobs jobs -o exchanged >/dev/null 2>&1; sed 1d exchanged/refused.csv
(cd jobs && grep -o '"split".*"head"[^}]*' ./*.plan.json)
# The folder's tables are scored without its template; the option is for runs.
mkdir folder && cp template.csv folder/TEMPLATE.csv && cp template.csv folder/mine.csv
"$M" score folder --check | tail -n 1
try 2 'for runs' score short.csv --check --gemm
finish
