. "$ROOT/tests/cli/lib.sh.inc"
for e in data-parallel expert random exhaustive exec:PROGRAM; do "$M" list engines | grep -q "^$e " || echo "no $e"; done
for p in cloud_v100_t4 dgx1_v100 dgx_a100 hgx_h100_ib cpu_node ws_4x4090 model; do "$M" list platforms | grep -q "^$p " || echo "no $p"; done
for m in gpt llama moe bert transgan ssd300 mask_rcnn unet unet3d efficientnet_b0 efficientdet_d0 gpunet_0; do
	"$M" list models | grep "^$m " >/dev/null || echo "no $m"; done
for x in simgrid analytic host; do "$M" list executors | grep -q "^$x " || echo "no $x"; done
for p in "$M" "$REPLAY"; do
	"$p" --version | grep -qxE "${p##*/} [0-9]+\.[0-9]+( \([0-9a-f]+(-dirty)?\))?" || echo "no version: $("$p" --version)"
done
"$M" list engines random
finish
