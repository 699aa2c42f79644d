# The launch line of a run: Llama 8B on 16 H100 with tensor parallelism 8. results/guides/slow.md asks why it is slow.
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
  --ffn-hidden-size 14336 --swiglu --normalization RMSNorm --position-embedding-type rope \
  --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 128256 \
  --seq-length 4096 --max-position-embeddings 4096 --bf16 \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 1 --sequence-parallel \
  --micro-batch-size 1 --global-batch-size 128 --use-distributed-optimizer
