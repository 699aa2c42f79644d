"""Training steps of PyTorch's usual libraries on one GPU, as tables: times, memory, hosts and kernels by class.

    python3 tests/gpu/steps_kernels.py GPU DIR [SECONDS [NAME...]]        # GPU: its name in platforms/calib; NAME: how runs' names begin

Networks of torchvision, timm, transformers, peft and diffusers as they come, under torch.autocast or in 32 bits, with AdamW (image networks: SGD with
momentum); Llama in 16 bits and under FSDP2 too. Nothing begins later than SECONDS (600).
DIR/runs.csv, which `maquette score` reads. Step time: the shortest of three times four steps in a row after three others; memory: what
the allocator reserved, `allocated_GB` what of it tensors had.
DIR/hosts.csv: microseconds until the host has sent forward, backward and update, each begun when the GPU rests (the least of eight), and
what x + x takes that host just before.
DIR/kernels.csv: of the same phases the kernels, memsets apart, their microseconds, and those by class; DIR/kernels.json: those that take
longest: name, how many, microseconds. When all is timed: a process in which torch.profiler ran once launches half as fast.
"""
import csv, gc, json, os, re, sys, time, types
import torch, torch.nn.functional as F
from fsdp2 import shard

device = "cuda" if torch.cuda.is_available() else "cpu"
bf16 = torch.bfloat16
tiny = device == "cpu"  # that it runs; nothing to measure


def language(kind, head, **config):
    import transformers
    with torch.device(device):
        model = getattr(transformers, kind + head)(getattr(transformers, kind + "Config")(**config))
    return model.train()


def tokens(c, vocab):
    ids = torch.randint(0, vocab, (c["mbs"], c["seq"]), device=device)
    return dict(input_ids=ids, labels=ids.clone())


def llama(c, layers=16, hidden=2048, heads=32, kv_heads=8, ffn=8192, vocab=128256, dtype=None, shards=False, compiled=False, tied=True):
    model = language("Llama", "ForCausalLM", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                     intermediate_size=ffn, vocab_size=vocab, max_position_embeddings=c["seq"], tie_word_embeddings=tied and not shards,
                     use_cache=False)
    if dtype:
        model.to(dtype)
    if shards:
        shard(model, compiled)
    return model, tokens(c, vocab)


def mixtral(c):
    model = language("Mixtral", "ForCausalLM", hidden_size=1024, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8,
                     intermediate_size=3584, vocab_size=32000, max_position_embeddings=c["seq"], num_local_experts=8, num_experts_per_tok=2,
                     use_cache=False)
    return model, tokens(c, 32000)


def gpt2(c, layers=24, hidden=1024, heads=16):
    model = language("GPT2", "LMHeadModel", n_layer=layers, n_embd=hidden, n_head=heads, n_positions=c["seq"], use_cache=False)
    return model, tokens(c, 50257)


def bert(c, layers=24, hidden=1024, heads=16):
    model = language("Bert", "ForMaskedLM", num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                     intermediate_size=4 * hidden)
    return model, tokens(c, 30522)


def t5(c, hidden=768, ffn=3072, layers=12, heads=12):
    model = language("T5", "ForConditionalGeneration", d_model=hidden, d_ff=ffn, num_layers=layers, num_heads=heads, d_kv=64,
                     use_cache=False, decoder_start_token_id=0)
    return model, tokens(c, 32128)


def images(c, name, last=False, side=224):
    import timm, torchvision
    with torch.device(device):
        model = timm.create_model(name) if name.startswith("vit") else getattr(torchvision.models, name)()
    layout = torch.channels_last if last else torch.contiguous_format
    x = torch.randn(c["mbs"], 3, side, side, device=device).to(memory_format=layout)
    return model.to(memory_format=layout).train(), (x, torch.randint(0, 1000, (c["mbs"],), device=device))


