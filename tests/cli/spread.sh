. "$ROOT/tests/cli/lib.sh.inc"
# Steps as a distribution, and what failures leave of them.
on="-m $tiny -p dgx1_v100 --batch 16"
"$M" search $on -e data-parallel --evals 1 -o s >/dev/null || echo "search fails"
ask="--jitter device=0.03,kernel=0.1,draws=20 --failures mtbf_h=1000,checkpoint_GBps=1"
"$M" simulate $on -P s/plan-1.json $ask -o a >a.txt || echo "a fails"
"$M" simulate $on -P s/plan-1.json $ask -j 1 -o b >b.txt || echo "b fails"
"$M" simulate $on -P s/plan-1.json $ask --seed 2 >c.txt || echo "c fails"
cmp a.txt b.txt; cmp a/draws.csv b/draws.csv
cmp -s a.txt c.txt && echo "another seed draws the same"
grep -h '^step time over\|^goodput' a.txt | sed 's/[0-9.]\+ \([mu]*s\)/T \1/g; s/[+-][0-9.]* %/D %/'
[ "$(wc -l <a/draws.csv)" = 21 ] || echo "not 20 draws"
"$M" run a/run.ini >d.txt || echo "a/run.ini fails"
diff a.txt d.txt
"$M" simulate $on -P s/plan-1.json $ask --json | grep -o '"step_p99_s": [0-9.]*, "step_mean\|"goodput": 0.9[0-9]*' | sed 's/[0-9]\.[0-9]*/N/'
printf 'model = %s\nplatform = dgx1_v100\nbatch = 16\nplan = s/plan-1.json\njitter.device = 0.01, 0.1\njitter.draws = 20\nfailures.mtbf_h = 100, 1000\nfailures.checkpoint_GBps = 0.001\nepoch = 1000000\n' "$tiny" >study.ini
"$M" whatif study.ini -o study >/dev/null || echo "whatif fails"
head -n 1 study/whatif.csv
# More jitter, a longer p90; rarer failures, more goodput.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i - NF } # from the end: texts before have commas
	NR > 1 { p[$2] = $(NF + at["step_p90_s"]); g[$3] = $(NF + at["goodput"]) }
	END { if (!(p["0.1"] > p["0.01"])) print "no longer"; if (!(g["1000"] > g["100"])) print "no better" }' study/whatif.csv
try 2 'devices' simulate $on -P s/plan-1.json --jitter devices=1
try 2 'mtbf_h is missing' simulate $on -P s/plan-1.json --failures restart_s=1
try 2 'failures.mtbf_h is missing' whatif "$(sed '/mtbf/d' study.ini >bad.ini; echo bad.ini)" -o bad
finish
