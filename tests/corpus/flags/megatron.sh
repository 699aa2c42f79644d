#!/bin/sh
torchrun --nnodes 2 --nproc-per-node 8 pretrain.py \
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 1 \
  --num-layers 8 --micro-batch-size 1 --global-batch-size 64 --sequence-parallel --use-distributed-optimizer \
  --recompute-granularity selective --overlap-grad-reduce --ddp-bucket-size 4000000 --bf16
