"""How fast one GPU is under loads that last: rate, clock and power of products, attention, copies and a model's steps.

    python3 tests/gpu/power.py >power.csv    # nvidia-smi beside it

Each load runs for some seconds behind a rest of one: `first` is the rate of a call after one other, `late` that of the last half; clock, power and
temperature are nvidia-smi's, in the mean of that half. Operands are normal random numbers in bf16 but where they are zeros.
"""
import csv, subprocess, sys, threading, time
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

bf16 = torch.bfloat16
readings = []  # (time, MHz, W, C)


def watch():
    query = "--query-gpu=clocks.sm,power.draw.instant,temperature.gpu"
    smi = subprocess.Popen(("nvidia-smi", query, "--format=csv,noheader,nounits", "-lms", "100"), stdout=subprocess.PIPE, text=True)
    for line in smi.stdout:
        readings.append((time.time(), *map(float, line.split(","))))


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=bf16)


def load(name, work, amount, unit, seconds):
    time.sleep(1)
    work()
    torch.cuda.synchronize()
    begin, calls = time.time(), []
    work()
    torch.cuda.synchronize()
    first = time.time() - begin
    n = max(1, int(.25 / first))
    while time.time() - begin < seconds:
        since = time.time()
        for _ in range(n):
            work()
        torch.cuda.synchronize()
        calls.append((time.time() - since) / n)
    late = calls[len(calls) // 2:]
    seen = [r for r in readings if r[0] > begin + seconds / 2]
    mean = lambda i: "%.0f" % (sum(r[i] for r in seen) / len(seen))
    out.writerow((name, unit, "%.4g" % (amount / first), "%.4g" % (amount * len(late) / sum(late)), mean(1), mean(2), mean(3)))
    sys.stdout.flush()


def products(a, b, c, n):
    return lambda: [torch.mm(a, b, out=c) for _ in range(n)]


def layer(tokens, width, ffn):
    shapes = ((width, 3 * width), (width, width), (width, 2 * ffn), (ffn, width))
    operands = [(random(tokens, k), random(k, n), random(tokens, n)) for k, n in shapes]
    return lambda: [torch.mm(a, b, out=c) for a, b, c in operands], sum(2 * tokens * k * n for k, n in shapes)


def attention(backend):
    q, k, v = (random(4, 32, 4096, 128).requires_grad_() for _ in range(3))

    def work():
        with sdpa_kernel(backend):
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.autograd.grad(o, (q, k, v), o.detach())
    return work, 3.5 * 2 * 4 * 32 * 4096 * 4096 * 128


def llama(layers, rows, length, compiled):
    import transformers
    config = transformers.LlamaConfig(hidden_size=4096, num_hidden_layers=layers, num_attention_heads=32, intermediate_size=11008,
                                      vocab_size=32000, max_position_embeddings=length, use_cache=False)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).to(bf16).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    run = torch.compile(model) if compiled else model
    ids = torch.randint(0, 32000, (rows, length), device="cuda")

    def step():
        run(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, rows * length


threading.Thread(target=watch, daemon=True).start()
torch.manual_seed(0)
out = csv.writer(sys.stdout)
out.writerow(("load", "unit", "first", "late", "SM_MHz", "W", "C"))
a, b = random(8192, 8192), random(8192, 8192)
c, zeros = torch.empty_like(a), torch.zeros_like(a)
x, y = random(1 << 28), random(1 << 28)
FLOP = 2 * 8192 ** 3
load("products of 8192", products(a, b, c, 8), 8 * FLOP, "flop/s", 12)
load("products of zeros", products(zeros, zeros, c, 8), 8 * FLOP, "flop/s", 4)
work, flop = layer(8192, 4096, 11008)
load("products of a layer", work, flop, "flop/s", 6)
load("copies", lambda: y.copy_(x), 4 * x.numel(), "B/s", 4)
work, flop = attention(SDPBackend.FLASH_ATTENTION)
load("FlashAttention 2", work, flop, "flop/s", 6)
work, flop = attention(SDPBackend.CUDNN_ATTENTION)
load("cuDNN's attention", work, flop, "flop/s", 6)
for n, copies in ((8, 4), (4, 6), (2, 8)):
    load("%d products, %d copies" % (n, copies), lambda: [products(a, b, c, n)()] + [y.copy_(x) for _ in range(copies)], n * FLOP, "flop/s", 5)
for ms in (2, 5, 11):
    load("8 products, %d ms of rest" % ms, lambda: [products(a, b, c, 8)(), torch.cuda._sleep(int(ms * 1.9e6))], 8 * FLOP, "flop/s", 4)
del work
torch.cuda.empty_cache()
for name, compiled in (("Llama of 6 layers, 4096 wide", False), ("the same by torch.compile", True)):
    step, tokens = llama(6, 4, 2048, compiled)
    for _ in range(2):
        step()
    load(name, step, tokens, "tokens/s", 30)
    del step
    torch.cuda.empty_cache()
