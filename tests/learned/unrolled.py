#!/usr/bin/env python3
"""unrolled.py rnnlm|nmt LAYERS HIDDEN VOCAB STEPS BATCH > MODEL.jsonl: recurrent networks as TensorFlow 1 saw them, an op
per layer and time step, so that layers on different devices work on different steps at once (in -m rnnlm and gnmt a layer
is one op). Weights are an op of each layer, whose output, the whole of them, goes to every device with a step of it:
amounts are of one sample, so the file holds for BATCH samples. nmt: encoder and decoder of LAYERS each, attention once a
step over the encoder's last layer, after the decoder's first layer. Amounts of an op are those of rnnlm.jsonl and
gnmt.jsonl for one token."""
import json
import sys

kind, layers, hidden, vocab, steps, batch = [sys.argv[1], *map(int, sys.argv[2:7])]


def op(name, what, inputs=(), **fields):
    print(json.dumps({"name": name, "kind": what, "inputs": list(inputs), **fields}, separators=(",", ":")))


def weights(name, param):
    op(name, "reshape", param=param, output=param / batch)


def lstm(name, weight, below, before, k):
    n = 4 * hidden
    inputs = [weight, *below] + ([{"from": before, "elems": 2 * hidden}] if before else [])
    op(name, "recurrent", inputs, m=1, n=n, k=k, count=1, flop=2 * n * k + 8 * hidden, flop_bwd=4 * n * k + 16 * hidden,
       read=k - hidden, write=hidden, moved_bwd=10 * hidden + 2 * (k - hidden), output=hidden, saved=6 * hidden + k - hidden,
       kernels=1)


def stack(name, t, below, extra=None):
    for layer in range(layers):
        wide = extra is not None and layer > 0
        lstm(f"{name}{layer}.{t}", f"{name}{layer}.weights", [below] + ([extra] if wide else []),
             t and f"{name}{layer}.{t - 1}", (3 if wide else 2) * hidden)
        below = f"{name}{layer}.{t}"
        if name == "decoder" and layer == 0:
            extra = f"attention.{t}"
            op(extra, "elementwise", ["encoder.memory", below, "attention.weights"], flop=2 * hidden * (hidden + 3 * steps),
               flop_bwd=4 * hidden * (hidden + 3 * steps), read=hidden * (steps + 3), write=hidden + steps,
               moved_bwd=hidden * (2 * steps + 6), output=hidden, saved=2 * hidden + steps, kernels=5)
    return below


def head(t, below):
    op(f"logits.{t}", "gemm", [below, "logits.weights"], m=1, n=vocab, k=hidden, count=1, flop=(2 * hidden + 1) * vocab,
       flop_bwd=(4 * hidden + 2) * vocab, read=hidden, write=vocab, moved_bwd=2 * (hidden + vocab), output=vocab, kernels=1)
    op(f"loss.{t}", "loss", [f"logits.{t}"], flop=5 * vocab, flop_bwd=5 * vocab, read=vocab, write=2 * vocab,
       moved_bwd=3 * vocab, output=1, saved=2 * vocab, kernels=3)


def embed(name):
    op(f"{name}.tokens", "input", output=steps)
    op(f"{name}.embedding", "embedding", [{"from": f"{name}.tokens", "no_grad": True}], read=steps * hidden,
       write=steps * hidden, moved_bwd=2 * steps * hidden, param=vocab * hidden, output=steps * hidden, kernels=1)


print(json.dumps({"format": "maquette-graph", "unit": "sequence", "layers": 1, "hidden": hidden, "vocab": vocab,
                  "summary": f"{kind} of {layers} layers unrolled over {steps} steps, batch {batch}"}, separators=(",", ":")))
sides = ["encoder", "decoder"] if kind == "nmt" else ["layer"]
for side in sides:
    embed(side)
    for layer in range(layers):
        wide = side == "decoder" and layer > 0
        weights(f"{side}{layer}.weights", 4 * hidden * ((3 if wide else 2) * hidden + 2))
if kind == "nmt":
    weights("attention.weights", 2 * hidden * hidden)
weights("logits.weights", vocab * (hidden + 1))
for side in sides:
    for t in range(steps):
        top = stack(side, t, {"from": f"{side}.embedding", "elems": hidden})
        if side != "encoder":
            head(t, top)
    if side == "encoder":
        op("encoder.memory", "reshape", [f"encoder{layers - 1}.{t}" for t in range(steps)], read=steps * hidden,
           write=steps * hidden, moved_bwd=2 * steps * hidden, output=steps * hidden, kernels=1)
