"""Parts of PyTorch's steps alone on one GPU, as tables: convolutions, cudaMalloc, passes with an empty cache, copies and sums.

    python3 tests/gpu/alone.py DIR [SECONDS [PART...]]      # PART: malloc, emptied, small, conv; without a GPU a dry run

DIR/conv.csv: each convolution of four networks, forward, the input's gradient and the weights', fp16 channels last and TF32 channels first.
DIR/malloc.csv: cudaMalloc and cudaFree by size. DIR/emptied.csv: passes whose allocator's cache was kept, and emptied before each forward
pass. DIR/small.csv: copies to and from the host, sums and copies on the device by size. Times in microseconds, medians; SECONDS (300): no
convolution begins later.
"""
import csv, ctypes, gc, os, statistics, sys, time
import torch
import steps_kernels as S
from steps_kernels import bf16, device, tiny

nn = torch.nn
began = time.time()
last = float(sys.argv[2]) if len(sys.argv) > 2 else 300

def convolutions(path):
    """Times of each convolution of the networks, alone: forward, gradients of inputs, of weights, in microseconds."""
    c = dict(mbs=2, precision="bf16", seq=0)
    nets = [("resnet50", 256, lambda: S.images(c, "resnet50", True)), ("unet3d", 7, lambda: S.volume(c)), ("sd2", 32, lambda: S.sd2(c, True)), ("retinanet", 16, lambda: S.retina(c))]
    out = csv.writer(open(path, "w", buffering=1))
    out.writerow("network,dtype,layout,batch,in,out,size,window,stride,pad,groups,transposed,times,flop,forward_us,dgrad_us,wgrad_us".split(","))
    torch.backends.cudnn.benchmark = True
    for name, batch, make in nets:
        seen = {}
        try:
            model, data = make()
            def hook(m, i, o):
                key = (tuple(i[0].shape[1:]), m.out_channels, m.kernel_size, m.stride, m.padding, m.groups, isinstance(m, (nn.ConvTranspose3d,)))
                seen[key] = seen.get(key, 0) + 1
            for m in model.modules():
                if isinstance(m, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose3d)):
                    m.register_forward_hook(hook)
            with torch.no_grad(), torch.autocast(device, bf16):
                S.loss_of(model, data)
            del model, data
        except Exception as e:
            print(name, repr(e)[:300], file=sys.stderr)
        for dtype, layout in ((torch.float16, "last"), (torch.float32, "first")):
            for key, times in seen.items():
                shape, o, k, stride, pad, groups, trans = key
                if time.time() - began > last:
                    return
                try:
                    b = batch if dtype == torch.float16 else max(1, batch // 4)
                    torch.backends.cudnn.allow_tf32 = True
                    fmt = {1: {4: torch.channels_last, 5: torch.channels_last_3d}, 0: {4: torch.contiguous_format, 5: torch.contiguous_format}}[layout == "last"][len(shape) + 1]
                    x = torch.randn(b, *shape, device=device, dtype=dtype).to(memory_format=fmt)
                    w = torch.randn(*((shape[0], o) if trans else (o, shape[0] // groups)), *k, device=device, dtype=dtype).to(memory_format=fmt)
                    n = len(k)
                    args = (list(stride), list(pad), [1] * n, trans, [0] * n, groups)
                    y = torch.ops.aten.convolution(x, w, None, *args)
                    g = torch.randn_like(y)
                    def back(mask):
                        return lambda: torch.ops.aten.convolution_backward(g, x, w, [0], *args, mask)
                    calls = [lambda: torch.ops.aten.convolution(x, w, None, *args), back([True, False, False]), back([False, True, False])]
                    us = [event_us(f) for f in calls]
                    flop = 2. * w.numel() * (x.numel() / x.shape[1] if trans else y.numel() / y.shape[1])
                    out.writerow([name, "fp16" if dtype == torch.float16 else "tf32", layout, b, shape[0], o, "x".join(map(str, shape[1:])), "x".join(map(str, k)), stride[0], pad[0], groups, int(trans), times, "%.4g" % flop] + ["%.1f" % u for u in us])
                except Exception as e:
                    print(name, key, repr(e)[:200], file=sys.stderr)
                x = w = y = g = None
            gc.collect()
            if device == "cuda": torch.cuda.empty_cache()


def event_us(f, n=5):
    for _ in range(2):
        f()
    if device == "cpu":
        t = time.time(); f(); return (time.time() - t) * 1e6
    found = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        torch.cuda._sleep(200000)
        a.record(); f(); b.record()
        torch.cuda.synchronize()
        found.append(a.elapsed_time(b) * 1e3)
    return statistics.median(found)


def mallocs(path):
    """cudaMalloc and cudaFree: microseconds by size, on memory that was free, several at once."""
    out = csv.writer(open(path, "w", buffering=1))
    out.writerow("bytes,calls,malloc_us,first_us,least_us,touch_us,free_us".split(","))
    if device == "cpu":
        return
    torch.zeros(1, device=device)
    lib = None
    for name in ("libcudart.so.13", "libcudart.so"):
        try:
            lib = ctypes.CDLL(name); break
        except OSError:
            pass
    if lib is None:
        for line in open("/proc/self/maps"):
            if "libcudart" in line:
                lib = ctypes.CDLL(line.split()[-1]); break
    lib.cudaMemset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    lib.cudaFree.argtypes = [ctypes.c_void_p]
    MB = 1 << 20
    for again in (0, 1):
        for size in (2 * MB, 20 * MB, 32 * MB, 64 * MB, 128 * MB, 256 * MB, 512 * MB, 1024 * MB, 2048 * MB, 4096 * MB):
            n = int(max(3, min(40, 16384 * MB // size)))
            ps, us, touch, free = [], [], [], []
            for _ in range(n):
                p = ctypes.c_void_p()
                lib.cudaDeviceSynchronize()
                t = time.perf_counter()
                assert lib.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)) == 0
                us.append((time.perf_counter() - t) * 1e6)
                t = time.perf_counter()
                lib.cudaMemset(p, 1, size); lib.cudaDeviceSynchronize()
                touch.append((time.perf_counter() - t) * 1e6)
                ps.append(p)
            for p in ps:
                t = time.perf_counter()
                lib.cudaFree(p)
                free.append((time.perf_counter() - t) * 1e6)
            out.writerow([size, n] + ["%.1f" % u for u in (statistics.mean(us), us[0], min(us), statistics.median(touch), statistics.mean(free))])


def emptied(path):
    """Forward and backward passes of transformers in fp32, eager, with the allocator's cache kept and emptied before each forward pass."""
    out = csv.writer(open(path, "w", buffering=1))
    out.writerow("model,batch,seq,kept_forward_ms,emptied_forward_ms,kept_backward_ms,emptied_backward_ms,segments,reserved_before_GB,reserved_after_GB,retries".split(","))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    def gpt2(n, h, a, seq):
        return S.language("GPT2", "LMHeadModel", n_layer=n, n_embd=h, n_head=a, n_positions=seq, use_cache=False, attn_implementation="eager"), 50257
    def bert():
        return S.language("Bert", "ForMaskedLM", num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager"), 30522
    for name, make, batch, seq in (("gpt2-large", lambda: gpt2(36, 1280, 20, 1024), 4, 1024), ("gpt2-large", lambda: gpt2(36, 1280, 20, 1024), 8, 1024),
                                   ("bert-large", bert, 8, 512), ("bert-large", bert, 16, 512), ("gpt3-2.7b", lambda: gpt2(32, 2560, 32, 2048), 1, 2048)):
        try:
            if tiny: batch, seq = 1, 16
            torch.manual_seed(0)
            model, vocab = make()
            ids = torch.randint(0, vocab, (batch, seq), device=device)
            def passes(empty):
                f, b = [], []
                for _ in range(5 if device == "cuda" else 1):
                    S.rest()
                    if empty:
                        gc.collect(); torch.cuda.empty_cache(); S.rest()
                    t = time.time(); o = model(input_ids=ids)[0]; S.rest(); f.append(time.time() - t)
                    after.append(torch.cuda.memory_stats()) if device == "cuda" else None
                    t = time.time(); o.backward(torch.ones_like(o)); S.rest(); b.append(time.time() - t)
                    del o
                return 1e3 * min(f[1:] or f), 1e3 * min(b[1:] or b)
            after = []
            passes(False)
            kept = passes(False)
            if device == "cuda":
                gc.collect(); torch.cuda.empty_cache()
                before = torch.cuda.memory_stats(); after.clear()
                gone = passes(True)
                s = after[-1]
                b0 = torch.cuda.memory_stats()
                out.writerow([name, batch, seq] + ["%.2f" % v for v in (kept[0], gone[0], kept[1], gone[1])] +
                             [s["segment.all.current"] - before["segment.all.current"], "%.2f" % (before["reserved_bytes.all.current"] / 1e9), "%.2f" % (s["reserved_bytes.all.current"] / 1e9), s["num_alloc_retries"]])
        except Exception as e:
            print(name, repr(e)[:300], file=sys.stderr)
        model = None; gc.collect()
        if device == "cuda": torch.cuda.empty_cache()


def small(path):
    """Copies to and from the host; sums out of place."""
    out = csv.writer(open(path, "w", buffering=1))
    out.writerow("what,bytes,us".split(","))
    if device == "cpu": return
    MB = 1 << 20
    for n in (1 * MB, 16 * MB, 256 * MB):
        d, p, q = torch.empty(n, dtype=torch.uint8, device=device), torch.empty(n, dtype=torch.uint8).pin_memory(), torch.ones(n, dtype=torch.uint8)
        for what, f in (("h2d pinned", lambda: d.copy_(p, non_blocking=True)), ("d2h pinned", lambda: p.copy_(d, non_blocking=True)),
                        ("h2d pageable", lambda: d.copy_(q)), ("d2h pageable", lambda: q.copy_(d))):
            for _ in range(2): f()
            S.rest(); t = time.perf_counter()
            for _ in range(5): f()
            S.rest(); out.writerow([what, n, "%.1f" % ((time.perf_counter() - t) / 5 * 1e6)])
    for dtype, w in ((bf16, 2), (torch.float32, 4)):
        for n in (2, 8, 32, 128, 512):
            n *= MB // w
            sets = [torch.randn(n, device=device, dtype=dtype) for _ in range(4)]
            o = [torch.empty_like(sets[0]) for _ in range(2)]
            k = [0]
            def nxt():
                k[0] += 1
                return sets[k[0] % 4], sets[(k[0] + 1) % 4], o[k[0] % 2]
            def add():
                a, b, c = nxt(); torch.add(a, b, out=c)
            def add_():
                a, b, c = nxt(); a.add_(b)
            def copy():
                a, b, c = nxt(); c.copy_(a)
            def mul():
                a, b, c = nxt(); torch.mul(a, 2., out=c)
            for what, f in (("add " + str(dtype)[6:], add), ("add_ " + str(dtype)[6:], add_), ("copy " + str(dtype)[6:], copy), ("scale " + str(dtype)[6:], mul)):
                graph = torch.cuda.CUDAGraph()
                f(); S.rest()
                with torch.cuda.graph(graph):
                    for _ in range(12): f()
                graph.replay(); S.rest()
                out.writerow([what, n * w, "%.2f" % (event_us(graph.replay) / 12)])


if __name__ == "__main__":
    DIR, parts = sys.argv[1], sys.argv[3:] or ["malloc", "emptied", "small", "conv"]
    os.makedirs(DIR, exist_ok=True)
    for part in parts:
        {"malloc": mallocs, "emptied": emptied, "small": small, "conv": convolutions}[part](os.path.join(DIR, part + ".csv"))
        print(part, "done at %.0f s" % (time.time() - began), file=sys.stderr, flush=True)
