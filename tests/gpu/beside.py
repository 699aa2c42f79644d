"""How much longer kernels take while a collective's thread blocks hold multiprocessors.

    python3 tests/gpu/beside.py [libcublas.so] >beside.csv    # a library other than PyTorch's: its products alone

Blocks of 544 threads that wait, each with 140 kB of shared memory, so that none shares a multiprocessor with a product: alone (`cluster` 1) and
in clusters of four, as NCCL launches its own on Hopper (NCCL_CGA_CLUSTER_SIZE). Products are y = x W' of a layer, its two gradients (rows x inputs x
outputs, bf16); attention has 2 x 32 heads of 128 at 4,096 positions, causal. The shorter of two bursts of 5 ms.
"""
import csv, ctypes, sys, time
import cupy, numpy, torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

SHARED_B, THREADS = 140 * 1024, 544
HELD = (0, 4, 8, 16, 24, 32)
SHAPES = ((2048, 4096, 4096), (2048, 4096, 11008), (4096, 4096, 12288), (4096, 4096, 14336), (4096, 14336, 4096), (8192, 2048, 8192),
          (16384, 4096, 4096), (16384, 4096, 14336))
bf16 = torch.bfloat16


def waiting(cluster):
    kernel = cupy.RawKernel(r"""
    extern "C" __global__ void %s waits(unsigned long long ns)
    {
        extern __shared__ char s[];
        unsigned long long begin, now;

        asm volatile("mov.u64 %%0, %%globaltimer;" : "=l"(begin));
        do
            asm volatile("mov.u64 %%0, %%globaltimer;" : "=l"(now));
        while (now - begin < ns);
        if (now == 1)
            s[threadIdx.x] = 1;
    }""" % ("__cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 else ""), "waits")
    kernel.max_dynamic_shared_size_bytes = SHARED_B
    return kernel


def random(*shape, scale=1):
    return (torch.randn(*shape, device="cuda") * scale).to(bf16)


class Library:
    """cublasGemmEx of a library, as PyTorch calls it: bf16, sums in fp32, a workspace of 32 MB."""

    def __init__(self, path):
        self.lib, self.handle = ctypes.CDLL(path), ctypes.c_void_p()
        self.space = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
        self.one, self.zero = ctypes.c_float(1), ctypes.c_float(0)
        self.check(self.lib.cublasCreate_v2(ctypes.byref(self.handle)))
        self.check(self.lib.cublasSetWorkspace_v2(self.handle, ctypes.c_void_p(self.space.data_ptr()), ctypes.c_size_t(32 << 20)))
        self.check(self.lib.cublasSetStream_v2(self.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

    @staticmethod
    def check(status):
        if status:
            sys.exit("cublas: status %d" % status)

    def version(self):
        number = ctypes.c_int()
        self.check(self.lib.cublasGetVersion_v2(self.handle, ctypes.byref(number)))
        return "%d.%d.%d" % (number.value // 10000, number.value // 100 % 100, number.value % 100)

    def product(self, transposed, m, n, k, a, lda, b, ldb, c):
        at = lambda x: ctypes.c_void_p(x.data_ptr())
        self.check(self.lib.cublasGemmEx(self.handle, transposed[0], transposed[1], m, n, k, ctypes.byref(self.one), at(a), 14, lda, at(b), 14, ldb,
                                         ctypes.byref(self.zero), at(c), 14, m, 68, -1))


def products(rows, inputs, outputs, library):
    x, w, dy = random(rows, inputs), random(outputs, inputs, scale=.02), random(rows, outputs, scale=.01)
    y, dx, dw = (torch.empty_like(t) for t in (dy, x, w))
    if library:
        calls = (lambda: library.product((1, 0), outputs, rows, inputs, w, inputs, x, inputs, y),
                 lambda: library.product((0, 0), inputs, rows, outputs, w, inputs, dy, outputs, dx),
                 lambda: library.product((0, 1), inputs, outputs, rows, x, inputs, dy, outputs, dw))
    else:
        calls = (lambda: torch.mm(x, w.t(), out=y), lambda: torch.mm(dy, w, out=dx), lambda: torch.mm(dy.t(), x, out=dw))
    kinds = ("forward", "input gradient", "weight gradient")
    return [("product, %s, %dx%dx%d" % (kind, rows, inputs, outputs), call) for kind, call in zip(kinds, calls)]


def others():
    q, k, v = (random(2, 32, 4096, 128).requires_grad_() for _ in range(3))
    a, b = random(1 << 26), random(1 << 26)
    c, table = torch.empty_like(a), a.view(-1, 4096)

    def attention(name, backend):
        def forward():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = forward()
        ones = torch.ones_like(out)
        return [("attention, %s, forward" % name, lambda: forward()),
                ("attention, %s, backward" % name, lambda: torch.autograd.grad(out, (q, k, v), ones, retain_graph=True))]
    return attention("FlashAttention 2", SDPBackend.FLASH_ATTENTION) + attention("cuDNN", SDPBackend.CUDNN_ATTENTION) + [
        ("sum of 67 M", lambda: torch.add(a, b, out=c)), ("softmax of rows of 4096", lambda: torch.softmax(table, -1)), ("GELU of 67 M", lambda: F.gelu(a))]


def burst(call, n):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(n):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / n


torch.manual_seed(0)
library = Library(sys.argv[1]) if len(sys.argv) > 1 else None
name = "cuBLAS " + (library.version() if library else torch.version.cuda)
ops = sum((products(*shape, library) for shape in SHAPES), []) + ([] if library else others())
side = torch.cuda.Stream()
out = csv.writer(sys.stdout)
out.writerow(("library", "kernel", "cluster", "held", "ms"))
for cluster in (1, 4):
    wait = waiting(cluster)
    for kernel, call in ops:
        burst(call, 3)
        n = max(2, min(40, int(5 / burst(call, 1))))
        for held in HELD:
            best = float("inf")
            for _ in range(2):
                time.sleep(.008)
                alone = best if best < float("inf") else 5 / n
                if held:
                    with cupy.cuda.ExternalStream(side.cuda_stream):
                        wait((held,), (THREADS,), (numpy.uint64(int((alone * n * 5 + 5) * 1e6)),), shared_mem=SHARED_B)
                    time.sleep(.001)
                best = min(best, burst(call, n))
            out.writerow((name, kernel, cluster, held, "%.5f" % best))
            sys.stdout.flush()