def peft_llama(c, targets, rank=16, dropout=0.0, checkpoint=False, **shape):
    import peft
    torch.set_default_dtype(bf16)
    try:
        model, data = llama(c, dtype=bf16, **shape)
    finally:
        torch.set_default_dtype(torch.float32)
    config = peft.LoraConfig(r=rank, lora_alpha=32, lora_dropout=dropout, target_modules=targets, task_type="CAUSAL_LM")
    if checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model = peft.get_peft_model(model, config)
    return model.train(), data


class Volume(torch.nn.Module):
    def __init__(self, channels=1, classes=3, widths=(32, 64, 128, 256, 320, 320), act=torch.nn.ReLU):
        super().__init__()
        def two(i, o, stride):
            return torch.nn.Sequential(torch.nn.Conv3d(i, o, 3, stride, 1, bias=False), torch.nn.InstanceNorm3d(o, affine=True), act(inplace=True),
                                 torch.nn.Conv3d(o, o, 3, 1, 1, bias=False), torch.nn.InstanceNorm3d(o, affine=True), act(inplace=True))
        self.down = torch.nn.ModuleList(two(i, o, 1 if k == 0 else 2) for k, (i, o) in enumerate(zip((channels,) + widths, widths)))
        self.up = torch.nn.ModuleList(torch.nn.ConvTranspose3d(i, o, 2, 2) for i, o in zip(widths[:0:-1], widths[-2::-1]))
        self.join = torch.nn.ModuleList(two(2 * o, o, 1) for o in widths[-2::-1])
        self.classes = torch.nn.Conv3d(widths[0], classes, 1)
    def forward(self, x):
        kept = []
        for d in self.down:
            x = d(x)
            kept.append(x)
        for up, join, k in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat((k, up(x)), 1))
        return self.classes(x)


class Loss(torch.nn.Module):
    """A model whose result has a loss, as those of transformers."""
    def __init__(self, model, make):
        super().__init__()
        self.model, self.make = model, make
    def forward(self, **data):
        return types.SimpleNamespace(loss=self.make(self.model, data))


def squares(model, data):
    target = data.pop("target")
    out = model(**data, return_dict=False)[0]
    return F.mse_loss(out.float(), target.float())


def volume(c, last=True):
    side = 64 if tiny else 128
    layout = torch.channels_last_3d if last else torch.contiguous_format
    model = Volume().to(device).to(memory_format=layout)
    x = torch.randn(c["mbs"], 1, side, side, side, device=device).to(memory_format=layout)
    y = torch.randint(0, 3, (c["mbs"], side, side, side), device=device)
    return Loss(model, lambda m, d: F.cross_entropy(m(d["x"]).float(), d["y"])).train(), dict(x=x, y=y)


def sd2(c, last=False):
    from diffusers import UNet2DConditionModel
    with torch.device(device):
        m = UNet2DConditionModel(sample_size=64, in_channels=4, out_channels=4, cross_attention_dim=1024, attention_head_dim=[5, 10, 20, 20],
                                 use_linear_projection=True)
    if last:
        m.to(memory_format=torch.channels_last)
    b, side = c["mbs"], 16 if tiny else 64
    data = dict(sample=torch.randn(b, 4, side, side, device=device), timestep=torch.randint(0, 1000, (b,), device=device),
                encoder_hidden_states=torch.randn(b, 77, 1024, device=device), target=torch.randn(b, 4, side, side, device=device))
    return Loss(m, squares).train(), data


def flux(c, layers=3, singles=6, image=64, text=512):
    from diffusers import FluxTransformer2DModel
    with torch.device(device):
        m = FluxTransformer2DModel(num_layers=layers, num_single_layers=singles, guidance_embeds=True)
    b, n = c["mbs"], 16 if tiny else image * image
    ids = torch.zeros(n, 3, device=device)
    data = dict(hidden_states=torch.randn(b, n, 64, device=device), encoder_hidden_states=torch.randn(b, text, 4096, device=device),
                pooled_projections=torch.randn(b, 768, device=device), timestep=torch.rand(b, device=device), guidance=torch.ones(b, device=device),
                img_ids=ids, txt_ids=torch.zeros(text, 3, device=device), target=torch.randn(b, n, 64, device=device))
    return Loss(m, squares).train(), data


