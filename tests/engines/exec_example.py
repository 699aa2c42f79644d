#!/usr/bin/env python3
"""A whole engine: walks over data x tensor parallel shapes, then doubles the micro-batches of the best one."""
import json
import sys

shapes, best, best_time, last = [], None, float("inf"), None
for line in sys.stdin:
    ask = json.loads(line)
    if ask["type"] == "start":
        n, batch, heads = len(ask["devices"]), int(ask["train"]["batch"]), ask["model"]["heads"]
        shapes = [{"dp": n // tp, "tp": tp, "micro_batches": 1} for tp in (1, 2, 4, 8)
                  if n % tp == 0 and batch % (n // tp) == 0 and heads and heads % tp == 0]
        answer = {"ready": True} if shapes else {"error": "no shape divides the batch over the devices"}
    elif ask["type"] == "propose":
        if not shapes and best and batch % (best["dp"] * best["micro_batches"] * 2) == 0:
            shapes, best = [dict(best, micro_batches=best["micro_batches"] * 2)], None
        last = shapes.pop(0) if shapes else None
        answer = {"shape": last} if last else {"done": True}
    elif ask["type"] == "observe":
        if ask["verdict"] == "ok" and ask["step_time_s"] < best_time:
            best, best_time = last, ask["step_time_s"]
        continue
    else:
        break
    print(json.dumps(answer), flush=True)
