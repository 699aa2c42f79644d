"""The cuda executor's fused attention against PyTorch in fp32: relative errors of O, dQ, dK and dV.

    python3 tests/gpu/attention.py ./kernel      # made as kernel.py says
"""
import sys
import torch
from kernel import error, run

CASES = ((8, 8, 512, 512, 128, 1), (16, 4, 1024, 1024, 128, 1), (16, 16, 384, 384, 64, 0), (12, 12, 2048, 2048, 64, 1), (32, 8, 4096, 4096, 128, 1))
fine = True
for heads, kv, m, n, d, causal in CASES:
    bf16, f32 = torch.bfloat16, torch.float32
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=bf16)
    q, k, v, grad = random(heads, m, d), random(kv, n, d), random(kv, n, d), random(heads, m, d)
    r = [x.float().requires_grad_() for x in (q, k, v)]
    s = r[0] @ r[1].repeat_interleave(heads // kv, 0).transpose(1, 2) / d ** .5
    if causal:
        s = s.masked_fill(torch.ones(m, n, device="cuda").triu(1).bool(), float("-inf"))
    o = s.softmax(-1) @ r[2].repeat_interleave(heads // kv, 0)
    wanted = torch.autograd.grad(o, r, grad.float(), retain_graph=True)
    kernel = lambda phase, own, others: {
        "kind": "attention", "attention": "te", "phase": phase, "dtype": "bf16", "m": m, "n": n, "k": d, "count": heads,
        "flop": (8 if own == 4 else 4) * m * n * d * heads, "bytes": 2 * (own * m * d * heads + others * n * d * kv), **({"causal": True} if causal else {})}
    got, stats = run(sys.argv[1], kernel("forward", 2, 2), (q, k, v), (((heads, m, d), bf16), ((heads, m), f32)))
    errors = dict(o=error(got, o), stats=error(stats, s.logsumexp(-1)))
    shapes = (((heads, m, d), bf16), ((kv, n, d), bf16), ((kv, n, d), bf16))
    back = run(sys.argv[1], kernel("backward", 4, 4), (q, k, v, got, grad, stats), shapes)
    errors.update(zip(("dq", "dk", "dv"), map(error, back, wanted)))
    print((heads, kv, m, n, d, causal), {k: "%.2g" % e for k, e in errors.items()}, flush=True)
    fine &= all(e < .01 for e in errors.values())
sys.exit(not fine)