def dit(c):
    from diffusers import DiTTransformer2DModel
    with torch.device(device):
        m = DiTTransformer2DModel(num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=2 if tiny else 28, sample_size=32)
    b = c["mbs"]
    data = dict(hidden_states=torch.randn(b, 4, 32, 32, device=device), timestep=torch.randint(0, 1000, (b,), device=device),
                class_labels=torch.randint(0, 1000, (b,), device=device), target=torch.randn(b, 8, 32, 32, device=device))
    return Loss(m, squares).train(), data


def retina(c, last=True):
    import torchvision
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7
    from torchvision.ops import misc
    side = 128 if tiny else 800
    back = torchvision.models.resnext50_32x4d(norm_layer=misc.FrozenBatchNorm2d)
    back = _resnet_fpn_extractor(back, 3, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256))
    m = torchvision.models.detection.RetinaNet(back, num_classes=264, min_size=side, max_size=side).to(device)
    if last:
        m.to(memory_format=torch.channels_last)
    b = c["mbs"]
    xs = [torch.rand(3, side, side, device=device) for _ in range(b)]
    ys = [dict(boxes=torch.tensor([[10., 10., 100., 100.], [50., 60., 120., 128.]], device=device), labels=torch.tensor([1, 2], device=device)) for _ in range(b)]
    return Loss(m, lambda m, d: sum(m(d["xs"], d["ys"]).values())).train(), dict(xs=xs, ys=ys)


def loss_of(model, data):
    if isinstance(data, dict):
        return model(**data).loss
    out = model(data[0])
    if isinstance(out, torch.Tensor):
        return F.cross_entropy(out, data[1])
    return F.cross_entropy(out.logits, data[1]) + .4 * F.cross_entropy(out.aux_logits, data[1])  # Inception


PHASES = ("forward", "backward", "update")
CLASSES = (("memset", r"memset"), ("attention", r"sdpa|flash|fmha|attention"), ("layout", r"ToNhwc|ToNchw"), ("conv", r"conv|wgrad|dgrad|fprop"),
           ("norm", r"norm|bn_"), ("softmax", r"softmax|nll|cross_entropy"), ("gemm", r"gemm|nvjet|cutlass|splitK"), ("compiled", r"^triton"),
           ("optimizer", r"multi_tensor|fused_adam"), ("reduce", r"reduce_kernel"), ("copy", r"copy|memcpy|cat|fill"), ("elementwise", r""))


def class_of(kernel):
    return next(name for name, words in CLASSES if re.search(words, kernel, re.I))


def calls_of(c, model, data, optimizer):
    """The phases of a step, in order."""
    sharded = c["zero"] == "FSDP"
    cast = c["precision"] == "bf16" and next(model.parameters()).dtype == torch.float32 and not sharded
    losses = []

    def forward():
        with torch.autocast(device, bf16, enabled=cast):
            losses.append(loss_of(run_by.get("compiled", model), data))

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    run_by = {"compiled": torch.compile(model)} if c["compiled"] else {}
    return forward, lambda: losses.pop().backward(), update


def rest():
    if device == "cuda":
        torch.cuda.synchronize()


def steps(calls, n):
    rest()
    begin = time.time()
    for _ in range(n):
        for call in calls:
            call()
    rest()
    return (time.time() - begin) / n


def hosts(calls):
    """Microseconds until each call has been sent."""
    least = [float("inf")] * len(calls)
    for _ in range(8):
        for i, call in enumerate(calls):
            rest()
            begin = time.time()
            call()
            least[i] = min(least[i], (time.time() - begin) * 1e6)
    return least


