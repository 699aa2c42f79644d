. "$ROOT/tests/cli/lib.sh.inc"
# PyTorch's own viewer reads a snapshot: its summary of segments, its trace, and its plots.
python3 -c 'import torch.cuda._memory_viz' 2>/dev/null ||
	{ echo "SKIP: python3 has no torch (pip install torch): its memory viewer is not tried"; exit 77; }
ask=(-m llama:layers=2,hidden=256,heads=4,vocab=512,seq=128 -p "gpu=H100 nodes=1 gpus=4" --batch 16 --software fsdp)
"$M" search "${ask[@]}" -e expert --evals 6 -o s >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot a.pickle >/dev/null || bad=1
python3 - <<'P' || bad=1
import pickle
from torch.cuda import _memory_viz as viz
s = pickle.load(open("a.pickle", "rb"))
assert "total_allocated" in viz.segsum(s)
assert "cudaMalloc" in viz.trace(s)
assert len(viz.trace_plot(s)) > 1000 and len(viz.segment_plot(s)) > 1000
P
finish
