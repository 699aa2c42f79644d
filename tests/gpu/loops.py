"""Kernels of one GPU in short and one-second loops, with the board's power and clock: tables that `maquette score` reads.

    python3 tests/gpu/loops.py GPU DIR [SECONDS [PART...]]     # GPU: its name in platforms/calib; without a GPU a dry run

DIR/gemm.csv (score --gemm), DIR/attention.csv (score --kernels), DIR/parts.csv and DIR/grouped.csv, the board's clock and energy
all the while (trace.csv), loads with rests (bursts.csv), and what the kernels gave against the same in fp32 (check.csv). `loop` short: 36 calls behind 21, from a rest; 1s: calls of .6 s behind .3 s of the same.
`power_W`: energy of the timed part by NVML's counter over its time; `sm_MHz`: the mean clock meanwhile. Operands are normal
random numbers, six sets that the calls walk through. SECONDS: nothing begins later (330).
PART: products, attentions, parts, grouped or bursts alone.
"""
import csv, os, sys, threading, time
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

REAL = torch.cuda.is_available()
device = "cuda" if REAL else "cpu"
bf16, e4m3, e5m2 = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
SETS, REST_S = 6, .2
began = time.time()
clocks, checked = [], set()  # clocks: (time, MHz, J)

# rows, outputs, depth: squares, layers of Llama 8B and 70B, GPT-3 over 8 GPUs, narrow, deep, flat, odd ones
SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (16384, 6144, 4096), (16384, 4096, 4096),
          (16384, 28672, 4096), (16384, 4096, 14336), (4096, 28672, 4096), (4096, 4096, 14336), (4096, 10240, 8192), (4096, 8192, 8192),
          (4096, 57344, 8192), (4096, 8192, 28672), (8192, 4608, 12288), (8192, 12288, 1536), (8192, 6144, 12288), (8192, 12288, 6144),
          (32768, 1024, 12288), (32768, 2048, 1024), (32768, 8192, 512), (16384, 16384, 256), (8192, 1024, 8192), (2048, 16384, 2048),
          (2048, 2048, 32768), (512, 8192, 8192), (256, 8192, 8192), (64, 8192, 8192), (1024, 8192, 8192), (1024, 28672, 4096),
          (512, 512, 65536), (3329, 2560, 10240), (4097, 6144, 2560), (2560, 3072, 2048), (6144, 1536, 2048), (65536, 512, 512),
          (8192, 32000, 4096), (4096, 128256, 2048), (12288, 12288, 12288), (4096, 2048, 8192))
FP8 = SHAPES[:16] + SHAPES[18:26] + SHAPES[28:30] + SHAPES[38:39]  # by one scale a tensor; e5m2 as gradients have it
SCALED = (SHAPES[0], SHAPES[1], SHAPES[4], SHAPES[6], SHAPES[7], SHAPES[11])
# batch, heads, heads of keys, length, width, causal
ATTENTION = ((4, 32, 8, 4096, 128, 1), (1, 32, 32, 16384, 128, 1), (16, 16, 16, 1024, 64, 1), (8, 32, 32, 2048, 128, 1),
             (2, 32, 8, 8192, 128, 1), (32, 16, 16, 512, 64, 0), (4, 12, 12, 2048, 128, 1), (1, 8, 1, 32768, 128, 1))
# experts, tokens of each, outputs, depth; uneven: loads 1 to 3
GROUPED = ((8, 4096, 14336, 4096, 0), (8, 4096, 4096, 14336, 0), (64, 512, 2816, 2048, 0), (64, 512, 2048, 1408, 0), (64, 512, 2816, 2048, 1))


def watch(nvml, gpu):
    while True:
        clocks.append((time.time(), nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM), nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3))
        time.sleep(.005)


def board(since):
    """Watts and MHz in the mean from a time on; the energy counter moves some ten times a second."""
    seen = [c for c in clocks if c[0] > since]
    moved = [b for a, b in zip(seen, seen[1:]) if b[2] != a[2]]
    W = (moved[-1][2] - moved[0][2]) / (moved[-1][0] - moved[0][0]) if len(moved) > 1 else float("nan")
    return W, sum(c[1] for c in seen) / max(1, len(seen))


