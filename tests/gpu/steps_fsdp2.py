"""Training steps of plain PyTorch on one GPU, as a table that `maquette score` reads.

    python3 tests/gpu/steps_fsdp2.py GPU >runs.csv        # GPU: its name in platforms/calib

GPTs as one writes them (torch.autocast, scores stored, masks filled in, dropout) and transformers' Llama under FSDP2 on a mesh of one
GPU, op by op or its layers compiled. Step time: six steps in a row after three and six others; memory: what the allocator reserved.
"""
import csv, gc, math, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
from fsdp2 import shard

device = "cuda" if torch.cuda.is_available() else "cpu"
bf16 = torch.bfloat16


class Attention(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.of_scores, self.of_output = nn.Dropout(p), nn.Dropout(p)

    def forward(self, x, mask):
        b, t, h = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(h, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(q.size(-1)))
        weights = self.of_scores(F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1))
        return self.of_output(self.proj((weights @ v).transpose(1, 2).contiguous().view(b, t, h)))


class Block(nn.Module):
    def __init__(self, hidden, heads, p):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.dropout = Attention(hidden, heads, p), nn.Dropout(p)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, layers, hidden, heads, seq, vocab, p=.1):
        super().__init__()
        self.tokens, self.positions, self.dropout = nn.Embedding(vocab, hidden), nn.Embedding(seq, hidden), nn.Dropout(p)
        self.blocks = nn.ModuleList(Block(hidden, heads, p) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.triu(torch.ones(seq, seq, dtype=torch.bool), 1)[None, None])
        self.register_buffer("at", torch.arange(seq))

    def forward(self, ids, labels):
        x = self.dropout(self.tokens(ids) + self.positions(self.at))
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), labels.view(-1))


def llama(c, compiled):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                         num_key_value_heads=c["kv_heads"], intermediate_size=c["ffn"], vocab_size=c["vocab"],
                         max_position_embeddings=c["seq"], attn_implementation="sdpa", use_cache=False)
    with torch.device(device):
        model = LlamaForCausalLM(config)
    if c["recompute"] == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
    shard(model, compiled)
    return lambda ids, labels: model(input_ids=ids, labels=labels).loss, model


def row(c):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    if c["model"] == "GPT":
        with torch.device(device):
            model = GPT(c["layers"], c["hidden"], c["heads"], c["seq"], c["vocab"])
        def loss_of(ids, labels):
            with torch.autocast(device, bf16, enabled=c["precision"] == "bf16"):
                return model(ids, labels)
    else:
        loss_of, model = llama(c, c["software"] == "fsdp-compiled")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    ids, labels = (torch.randint(0, c["vocab"], (c["mbs"], c["seq"]), device=device) for _ in range(2))
    passes = c["gbs"] // c["mbs"]

    def steps(n):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.time()
        for _ in range(n):
            for _ in range(passes):
                (loss_of(ids, labels) / passes).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.time() - begin) / n

    steps(3)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(6):
        steps(1)
    c["step_time_s"] = steps(6)
    if device == "cuda":
        c["max_mem_gb"] = torch.cuda.max_memory_reserved() / 1e9
    del model, optimizer, loss_of
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch._dynamo.reset()
    return c


def gpt(name, layers, hidden, heads, mbs, gbs, precision="bf16"):
    return dict(row_id=name, model="GPT", layers=layers, hidden=hidden, ffn=4 * hidden, heads=heads, kv_heads=heads, seq=1024, vocab=50304,
                precision=precision, mbs=mbs, gbs=gbs, recompute="none", software="ddp", software_options="masked_fill=1")


def of_llama(name, layers, hidden, heads, seq, mbs, software="fsdp", recompute="none"):
    return dict(row_id=name, model="Llama", layers=layers, hidden=hidden, ffn=8192, heads=heads, kv_heads=8, seq=seq, vocab=32000,
                precision="bf16", mbs=mbs, gbs=mbs, recompute=recompute, software=software,
                software_options="attention=te", zero="FSDP")  # cuDNN's, which scaled_dot_product_attention takes on Hopper by now


if __name__ == "__main__":
    runs = [gpt("gpt-m-4", 24, 1024, 16, 4, 4), gpt("gpt-m-16", 24, 1024, 16, 16, 16), gpt("gpt-m-t4", 24, 1024, 16, 4, 4, "tf32"),
            gpt("gpt-xl-4", 24, 2048, 16, 4, 4), gpt("gpt-xl-2x2", 24, 2048, 16, 2, 4),
            of_llama("llama-1b-1", 16, 2048, 32, 2048, 1), of_llama("llama-1b-8", 16, 2048, 32, 2048, 8),
            of_llama("llama-3b-2", 28, 3072, 24, 4096, 2, recompute="full"),
            of_llama("llama-1b-8c", 16, 2048, 32, 2048, 8, "fsdp-compiled"), of_llama("llama-1b-1c", 16, 2048, 32, 2048, 1, "fsdp-compiled")]
    if device == "cpu":  # that it runs; nothing to measure
        runs = [dict(r, layers=2, hidden=64, heads=16, ffn=128, seq=32, vocab=128, mbs=1, gbs=min(r["gbs"], 2)) for r in runs[3:9]]
    columns = ("row_id,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,gpu,gpus,precision,tp,pp,dp,zero,mbs,gbs,recompute,step_time_s,"
               "max_mem_gb,memory_basis,status,software,software_options,platform").split(",")
    out = csv.DictWriter(sys.stdout, columns)
    out.writeheader()
    for r in runs:
        out.writerow(dict(row(r), gpu=sys.argv[1], gpus=1, tp=1, pp=1, dp=1, memory_basis="reserved", status="ok",
                          platform=f"gpu={sys.argv[1]} nodes=1 gpus=1"))
        sys.stdout.flush()
