"""The cuda executor's GEMMs of experts against PyTorch: values (fp32, a product for each expert) and times.

    python3 tests/gpu/grouped.py ./kernel [FILE.csv]     # made as kernel.py says

Times in microseconds: `loop` a call of torch.mm for each expert, in a graph; `torch_grouped` its grouped product (forward, equal or not).
"""
import csv, sys
import torch
from kernel import error, run

# experts, rows of all, outputs, depth (weights' gradients: the rows are the depth); rows that experts do not share evenly
CASES = (("forward", 8, 4100, 1024, 512), ("backward", 8, 4100, 512, 1024), ("weights", 8, 4100, 1024, 512), ("forward", 64, 8200, 1408, 2048),
         ("forward", 8, 16384, 4096, 4096), ("backward", 8, 16384, 4096, 4096), ("weights", 8, 16384, 4096, 4096), ("forward", 64, 32768, 1408, 2048))
bf16 = torch.bfloat16
random = lambda *shape: torch.randn(*shape, device="cuda", dtype=bf16)


def timed(call, n=20):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    a.record()
    for _ in range(n):
        graph.replay()
    b.record()
    torch.cuda.synchronize()
    return a.elapsed_time(b) / n * 1e3


out = csv.writer(open(sys.argv[2], "w", buffering=1) if len(sys.argv) > 2 else sys.stdout)
out.writerow("phase,experts,rows,n,k,relative_error,loop_us,torch_grouped_us".split(","))
fine = True
for phase, experts, rows, n, k in CASES:
    ends = [i * rows // experts for i in range(1, experts + 1)]
    spans = list(zip([0] + ends, ends))
    weights, back = phase == "weights", phase != "forward"
    kernel = {"kind": "gemm", "phase": "backward" if back else "forward", "dtype": "bf16", "count": experts, "grouped": True,
              "flop": 2 * rows * n * k, "bytes": 2 * (rows * (n + k) + experts * n * k)}
    x = random(rows, k)
    if weights:  # of expert e: x[e]^T y[e], [k x n]
        y = random(rows, n)
        kernel.update(m=k, n=n, k=rows / experts, of_weights=True)
        got, = run(sys.argv[1], kernel, (y, x), (((experts, k, n), bf16),))
        calls = [lambda a=a, b=b: x[a:b].t() @ y[a:b] for a, b in spans]
        want = torch.stack([x[a:b].float().t() @ y[a:b].float() for a, b in spans])
    else:  # x[e] w[e]^T forward, as layers keep their weights; backward x[e] w[e]
        w = random(experts, k, n) if back else random(experts, n, k)
        kernel.update(m=rows / experts, n=n, k=k)
        got, = run(sys.argv[1], kernel, (w, x), (((rows, n), bf16),))
        of = lambda e: w[e] if back else w[e].t()
        calls = [lambda a=a, b=b, e=e: x[a:b] @ of(e) for e, (a, b) in enumerate(spans)]
        want = torch.cat([x[a:b].float() @ of(e).float() for e, (a, b) in enumerate(spans)])
    wrong = error(got, want)
    del want, got
    offs = torch.tensor(ends, dtype=torch.int32, device="cuda")
    together = None if back else timed(lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=offs))
    out.writerow((phase, experts, rows, n, k, "%.3g" % wrong, "%.5g" % timed(lambda: [call() for call in calls]), together and "%.5g" % together))
    fine &= wrong < .01
sys.exit(not fine)