def graph_of(calls):
    """What runs `calls` once: a graph's replay."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph.replay


def event():
    e = torch.cuda.Event(enable_timing=True)
    e.record()
    return e


def loops(calls, graphed=True):
    """Microseconds of a call in a short loop, then in a long one, its watts and MHz."""
    if not REAL:
        for call in calls:
            call()
        return (1.0, 1.0, 0.0, 0.0)
    once = graph_of(calls) if graphed else lambda: [call() for call in calls]
    once()
    torch.cuda.synchronize()
    time.sleep(REST_S)
    for _ in range(3):
        once()
    a = event()
    for _ in range(6):
        once()
    b = event()
    torch.cuda.synchronize()
    short = a.elapsed_time(b) / 6
    n = max(1, int(.1 / (short * 1e-3)))
    for _ in range(3 * n):
        once()
    a = event()
    for _ in range(2 * n):
        once()
    a.synchronize()
    since = time.time()
    for _ in range(4 * n):
        once()
    b = event()
    b.synchronize()
    return (short * 1e3 / len(calls), a.elapsed_time(b) * 1e3 / (6 * n) / len(calls)) + board(since)


class Table:
    def __init__(self, name, columns):
        self.columns = columns.split(",") + ["loop", "time_us", "power_W", "sm_MHz"]
        self.file = csv.writer(open(os.path.join(DIR, name), "w", buffering=1))
        self.file.writerow(self.columns)

    def rows(self, values, calls, graphed=True):
        if time.time() - began > SECONDS:
            return
        try:
            short, long, W, MHz = loops(calls, graphed)
        except Exception as error:  # of a kernel that is not there: the others are timed
            print(values, repr(error)[:300], file=sys.stderr)
            return
        self.file.writerow(list(values) + ["short", "%.5g" % short, "", ""])
        self.file.writerow(list(values) + ["1s", "%.5g" % long, "%.4g" % W, "%.5g" % MHz])


def check(name, got, want):
    if name in checked:
        return
    checked.add(name)
    error = ((got.float() - want.float()).norm() / want.float().norm()).item()
    checks.writerow((name, "%.3g" % error))


def tiny(*sizes):
    return sizes if REAL else tuple(max(16, min(s, 128)) for s in sizes)


def random(*shape, dtype=bf16):
    x = torch.randn(*shape, device=device, dtype=bf16)
    return x if dtype == bf16 else x.to(dtype)


def of_sets(make, size):
    """Calls that walk through sets of operands, as many as memory has room for."""
    made = [make() for _ in range(max(1, min(SETS, int(4e10 / size))))]
    return [made[i % len(made)] for i in range(SETS)]


def gemm_bf16(m, n, k):
    a, b, c = random(m, k), random(n, k), torch.empty(m, n, device=device, dtype=bf16)
    return lambda: torch.mm(a, b.t(), out=c)


def gemm_fp8(m, n, k, scaling, first=e4m3, cast=False):
    x = random(m, k)
    a, b = x.to(first), random(n, k, dtype=e4m3)
    one = lambda *shape: torch.ones(*shape, device=device)
    if scaling == "tensor":
        sa, sb = one(1), one(1)
    elif scaling == "token":
        sa, sb = one(m, 1), one(1, n)
    else:
        sa, sb = one(k // 128, m).t(), one(n // 128, k // 128).t()
    fast = first == e4m3 and scaling != "block"

    def call():
        return torch._scaled_mm(a, b.t(), scale_a=sa, scale_b=sb, out_dtype=bf16, use_fast_accum=fast)

    def with_cast():
        scale = 448 / x.abs().max().float()
        q = (x * scale).to(e4m3)
        return torch._scaled_mm(q, b.t(), scale_a=1 / scale, scale_b=sb, out_dtype=bf16, use_fast_accum=True)
    if (m, n, k) == tiny(4096, 4096, 4096) and not cast:
        check(f"fp8 {scaling} {first}", call(), a.float() @ b.float().t())
    return with_cast if cast else call


def products():
    out = Table("gemm.csv", "gpu,dtype,scaling,m,n,k,cast_us,note")
    for m, n, k in (tiny(*s) for s in SHAPES):
        out.rows((gpu_name, "bf16", "", m, n, k, "", ""), of_sets(lambda: gemm_bf16(m, n, k), 2 * (m * k + n * k + m * n)))
    plain = [("tensor", e4m3, s) for s in FP8] + [("tensor", e5m2, s) for s in FP8[:4]] + [(w, e4m3, s) for s in SCALED for w in ("token", "block")]
    for scaling, first, shape in plain:
        m, n, k = tiny(*shape)
        try:
            calls = of_sets(lambda: gemm_fp8(m, n, k, scaling, first), 4 * (m * k + n * k + m * n))
        except Exception as error:
            print(scaling, m, n, k, repr(error)[:300], file=sys.stderr)
            continue
        out.rows((gpu_name, "fp8", scaling, m, n, k, 0, "e5m2" if first == e5m2 else ""), calls)
    for shape in FP8[:2] + FP8[4:6]:
        m, n, k = tiny(*shape)
        out.rows((gpu_name, "fp8", "tensor", m, n, k, "", "cast in it: abs, max, times, to"), of_sets(lambda: gemm_fp8(m, n, k, "tensor", cast=True), 9 * (m * k + n * k)))


def attention_call(shape, backend):
    batch, heads, kv_heads, length, width, causal = shape
    q = random(batch, length, heads, width).transpose(1, 2).requires_grad_()
    k, v = (random(batch, length, kv_heads, width).transpose(1, 2).requires_grad_() for _ in range(2))

    def forward():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=heads != kv_heads)
    o = forward()
    grad = torch.randn_like(o)
    return forward, lambda: torch.autograd.grad(o, (q, k, v), grad, retain_graph=True), (q, k, v, o, grad)


def attentions():
    out = Table("attention.csv", "gpu,implementation,library,mode,dtype,batch,heads,kv_heads,seq_q,seq_kv,head_dim,causal")
    for shape in ATTENTION:
        batch, heads, kv_heads, length, width, causal = shape
        for name, library, backend in (("cudnn-torch", "cudnn", SDPBackend.CUDNN_ATTENTION), ("flash2-torch", "flash2", SDPBackend.FLASH_ATTENTION)):
            if library == "flash2" and shape not in (ATTENTION[0], ATTENTION[3]):
                continue
            s = shape if REAL else (1, 2, 2, 64, 64, causal)
            try:
                forward, backward, (q, k, v, o, grad) = attention_call(s, backend if REAL else SDPBackend.MATH)
                if length <= 1024:
                    r = [x.detach().float().requires_grad_() for x in (q, k, v)]
                    with sdpa_kernel(SDPBackend.MATH):
                        want = F.scaled_dot_product_attention(*r, is_causal=bool(causal), enable_gqa=heads != kv_heads)
                    check(f"{name} forward {shape}", o, want)
                    for x, got, ref in zip("qkv", backward(), torch.autograd.grad(want, r, grad.float())):
                        check(f"{name} d{x} {shape}", got, ref)
            except Exception as error:
                print(name, shape, repr(error)[:300], file=sys.stderr)
                continue
            kind = (batch, heads, kv_heads, length, length, width, causal)
            with torch.no_grad():
                out.rows((gpu_name, name, library, "forward", "bf16") + kind, [forward] * SETS, False)
            out.rows((gpu_name, name, library, "backward", "bf16") + kind, [backward] * SETS, False)
            del forward, backward, q, k, v, o, grad


def parts():
    """Sweeps through memory: what bytes draw, and casts as frameworks write them."""
    out = Table("parts.csv", "gpu,part,bytes")
    for n in ((1 << 28, 1 << 24) if REAL else (1 << 10,)):
        sets = [random(n) for _ in range(SETS)]
        y, q = torch.empty_like(sets[0]), torch.empty(n, device=device, dtype=e4m3)
        out.rows((gpu_name, "copy", 4 * n), [lambda x=x: y.copy_(x) for x in sets])
        out.rows((gpu_name, "add", 6 * n), [lambda x=x: torch.add(x, sets[0], out=y) for x in sets])
        out.rows((gpu_name, "cast", 3 * n), [lambda x=x: q.copy_(x) for x in sets])
        out.rows((gpu_name, "max", 2 * n), [lambda x=x: x.max() for x in sets])
        rows = [x.view(-1, 8192 if REAL else 64) for x in sets]
        out.rows((gpu_name, "rms_norm", 4 * n), [lambda x=x: F.rms_norm(x, x.shape[1:]) for x in rows])
        del sets, rows


def grouped():
    out = Table("grouped.csv", "gpu,implementation,mode,experts,tokens,n,k,uneven")
    for experts, tokens, n, k, uneven in GROUPED:
        e, t = (experts, tokens) if REAL else (4, 16)
        n_, k_ = tiny(n, k)
        loads = torch.tensor([t // 2 + t * (i % 3) // 2 for i in range(e)] if uneven else [t] * e)
        ends = loads.cumsum(0).to(torch.int32).to(device)

        def make():
            a, b = random(int(ends[-1]), k_), random(e, n_, k_)
            return lambda: torch._grouped_mm(a, b.transpose(1, 2), offs=ends)
        try:
            calls = of_sets(make, 2 * e * (t * (k_ + n_) + n_ * k_))
        except Exception as error:
            print("grouped", repr(error)[:300], file=sys.stderr)
            continue
        out.rows((gpu_name, "torch:_grouped_mm", "forward", experts, tokens, n, k, uneven), calls)


def bursts():
    """Calls for a share of each 25 ms, rest for the others: what they draw before the board's limit binds."""
    out = csv.writer(open(os.path.join(DIR, "bursts.csv"), "w", buffering=1))
    out.writerow(("kernel", "share", "time_us", "power_W", "sm_MHz"))
    forward, backward, _ = attention_call(ATTENTION[0] if REAL else (1, 2, 2, 64, 64, 1), SDPBackend.CUDNN_ATTENTION if REAL else SDPBackend.MATH)
    big, small, flat = tiny(4096, 8192, 8192), tiny(2048, 2048, 2048), tiny(16384, 16384, 256)
    x, y = random(1 << 27 if REAL else 64), random(1 << 27 if REAL else 64)
    kinds = [("bf16 4096 8192 8192", gemm_bf16(*big)), ("bf16 2048 2048 2048", gemm_bf16(*small)), ("bf16 16384 16384 256", gemm_bf16(*flat)),
             ("fp8 4096 8192 8192", gemm_fp8(*big, "tensor")), ("cudnn forward", forward), ("cudnn backward", backward),
             ("add", lambda: torch.add(x, y, out=y))]
    for name, call in kinds:
        call()
        for share in (.2, .4) if REAL else ():
            torch.cuda.synchronize()
            begin, pairs = time.time(), []
            a = event()
            for _ in range(8):
                call()
            b = event()
            b.synchronize()
            n = max(1, int(share * 25 / (a.elapsed_time(b) / 8)))
            while time.time() - begin < .9:
                since = time.time()
                a = event()
                for _ in range(n):
                    call()
                b = event()
                b.synchronize()
                pairs.append((a.elapsed_time(b), time.time() - since))
                time.sleep(max(0, .025 - (time.time() - since)))
            busy = sum(p[0] for p in pairs) * 1e-3 / (time.time() - begin)
            W, MHz = board(begin + .1)
            out.writerow((name, "%.4f" % busy, "%.5g" % (sum(p[0] for p in pairs) / len(pairs) / n * 1e3), "%.4g" % W, "%.5g" % MHz))


gpu_name, DIR = sys.argv[1:3]
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 330
os.makedirs(DIR, exist_ok=True)
checks = csv.writer(open(os.path.join(DIR, "check.csv"), "w", buffering=1))
checks.writerow(("what", "relative_error"))
torch.manual_seed(0)
if REAL:
    import pynvml as NVML
    NVML.nvmlInit()
    GPU = NVML.nvmlDeviceGetHandleByIndex(0)
    threading.Thread(target=watch, args=(NVML, GPU), daemon=True).start()
    time.sleep(1)
    print("idle: %.0f W" % board(0)[0], torch.cuda.get_device_name(), "torch", torch.__version__, file=sys.stderr)
for part in [globals()[name] for name in sys.argv[4:]] or (products, attentions, parts, grouped, bursts):
    begin = time.time()
    part()
    if REAL:
        torch.cuda.empty_cache()
    print("%s: %.0f s" % (part.__name__, time.time() - begin), file=sys.stderr)
if REAL:
    with open(os.path.join(DIR, "trace.csv"), "w") as trace:
        csv.writer(trace).writerows([("time_s", "sm_MHz", "energy_J")] + [("%.4f" % (t - began), MHz, "%.2f" % J) for t, MHz, J in list(clocks)])