def kernels(calls):
    """(name, microseconds of each) of the kernels of each call."""
    found = []
    for call in calls:
        rest()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA if device == "cuda" else torch.profiler.ProfilerActivity.CPU]) as profile:
            call()
            rest()
        by = {}
        for e in profile.events():
            if e.device_type == torch.autograd.DeviceType.CUDA:
                by.setdefault(e.name, []).append(e.time_range.elapsed_us())
        found.append(sorted(by.items(), key=lambda k: -sum(k[1])))
    return found


def made(c, make):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = c["precision"] != "fp32"
    model, data = make(c)
    way = {"fused": True} if c["fused"] else {"foreach": True}
    if c["software"] == "torchvision":
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=.9, weight_decay=1e-4, **way)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **way)
    calls = calls_of(c, model, data, optimizer)
    steps(calls, 3)
    return calls


def timed(c, make):
    calls = made(c, make)
    c["step_time_s"] = round(min(steps(calls, 4) for _ in range(3)), 6)
    if device == "cuda":
        c["max_mem_gb"] = round(torch.cuda.max_memory_reserved() / 1e9, 2)
        c["notes"] = "allocated_GB=%.2f" % (torch.cuda.max_memory_allocated() / 1e9)
    of_hosts.writerow([c["row_id"], "%.2f" % sum_us()] + ["%.0f" % us for us in hosts(calls)])
    out.writerow(dict(dict(status="ok"), **c, gpu=gpu, gpus=1, tp=1, pp=1, dp=1, memory_basis="reserved", platform=f"gpu={gpu} nodes=1 gpus=1"))


def profiled(c, make):
    longest[c["row_id"]] = {}
    for phase, by in zip(PHASES, kernels(made(c, make))):
        busy, sets = dict.fromkeys((name for name, _ in CLASSES), 0), sum(len(t) for name, t in by if class_of(name) == "memset")
        for name, times in by:
            busy[class_of(name)] += sum(times)
        of_kernels.writerow([c["row_id"], phase, sum(len(t) for _, t in by) - sets, sets] + ["%.0f" % us for us in [sum(busy.values()), *busy.values()]])
        longest[c["row_id"]][phase] = [(name[:160], len(t), round(sum(t), 1)) for name, t in by[:40]]
    json.dump(longest, open(os.path.join(DIR, "kernels.json"), "w"), indent=1)


