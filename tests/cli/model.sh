. "$ROOT/tests/cli/lib.sh.inc"
# Totals and table of a small model; sizes follow --batch, --seq, --dtype and --mode.
"$M" model gpt:layers=1,hidden=8,heads=2,vocab=16 --seq 4 --csv one.csv
cut -d, -f1-12 one.csv
"$M" model gpt:layers=1,hidden=8,heads=2,vocab=16 --seq 4 --batch 3 --dtype fp32 --mode infer
# Names as people write them: case and separators do not matter.
for m in ResNet-50 VGG16 Inception-v3 U-Net MaskRCNN ViT-L/16; do echo "$m $("$M" model "$m" | sed -n 2p)"; done
for m in bart bert electra gnmt gpt inception_v3 llama moe resnet101 resnet50 retinanet t5 transformer transformer_xl transgan unet3d:channels=1,classes=3 vgg19; do
	echo "$m $("$M" model $m | sed -n 's/^parameters //p')"
done
# MLPerf's RetinaNet: torchvision's ResNeXt-50 without its head 22979904, pyramid 918272 + 1770240 + 1180160, classes
# 4 x 590080 + 5476680, boxes 4 x 590080 + 82980.
[ "$("$M" model retinanet | sed -n 's/^parameters //p')" = $((22979904 + 918272 + 1770240 + 1180160 + 2360320 + 5476680 + 2360320 + 82980)) ] || bad=1
# Switch (T5 with experts in every second block): 6 x 4 and 6 x 8 matrices of attention, a table of positions a side,
# 6 feed-forward parts, 6 of 8 experts and a router, norms; an expert takes 2 of the 4 tokens that choose it.
"$M" model t5:size=small,experts=8,capacity=2,moe_every=2 --seq 32 --csv switch.csv >/dev/null
[ "$(grep -c 'experts.up,gemm,forward,[0-9]*,2,2048,512,8,' switch.csv)" = 6 ] || bad=1
[ "$("$M" model t5:size=small,experts=8,moe_every=2 --seq 32 | sed -n 's/^parameters //p')" = $((32128 * 512 + 18 * 4 * 512 * 512 + 2 * 32 * 8 + 6 * 2 * 512 * 2048 + 6 * (8 * 2 * 512 * 2048 + 8 * 512) + 32 * 512)) ] || bad=1
# A model written as a graph is the same model, in both modes and at another sequence length.
for m in "t5:size=small,experts=4,capacity=4,moe_every=2 --seq 32" "moe:layers=2,hidden=64,heads=4,ffn=32,vocab=128,experts=4 --seq 8" "resnet50" "mask_rcnn:suppression=host" "sd-v2-unet:text=frozen"; do
	"$M" model $m --graph g.jsonl >/dev/null
	for more in "--seq 32" "--seq 48 --mode infer"; do
		[[ $m == *--seq* ]] || more=${more#--seq ??} # images have no sequences
		"$M" model ${m% --seq*} $more --csv a.csv >/dev/null; "$M" model g.jsonl $more --csv b.csv >/dev/null
		cmp a.csv b.csv || echo "$m $more"
	done
done
sed 's/":/": /g; s/^{/{ /' g.jsonl >spaced.jsonl # as other programs write JSON
"$M" model spaced.jsonl --csv a.csv >/dev/null && "$M" model g.jsonl --csv b.csv >/dev/null && cmp a.csv b.csv
# Names that people use; what has no graph is refused by name.
for m in sd-v2-unet SDXL FLUX.1-dev dit-xl-2 black-forest-labs/FLUX.1-schnell; do
	"$M" model $m >out || echo "$m is not known"
done
for m in sd-1.5 stabilityai/stable-diffusion-2 sd3 flux.2-dev; do try 2 "$m" model $m; done
# a list of names that goes round in circles is looked up once
mkdir -p circle/build circle/platforms/models; cp "$M" circle/build/maquette; ln -s "$ROOT/platforms/software" circle/platforms/
echo '{"aa9": "bb9", "bb9": "aa9", "cc9": "cc9:size=s"}' >circle/platforms/models/names.json
for m in aa9 bb9:layers=2 cc9; do circle/build/maquette model $m 2>&1 | grep -q "no model '${m%:*}'" || echo "$m goes round"; done
try 2 'no graph for image=640' model sd-v2:image=640
# torchtitan's FLUX shards and has no tensor parallelism; its other models' settings do not describe it.
ask='-m flux.1-schnell:image=32,layers=2,singles=2 -p 16xH100 --batch 64 --software'
"$M" search $ask torchtitan-flux --fix sync=zero3 --evals 1 -o flux >out 2>&1 && grep -q 'dp 16 tp 1 pp 1' out || cat out
try 2 'not one stack of blocks' export --to torchtitan flux/plan-1.json
try 2 'torchtitan runs no .flux' search $ask torchtitan -o no
try 2 'not of one width' search -m sd-v2 -p 8xH100 --batch 64 --software nemo -o no
"$M" search -m sd-v2 -p 8xH100 --batch 64 --dtype fp16 --software nemo-multimodal --evals 1 -o sd >out 2>&1 && grep -q 'dp 8 tp 1 pp 1' out || cat out
try 2 'cannot write' model resnet50 --graph /nowhere/g.jsonl
try 2 '/dev/full' model resnet50 --graph /dev/full
try 2 'no model given' model
try 2 "argument 'llama' is one too many" model gpt llama
try 2 "did you mean llama?" model lama
try 2 "did you mean 'layers'" model gpt:layer=2
try 2 'did you mean --seq' model gpt --sek 4
try 2 '--batch 0' model gpt --batch 0
try 2 '/dev/full' model gpt --csv /dev/full
finish
