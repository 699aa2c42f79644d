. "$ROOT/tests/cli/lib.sh.inc"
# Several jobs at once: those behind one trunk slow each other, those apart do not by a digit; with wide trunks
# nobody does. The study continues after a kill and answers with the same bytes; a job alone takes what
# `simulate` says of its plan on the same devices.
cat >s.ini <<INI
model = $tiny
batch = 64
platform.gpu = A100-80GB
platform.nodes = 4
platform.gpus = 4
platform.fabric = fat-tree
platform.leaf = 2
platform.oversub = 8, 1
engine = data-parallel
evals = 1
job.steps = 4
job.left.devices = 0-3,8-11
job.right.devices = 4-7,12-13
job.right.batch = 48
job.apart.devices = 14-15
job.apart.batch = 16
INI
"$M" whatif s.ini -o whole -j 1 >whole.txt || echo "whatif fails"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
	{ gsub(/"[^"]*"/, "x"); slow[$c["point"] $c["job"]] = $c["slowdown"]; if ($c["steps"] < 4) bad = 1 }
	END { if (bad || !(slow["0left"] > 1.001 && slow["0right"] > 1.001)) print "no contention behind a narrow trunk"
		if (slow["0apart"] != 1 || slow["1left"] != 1 || slow["1right"] != 1 || slow["1apart"] != 1) print "slowed by nobody"
	}' whole/jobs.csv
cut -d, -f1-3,5 whole/job_links.csv | sort -u
(timeout -s KILL 0.3 "$M" whatif s.ini -o part -j 1; true) >/dev/null 2>&1
"$M" whatif s.ini -o part -j 2 >/dev/null || echo "does not continue"
for f in whatif jobs job_links; do cmp whole/$f.csv part/$f.csv || echo "$f.csv differs after a kill"; done
# The plan of a job, alone, on its devices.
for oversub in 8 1; do
	"$M" simulate -m "$tiny" --batch 48 -p "gpu=A100-80GB nodes=4 gpus=4 fabric=fat-tree leaf=2 oversub=$oversub" --devices 4-7,12-13 -P "$(ls whole/points/*.right.json | head -n 1)" -o one >/dev/null
	awk -F, 'NR == 2 { print $1 }' one/summary.csv
done | sort -u >simulated.txt
awk -F, '{ gsub(/"[^"]*"/, "x") } $2 == "right" { print $5 }' whole/jobs.csv | sort -u | cmp - simulated.txt || echo "alone is not what simulate says"
grep -c 'id="jobs"' whole/report.html
"$M" plot whole -o figures >/dev/null && ls figures | grep -c 'jobs\.[ps]'
sed 's/4-7,12-13/3-7/' s.ini >bad.ini; "$M" whatif bad.ini -o x >/dev/null; tail -n 1 x/whatif.csv
for line in 'job.left.products = fp8' 'job.left.colour = red' 'job.left.calib = x' 'job.none.batch = 4' 'sensitivity = 0.1' 'job.steps = 0'; do
	cp s.ini bad.ini; sed -i '/^job.steps/d' bad.ini; echo "$line" >>bad.ini; "$M" whatif bad.ini -o x; echo "exit $?"
done
sed 's/4-7,12-13/4-7,99/' s.ini >bad.ini; "$M" whatif bad.ini -o y >/dev/null; tail -n 1 y/whatif.csv
finish