def run(name, model, make, mbs, seq="", precision="bf16", software="transformers", options="", zero="", compiled=False, fused=False, **shape):
    return dict(row_id=name, model=model, mbs=mbs, gbs=mbs, seq=seq, precision=precision, software=software, software_options=options,
                zero=zero, compiled=compiled, fused=fused, **shape), make


ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
of_8b = dict(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, tied=False)
of_1b = dict(layers=16, hidden=2048, ffn=8192, heads=32, kv_heads=8)
TE = "attention=te"  # cuDNN's, which scaled_dot_product_attention takes on Hopper by now
GPT2 = TE + ",separate_projections=0,unfused_gelu=1"
LAST = "channels_first=none"
VIT = TE + ",separate_projections=0,transpose_copies=packed"  # timm: gradients of queries, keys and values are stacked, then copied
FUSED = ",update_B=0,optimizer_kernels=.8"
GPT2C = TE + ",separate_projections=0"
MIXTRAL = "moe:layers=8,hidden=1024,ffn=3584,heads=16,kv_heads=8,experts=8,top_k=2,vocab=32000,gated=true,rms=true,rope=true"
RUNS = [
    run("llama-fp32-params", "Llama 3.2 1B", llama, 2, 2048, options=TE),
    run("llama-bf16-params", "Llama 3.2 1B", lambda c: llama(c, dtype=bf16), 4, 2048, software="transformers-bf16", options=TE),
    run("qwen", "Qwen2.5 0.5B", lambda c: llama(c, 24, 896, 14, 2, 4864, 151936), 4, 1024, options=TE),
    run("gpt2-medium", "GPT-2 medium", gpt2, 8, 1024, options=GPT2),
    run("bert-large-512", "bert:size=large,seq=512,predictions=512", bert, 16, 512, options=TE),
    run("bert-large-128", "bert:size=large,seq=128,predictions=128", bert, 64, 128, options=TE),
    run("bert-base-fp32", "bert:size=base,seq=128,predictions=128", lambda c: bert(c, 12, 768, 12), 32, 128, "fp32", options="tf32=0,attention=flash2"),
    run("bert-base-tf32", "bert:size=base,seq=128,predictions=128", lambda c: bert(c, 12, 768, 12), 32, 128, "tf32", options="attention=flash2"),
    run("t5-base", "T5 base", t5, 16, 512, options="attention=eager"),
    run("mixtral", MIXTRAL, mixtral, 4, 1024, options=TE),
    run("vit-l", "ViT-L", lambda c: images(c, "vit_large_patch16_224"), 64, options=VIT),
    run("resnet50-first", "ResNet-50", lambda c: images(c, "resnet50"), 128, software="torchvision"),
    run("resnet50-last", "ResNet-50", lambda c: images(c, "resnet50", True), 128, software="torchvision", options=LAST),
    run("resnet50-tf32", "ResNet-50", lambda c: images(c, "resnet50"), 128, precision="tf32", software="torchvision"),
    run("resnet50-fp32", "ResNet-50", lambda c: images(c, "resnet50"), 64, precision="fp32", software="torchvision", options="tf32=0"),
    run("resnet152-last", "ResNet-152", lambda c: images(c, "resnet152", True), 64, software="torchvision", options=LAST),
    run("vgg16-first", "VGG16", lambda c: images(c, "vgg16"), 64, software="torchvision"),
    run("vgg16-tf32", "VGG16", lambda c: images(c, "vgg16"), 64, precision="tf32", software="torchvision"),
    run("efficientnet-last", "EfficientNet B0", lambda c: images(c, "efficientnet_b0", True), 128, software="torchvision", options=LAST),
    run("llama-fsdp-1", "Llama", lambda c: llama(c, vocab=32000, shards=True), 1, 2048, software="fsdp", options=TE, zero="FSDP", vocab=32000, **of_1b),
    run("llama-fsdp-4", "Llama", lambda c: llama(c, vocab=32000, shards=True), 4, 2048, software="fsdp", options=TE, zero="FSDP", vocab=32000, **of_1b),
    run("llama-fsdp-1c", "Llama", lambda c: llama(c, vocab=32000, shards=True, compiled=True), 1, 2048, software="fsdp-compiled", options=TE,
        zero="FSDP", vocab=32000, **of_1b),
    # the second batch, predicted before it was run
    run("new-tinyllama", "TinyLlama 1.1B", lambda c: llama(c, 22, 2048, 32, 4, 5632, 32000, tied=False), 4, 2048, options=TE),
    run("new-llama-3b", "Llama 3.2 3B", lambda c: llama(c, 28, 3072, 24, 8, 8192, dtype=bf16), 2, 2048, software="transformers-bf16", options=TE),
    run("new-qwen-1.5b", "Qwen2.5 1.5B", lambda c: llama(c, 28, 1536, 12, 2, 8960, 151936, dtype=bf16), 4, 1024, software="transformers-bf16", options=TE),
    run("new-gpt2-small", "GPT-2 small", lambda c: gpt2(c, 12, 768, 12), 16, 1024, options=GPT2),
    run("new-gpt2-large", "GPT-2 large", lambda c: gpt2(c, 36, 1280, 20), 4, 1024, options=GPT2),
    run("new-bert-base", "bert:size=base,seq=512,predictions=512", lambda c: bert(c, 12, 768, 12), 32, 512, options=TE),
    run("new-t5-small", "T5 small", lambda c: t5(c, 512, 2048, 6, 8), 32, 512, options="attention=eager"),
    run("new-vit-b", "ViT-B", lambda c: images(c, "vit_base_patch16_224"), 128, options=VIT),
    run("new-vit-b-tf32", "ViT-B", lambda c: images(c, "vit_base_patch16_224"), 64, precision="tf32", options="attention=flash2,separate_projections=0"),
    run("new-resnet101-first", "ResNet-101", lambda c: images(c, "resnet101"), 128, software="torchvision"),
    run("new-resnet101-last", "ResNet-101", lambda c: images(c, "resnet101", True), 128, software="torchvision", options=LAST),
    run("new-resnext50", "resnext50", lambda c: images(c, "resnext50_32x4d", True), 128, software="torchvision", options=LAST),
    run("new-vgg19-last", "VGG19", lambda c: images(c, "vgg19", True), 64, software="torchvision", options=LAST),
    run("new-inception", "Inception v3", lambda c: images(c, "inception_v3", side=299), 128, software="torchvision"),
    run("new-alexnet", "AlexNet", lambda c: images(c, "alexnet"), 256, software="torchvision"),
    run("new-efficientnet-b4", "EfficientNet B4", lambda c: images(c, "efficientnet_b4", True, 380), 32, software="torchvision", options=LAST),
    # the third: from steps that the host binds to those that the GPU does, optimizers and torch.compile
    run("host-gpt2-small-1", "GPT-2 small", lambda c: gpt2(c, 12, 768, 12), 1, 1024, options=GPT2),
    run("host-gpt2-small-1-fused", "GPT-2 small", lambda c: gpt2(c, 12, 768, 12), 1, 1024, options=GPT2 + FUSED, fused=True),
    run("host-gpt2-small-1-tf32", "GPT-2 small", lambda c: gpt2(c, 12, 768, 12), 1, 1024, "tf32", options="attention=flash2" + GPT2[len(TE):]),
    run("host-gpt2-medium-1", "GPT-2 medium", gpt2, 1, 1024, options=GPT2),
    run("host-bert-base-1", "bert:size=base,seq=128,predictions=128", lambda c: bert(c, 12, 768, 12), 1, 128, options=TE),
    run("host-bert-base-8", "bert:size=base,seq=128,predictions=128", lambda c: bert(c, 12, 768, 12), 8, 128, options=TE),
    run("host-qwen-1", "Qwen2.5 0.5B", lambda c: llama(c, 24, 896, 14, 2, 4864, 151936), 1, 512, options=TE),
    run("host-llama-bf16-1", "Llama 3.2 1B", lambda c: llama(c, dtype=bf16), 1, 512, software="transformers-bf16", options=TE),
    run("host-llama-bf16-1-fused", "Llama 3.2 1B", lambda c: llama(c, dtype=bf16), 1, 512, software="transformers-bf16", options=TE + FUSED, fused=True),
    run("host-mixtral-1", MIXTRAL, mixtral, 1, 512, options=TE),
    run("host-resnet50-8", "ResNet-50", lambda c: images(c, "resnet50", True), 8, software="torchvision", options=LAST),
    run("host-vit-b-8", "ViT-B", lambda c: images(c, "vit_base_patch16_224"), 8, options=VIT),
    run("fused-llama-fp32-params", "Llama 3.2 1B", llama, 2, 2048, options=TE + FUSED, fused=True),
    run("compiled-gpt2-small-16", "GPT-2 small", lambda c: gpt2(c, 12, 768, 12), 16, 1024, software="transformers-compiled", options=GPT2C, compiled=True),
    run("compiled-bert-base-32", "bert:size=base,seq=512,predictions=512", lambda c: bert(c, 12, 768, 12), 32, 512, software="transformers-compiled", options=TE, compiled=True),
    run("compiled-llama-2", "Llama 3.2 1B", llama, 2, 2048, software="transformers-compiled", options=TE, compiled=True),
    run("compiled-bert-base-1", "bert:size=base,seq=128,predictions=128", lambda c: bert(c, 12, 768, 12), 1, 128, software="transformers-compiled", options=TE, compiled=True),
    # the fourth: fine-tuning, diffusion, volumes and detection
    run("lora-1b-qv", "Llama 3.2 1B", lambda c: peft_llama(c, ["q_proj", "v_proj"]), 4, 2048, options=TE, train="lora:rank=16,alpha=32,targets=q_proj+v_proj,base=bf16"),
    run("lora-1b-all", "Llama 3.2 1B", lambda c: peft_llama(c, ALL, dropout=.1), 4, 2048, options=TE, train="lora:rank=16,alpha=32,targets=all,dropout=0.1,base=bf16"),
    run("lora-8b-qv", "Llama 3.1 8B", lambda c: peft_llama(c, ["q_proj", "v_proj"], **of_8b), 1, 2048, options=TE, train="lora:rank=16,alpha=32,targets=q_proj+v_proj,base=bf16"),
    run("lora-8b-all", "Llama 3.1 8B", lambda c: peft_llama(c, ALL, dropout=.1, **of_8b), 1, 2048, options=TE, train="lora:rank=16,alpha=32,targets=all,dropout=0.1,base=bf16"),
    run("lora-8b-all-recompute", "Llama 3.1 8B", lambda c: peft_llama(c, ALL, dropout=.1, checkpoint=True, **of_8b), 4, 2048, options=TE, train="lora:rank=16,alpha=32,targets=all,dropout=0.1,base=bf16", recompute="full"),
    run("volume-last", "unet3d:channels=1,classes=3", volume, 7, options="channels_first=none", software="torchvision"),
    run("volume-first", "unet3d:channels=1,classes=3", lambda c: volume(c, False), 2, software="torchvision"),
    run("volume-tf32", "unet3d:channels=1,classes=3", lambda c: volume(c, False), 2, precision="tf32", software="torchvision"),
    run("sd2-unet", "stable_diffusion_v2", sd2, 16, options=TE),
    run("sd2-unet-last", "stable_diffusion_v2", lambda c: sd2(c, True), 32, options=TE + ",channels_first=none"),
    run("flux-3-6", "flux:layers=3,singles=6,image=128,text=512", flux, 2, options=TE),
    run("dit-xl", "dit:size=xl", dit, 64, options=TE),
    run("retinanet", "retinanet", retina, 16, options="channels_first=none", software="torchvision"),
]

