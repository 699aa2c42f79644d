"""The cuda executor's fused attention against PyTorch in fp32: relative errors of O, dQ, dK and dV.

    gcc -std=gnu11 -Isim/include -Ivalidator -Isim -Ibuild/gen tests/gpu/attention.c build/obj/validator/cuda/{attention,libraries,state}.c.o \
        build/obj/sim/base/{arena,err,types,text}.c.o -lm -ldl -o attention
    python3 tests/gpu/attention.py ./attention
"""
import subprocess, sys, tempfile, os
import torch

LINE = 256
CASES = ((8, 8, 512, 512, 128, 1), (16, 4, 1024, 1024, 128, 1), (16, 16, 384, 384, 64, 0), (12, 12, 2048, 2048, 64, 1), (32, 8, 4096, 4096, 128, 1))
program = sys.argv[1]


def written(tensors, path):
    with open(path, "wb") as f:
        for t in tensors:
            data = t.contiguous().view(torch.uint8).cpu().numpy().tobytes()
            f.write(data + bytes(-len(data) % LINE))


def read(path, shapes):
    data, at, out = open(path, "rb").read(), 0, []
    for shape, dtype in shapes:
        n = torch.Size(shape).numel() * dtype.itemsize
        out.append(torch.frombuffer(bytearray(data[at:at + n]), dtype=dtype).view(shape).cuda())
        at += n + -n % LINE
    return out


def error(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()


worst = 0
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
    with tempfile.TemporaryDirectory() as folder:
        a, b = os.path.join(folder, "in"), os.path.join(folder, "out")
        call = lambda phase: subprocess.run([program, phase] + [str(x) for x in (heads, kv, m, n, d, causal)] + [a, b], check=True)
        written((q, k, v), a)
        call("forward")
        got, stats = read(b, (((heads, m, d), bf16), ((heads, m), f32)))
        errors = dict(o=error(got, o), stats=error(stats, s.logsumexp(-1)))
        written((q, k, v, got, grad, stats), a)
        call("backward")
        shapes = (((heads, m, d), bf16), ((kv, n, d), bf16), ((kv, n, d), bf16))
        errors.update(zip(("dq", "dk", "dv"), map(error, read(b, shapes), wanted)))
    print((heads, kv, m, n, d, causal), {k: "%.2g" % e for k, e in errors.items()}, flush=True)
    worst = max(worst, *errors.values())
sys.exit(not worst < .01)
