#!/bin/sh
# fits.sh - `make fits`: the joint fits behind the training terms of the calibrations, made again from the
# values shipped, with every table left out once; records them in results/accuracy/fit-NAME,
# with about.md in words. Changes no calibration. ROUNDS: steps at most.
set -eu
data=results/published

record() { # NAME "TABLE..." FREE TEXT SET
	out=results/accuracy/fit-$1
	tables=
	for t in $2; do case $t in */*) tables="$tables $t.csv" ;; *) tables="$tables $data/$t.csv" ;; esac; done
	echo "== $1"
	build/maquette fit $tables --free "$3" --rounds "${ROUNDS:-2}" ${5:+--set "$5"} -o "build/fits/$1"
	mkdir -p "$out"
	cp "build/fits/$1/parameters.csv" "build/fits/$1/tables.csv" "build/fits/$1/without.csv" "$out"
	echo "$4" >"$out/about.md"
}

note="The values shipped are beside those of this fit, all tables with equal weight: where a shipped value is outside the
interval, the tables pull apart or a later mechanism has moved it. \"Left out\" is simulated with what the other tables alone
give; a table keeps the numbers of its own software, which no other table informs."
record fleet "internevo_a100_8_to_1024 mpt_fsdp_a100_h100 vtrain_a100_multi_node bloom_a100_topology_search torchtitan_a100_h100_h200" \
	"nvlink-sm80.fleet,nvlink-sm90.fleet" \
	"Five tables of A100 and H100 runs, a value for each. $note"

# One table per image network of NVIDIA's examples: its runs on one GPU (GPUNet-2: all, on eight), but
# for one 3D U-Net that ran out of workspace (see platforms/calib/README.md). A parameter of software is that of
# rows which ran with this very file: layout_passes of pytorch.json is fitted as nvidia-convnets'.
split=build/fits/split
mkdir -p "$split"
names=
while read -r name gpus model; do
	awk -v model="$model" -v gpus="$gpus" '{ s = $0; gsub(/"[^"]*"/, "", s); n = split(s, f, ",") }
		NR == 1 { for (i = 1; i <= n; i++) if (f[i] == "gpus") at = i; print }
		NR > 1 && f[at] == gpus && f[2] ~ model && f[1] != "dle-0630"' \
		"$data/nvidia_dl_examples_v100_a100.csv" >"$split/$name.csv"
	names="$names $split/$name"
done <<-END
	resnet50-pytorch 1 PyTorch.*/resnet50
	resnet50-tensorflow 1 TensorFlow.*/resnet50
	resnext101 1 /resnext101
	se-resnext101 1 /se-resnext101
	ssd300 1 /SSD
	unet 1 TensorFlow2.*/UNet_Medical
	unet3d 1 UNet_3D
	mask-rcnn 1 MaskRCNN
	efficientdet 1 Efficientdet
	gpunet-2 8 GPUNet-2
END
record images "$names" \
	"*100*.conv_eff,V100*.conv_eff_simt,*100*.conv_volume,software:tensorflow-xla-images.layout_passes,software:nvidia-convnets.layout_passes" \
	"NVIDIA's image examples as ten tables, one a network; their runs on several GPUs had no say, but for GPUNet-2's. $note"
# All runs of each network, for what they cost the host: what the networks give without one of them, here and in
# the fit above, stands in platforms/fitted-models.csv where it is 2 % or more from the value shipped.
names=
while read -r name model; do
	awk -F, -v model="$model" 'NR == 1 || index($2, model)' \
		"$data/nvidia_dl_examples_v100_a100.csv" >"$split/all-$name.csv"
	names="$names $split/all-$name"
done <<-END
	resnet50-pytorch PyTorch/Classification/ConvNets/resnet50
	resnext101 /resnext101
	se-resnext101 /se-resnext101
	transformer-xl Transformer-XL
	bert BERT-Large
	electra ELECTRA
	resnet50-tensorflow TensorFlow/Classification/ConvNets/resnet50
	unet3d UNet_3D
	efficientdet Efficientdet
	mask-rcnn MaskRCNN
	unet UNet_Medical
END
record networks "$names" \
	"V100*.gemm_fp32,software:ddp-jit.host,software:tensorflow-xla-images.step_ms" \
	"NVIDIA's examples as eleven tables, one a network, for what their hosts take. $note"
echo "fits: results/accuracy/fit-*"
