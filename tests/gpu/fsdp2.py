"""FSDP2 over a mesh of one GPU, for the scripts of steps_h100 and steps_h200."""
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def shard(model, compiled):
    """A unit for each layer of transformers' Llama, compiled first if so, and one for the rest; 16 bits, reduced in fp32."""
    if not dist.is_initialized():
        for name, value in dict(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1").items():
            os.environ.setdefault(name, value)
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        if compiled:
            layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
