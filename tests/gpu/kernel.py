r"""What attention.py and grouped.py share: a kernel of the cuda executor, run by kernel.c on tensors of PyTorch.

    gcc -std=gnu11 -Isim/include -Ivalidator -Isim -Ibuild/gen tests/gpu/kernel.c build/obj/validator/cuda/*.o \
        build/obj/validator/replay/{capacity,wire,wire_coll}.c.o build/obj/sim/{base,model,schedule}/*.o -l:libjansson.a -lm -ldl -lpthread -o kernel
"""
import json, os, subprocess, tempfile
import torch

LINE = 256


def written(tensors, path):
    with open(path, "wb") as f:
        for t in tensors:
            data = t.contiguous().view(torch.uint8).cpu().numpy().tobytes()
            f.write(data + bytes(-len(data) % LINE))


def outputs(path, shapes):
    data, at, out = open(path, "rb").read(), 0, []
    for shape, dtype in shapes:
        n = torch.Size(shape).numel() * dtype.itemsize
        out.append(torch.frombuffer(bytearray(data[at:at + n]), dtype=dtype).view(shape).cuda())
        at += n + -n % LINE
    return out


def run(program, kernel, tensors, shapes):
    """The kernel (fields of a schedule's file) on tensors in the order in which it reads them; what it writes."""
    head = {"maquette_schedule": 1, "model": "kernel", "plan_hash": "1", "model_hash": "0", "comms": [], "ops": [], "tasks": 1,
            "devices": [{"rank": 0, "name": "gpu0", "type": "D"}],
            "works": [{"flop": kernel["flop"], "bytes": kernel["bytes"], "model_flop": 0, "kernels": [{"launches": 1, **kernel}]}]}
    task = {"id": 0, "device": 0, "stream": "compute", "kind": "compute", "dtype": "bf16", "bytes": 0, "stage": 0,
            "phase": kernel["phase"], "work": 0, "flop": kernel["flop"]}
    with tempfile.TemporaryDirectory() as folder:
        schedule, a, b = (os.path.join(folder, name) for name in ("schedule.jsonl", "in", "out"))
        with open(schedule, "w") as f:
            f.write(json.dumps(head) + "\n" + json.dumps(task) + "\n")
        written(tensors, a)
        subprocess.run([program, schedule, a, b], check=True)
        return outputs(b, shapes)


def error(got, want):
    return ((got.float() - want.float()).norm() / want.float().norm()).item()
