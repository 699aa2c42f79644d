#!/usr/bin/env python3
"""by_layer.py, for `-e exec:`: the human expert's placement of a recurrent network of unrolled.py: a device for so many
layers of the encoder and of the decoder, embeddings with the first, attention with the first of the decoder, logits with
the last."""
import json
import re
import sys

for line in sys.stdin:
    said = json.loads(line)
    if said["type"] == "start":
        names, n = [op["name"] for op in said["model"]["ops"]], len(said["devices"])
        layer = [int(m[1]) if (m := re.match(r"[a-z]+(\d+)\.", name)) else None for name in names]
        layers = 1 + max(k for k in layer if k is not None)
        last = re.compile(r"logits|loss|encoder\.memory")
        device = [n - 1 if last.match(name) else (k or 0) * n // layers for name, k in zip(names, layer)]
        answer = {"ready": True}
    elif said["type"] == "propose":
        answer = {"device_of": device}
    elif said["type"] == "stop":
        break
    else:
        continue
    print(json.dumps(answer), flush=True)
