. "$ROOT/tests/cli/lib.sh.inc"
# Keys of a platform are simulated without its file, with hosts and links of SimGrid's made when flows first take them:
# every table says what it says with the file loaded, byte for byte, folded and with every rank simulated.
printf '%s\n' --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --overlap-grad-reduce \
	--use-distributed-optimizer >in.sh
n=0
while read -r keys; do
	n=$((n + 1))
	"$M" platform generate $keys -o "p$n.xml" >/dev/null || bad=1
	ask=(-m gpt:layers=8,hidden=512,heads=8,seq=256,vocab=1024 --batch 96)
	"$M" export --import in.sh "${ask[@]}" -p "p$n.xml" -o "plan$n.json" >/dev/null || bad=1
	for how in "" --no-fold; do
		"$M" simulate "${ask[@]}" -P "plan$n.json" -p "p$n.xml" $how --timeline all -o "file$n$how" >/dev/null || bad=1
		"$M" simulate "${ask[@]}" -P "plan$n.json" -p "$keys" $how --timeline all -o "keys$n$how" >/dev/null || bad=1
		for table in summary timeline tasks memory links; do
			cmp "file$n$how/$table.csv" "keys$n$how/$table.csv" || bad=1
		done
		# a case without flows that share a link would prove nothing of them
		awk -F, 'NR > 1' "keys$n$how/links.csv" | grep -q . || bad=1
	done
done <<'P'
gpu=A100-SXM4-80GB nodes=6 gpus=4 fabric=rail leaf=2 oversub=3 nics=2
gpu=L4 nodes=6 gpus=4 fabric=ethernet leaf=2 oversub=2
gpu=V100-SXM2-32GB*3x8+T4*6x4 fabric=fat-tree leaf=3
P
echo "$n platforms"