def sum_us(n=2000):
    x = torch.ones(64, 64, device=device)
    least = float("inf")
    for _ in range(10):
        rest()
        begin = time.time()
        for _ in range(n):
            x + x
        least = min(least, (time.time() - begin) / n * 1e6)
    return least


def table(name):
    return open(os.path.join(DIR, name), "w", buffering=1)


if __name__ == "__main__":
    began, (gpu, DIR) = time.time(), sys.argv[1:3]
    last, names = float(sys.argv[3]) if len(sys.argv) > 3 else 600, tuple(sys.argv[4:]) or ("",)
    os.makedirs(DIR, exist_ok=True)
    out = csv.DictWriter(table("runs.csv"), (
        "row_id,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,train,gpu,gpus,precision,tp,pp,dp,zero,mbs,gbs,recompute,step_time_s,"
        "max_mem_gb,memory_basis,status,software,software_options,platform,notes").split(","), extrasaction="ignore")
    out.writeheader()
    of_hosts, of_kernels, longest = csv.writer(table("hosts.csv")), csv.writer(table("kernels.csv")), {}
    of_hosts.writerow(["row_id", "sum_us"] + [phase + "_us" for phase in PHASES])
    of_kernels.writerow(["row_id", "phase", "kernels", "memsets", "busy_us"] + [name + "_us" for name, _ in CLASSES])
    for does in (timed, profiled):
        for c, make in RUNS:
            if not c["row_id"].startswith(names) or time.time() - began > last:
                continue
            if tiny:
                c.update(mbs=1, seq=min(c["seq"] or 32, 32))
            try:
                does(c, make)
            except Exception as error:  # out of memory: the others are timed
                print(c["row_id"], repr(error)[:400], file=sys.stderr)
            print("%s %s at %.0f s" % (c["row_id"], does.__name__, time.time() - began), file=sys.stderr, flush=True)
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                torch._dynamo.reset()
