/* software_fields.h - the fields of training software, one row each: struct mq_software, its defaults, the reader of
 * files, options, the documentation and tables of runs use them. A field bears the name of the framework's own knob
 * where there is one; its help text is its description. A WORD is a value of the enumeration whose order its words have
 * (software.h, plan.h, types.h).
 *
 * NUM, INT(GROUP, FIELD, UNIT, DEFAULT, LEAST, MOST, HELP), YES, TEXT(GROUP, FIELD, DEFAULT, HELP), WORD(GROUP, FIELD,
 * DEFAULT, WORDS, HELP) SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SOFTWARE_FIELDS_H
#define MAQUETTE_SOFTWARE_FIELDS_H

#define MQ_WORDS_FUSION "fused|eager|apart|xla|tensorflow"

/* launches_per_collective: in a published trace of eager PyTorch (facebookresearch/HolisticTraceAnalysis, ResNet under
 * DDP on two A100) the thread of the backward pass takes 278 us in the median for an all-reduce, and 141 us in the mean
 * from one kernel's launch to the next. zero_quantized_weights_B, _gradients_B: ZeRO++ has 1 and .5. */
#define MQ_SOFTWARE_FIELDS(NUM, INT, YES, WORD, TEXT)                                                                  \
	WORD(KERNELS, attention, MQ_ATTENTION_FLASH2,                                                                  \
	     "stored|eager|masked-softmax|xla|tensorflow|fused-softmax|flash1|triton1|flash2|flash3|te",               \
	     "implementation of attention; the first six store scores")                                                \
	WORD(KERNELS, norm, MQ_FUSED, MQ_WORDS_FUSION,                                                                 \
	     "norms: one kernel; RMS op by op in fp32, others the framework's")                                        \
	WORD(KERNELS, rope, MQ_FUSED, "fused|eager", "rotary positions: one kernel, or op by op")                      \
	WORD(KERNELS, yarn, MQ_FUSED, "fused|eager", "those that scale what they turn (YaRN), where others are fused") \
	WORD(KERNELS, activation, MQ_FUSED, MQ_WORDS_FUSION, "activations: one kernel, or the framework's")            \
	WORD(KERNELS, dropout, MQ_FUSED, MQ_WORDS_FUSION, "dropout and residual: one kernel, or the framework's")      \
	WORD(KERNELS, bias, MQ_FUSED, MQ_WORDS_FUSION,                                                                 \
	     "of GEMMs: with them, gradients a sum (eager), or added apart too")                                       \
	YES(KERNELS, autocast, 0,                                                                                      \
	    "16-bit training: parameters and residual stream are fp32, what GEMMs read is cast (torch.autocast)")      \
	YES(KERNELS, separate_projections, 0, "queries, keys, values, gate and up are GEMMs of their own")             \
	YES(KERNELS, unfused_gelu, 0, "tanh's approximation of GELU is written out, op by op")                         \
	YES(KERNELS, masked_fill, 0, "eager attention: masks of scores are filled in, not added")                      \
	WORD(KERNELS, transpose_copies, MQ_HEADS_NONE, "none|output|all|packed",                                       \
	     "copies around attention that bring heads together; packed: around fused attention")                      \
	NUM(KERNELS, attention_setup_kernels, "1", 0, 0, 100, "kernels before fused attention, in forward passes")     \
	YES(KERNELS, split_allgather_gemm, 0,                                                                          \
	    "sequence parallelism: GEMMs begin with the rank's own part of what is gathered, then those around it")    \
	NUM(KERNELS, traffic, "1", 1, .1, 20, "bytes of element-wise kernels / fused minimum")                         \
	NUM(KERNELS, score_traffic, "1", 1, .1, 20, "as traffic, of kernels over stored attention scores")             \
	WORD(KERNELS, elementwise_fusion, MQ_CHAINS_NONE, "none|norm-16|all|conv",                                     \
	     "image networks: element-wise ops inside the kernels before them: none, of 16-bit norms, all, of convs")  \
	YES(KERNELS, fused_grad_add, 0, "image networks: gradients that meet are added by the GEMMs that make them")   \
	YES(KERNELS, aten_image_kernels, 0,                                                                            \
	    "image networks: PyTorch's kernels of pools, biases of convolutions, and batch norms in bf16")             \
	WORD(KERNELS, channels_first, MQ_FIRST_NONE, "none|32|32-volumes|all",                                         \
	     "tensors of convolutions that lie channels first: none, of 32 bits, these and volumes, all")              \
	NUM(KERNELS, layout_passes, "1", 0, 0, 10, "over such tensors, to and from the layout tensor cores want")      \
	NUM(KERNELS, fp8_cast_B, "B", 4, 0, 100, "moved to make an element of an fp8 operand")                         \
	NUM(KERNELS, mxfp8_cast_B, "B", 4, 0, 100, "the same with a scale for each 32 elements (MXFP8)")               \
	NUM(KERNELS, fp4_cast_B, "B", 5.125, 0, 100, "the same of an fp4 operand")                                     \
	NUM(KERNELS, loss_moved_B, "B", 12, 0, 1000,                                                                   \
	    "moved per logit and both passes by the loss and metrics, in 16-bit training")                             \
	NUM(KERNELS, cast_B, "B", 0, 0, 100, "moved per parameter and micro-batch in 16-bit training")                 \
	NUM(KERNELS, accum_B, "B", 0, 0, 100, "the same where micro-batches are accumulated")                          \
	NUM(KERNELS, update_B, "B", 0, 0, 200, "moved per parameter and step beside the optimizer's least")            \
	NUM(KERNELS, reduce_B, "B", 0, 0, 200, "more of it where gradients are reduced")                               \
	NUM(KERNELS, grads_B, "B", 0, 0, 200,                                                                          \
	    "moved per gradient and step, of all that a rank has: divided, clipped, cleared")                          \
	NUM(KERNELS, optimizer_kernels, "1", 1, 0, 1000, "kernels that update one op's parameters")                    \
	NUM(KERNELS, reduce_kernels, "1", 0, 0, 1000, "more of them where its gradients are reduced")                  \
	YES(KERNELS, tf32, 0, "fp32 GEMMs use TF32 where the device has it")                                           \
	YES(KERNELS, fused_experts, 0, "experts are one fused kernel, tokens sorted on their way")                     \
	YES(KERNELS, fp8_attention, 0, "with fp8 GEMMs, those of fused attention too")                                 \
	NUM(HOST, host, "1", 1, 0, 1000, "host time per kernel / the machine's host_launch_s")                         \
	TEXT(HOST, cuda_graph_scope, "", "ops of a layer in CUDA graphs, '|' between: norm1|qkv*; * = whole steps")    \
	NUM(HOST, launches_per_collective, "1", 2, 0, 1000, "host time of a collective or message / that of a kernel") \
	YES(HOST, cuda_launch_blocking, 0, "the host waits for each kernel (CUDA_LAUNCH_BLOCKING)")                    \
	YES(HOST, blocking_wait, 0, "the host waits for each collective inside the layers")                            \
	NUM(HOST, torch_distributed_debug_us, "us", 0, 0, 1e6,                                                         \
	    "per rank of its group, before each collective, to agree on it")                                           \
	WORD(HOST, blocking_sends, MQ_SENDS_NONE, "none|plain|all",                                                    \
	     "a stage's next pass waits for what it sent: of one chunk to a device, of several too")                   \
	NUM(HOST, handshake_ms, "ms", 0, 0, 1e4,                                                                       \
	    "a stage's host and device wait before each tensor that is sent or received")                              \
	NUM(HOST, unflatten_us, "us", 0, 0, 1e6,                                                                       \
	    "per parameter tensor and rank, to take apart what ZeRO-1 and 2 gathered")                                 \
	NUM(HOST, step_ms, "ms", 0, 0, 1e4, "host time of a step that nothing hides")                                  \
	YES(COMMUNICATION, overlap_grads, 1, "gradients are reduced beside the backward pass")                         \
	YES(COMMUNICATION, overlap_param_gather, 0,                                                                    \
	    "ZeRO-1 and 2: new parameters are gathered beside the next step's first forward passes")                   \
	YES(COMMUNICATION, overlap_param_gather_with_optimizer_step, 0,                                                \
	    "and those of a device's first chunk of several beside the optimizer step of the others")                  \
	WORD(COMMUNICATION, nccl_proto, MQ_PROTO_AUTO, "auto|ll|ll128|simple",                                         \
	     "protocol of all collectives (NCCL_PROTO); auto = NCCL chooses")                                          \
	NUM(COMMUNICATION, bucket_MB, "MB", 0, 0, 1e6, "gradients reduced together; 0 = a stage's")                    \
	YES(COMMUNICATION, overlap_tp, 0, "GEMMs in parts beside tensor-parallel communication")                       \
	YES(COMMUNICATION, overlap_experts, 0, "forward and backward take turns while tokens travel")                  \
	YES(COMMUNICATION, scatter_gather, 1, "tensor ranks send a part each between stages")                          \
	YES(COMMUNICATION, broadcast_params, 0, "ZeRO-1 and 2: owners broadcast new parameters")                       \
	YES(COMMUNICATION, sequence_parallel, 1, "norms along the sequence under tensor parallelism")                  \
	YES(COMMUNICATION, vocab_parallel, 1, "embedding, head and loss split under tensor parallelism")               \
	YES(COMMUNICATION, zero1_allreduce, 0,                                                                         \
	    "ZeRO-1: all ranks get the whole sum of gradients, and keep their part")                                   \
	YES(COMMUNICATION, async_allreduce, 0,                                                                         \
	    "tensor parallelism: gradients of activations are all-reduced beside those of weights")                    \
	YES(COMMUNICATION, separate_input_grad_reduce, 0,                                                              \
	    "gate and up are two GEMMs, whose input's gradients are reduced apart")                                    \
	YES(COMMUNICATION, backward_prefetch, 0,                                                                       \
	    "ZeRO-3 gathers the next layer before it reduces this one's gradients")                                    \
	YES(COMMUNICATION, zero_once_per_step, 0, "ZeRO-2 and 3 under pipeline stages gather and reduce once a step")  \
	NUM(COMMUNICATION, vocab_multiple, "1", 0, 0, 1e6, "each share of the vocabulary padded to it; 0 = not")       \
	WORD(COMMUNICATION, grad_dtype, MQ_GRAD_FP32, "dtype|fp32|bf16|fp16",                                          \
	     "type of reduced gradients; dtype = as trained")                                                          \
	INT(COMMUNICATION, shard_group, "1", 0, 0, 1e6, "ranks over which ZeRO shards (HSDP); 0 = all")                \
	NUM(COMMUNICATION, zero_quantized_weights_B, "B", 0, 0, 8,                                                     \
	    "of a parameter that ZeRO-3 gathers; 0 = as trained")                                                      \
	NUM(COMMUNICATION, zero_quantized_gradients_B, "B", 0, 0, 8,                                                   \
	    "of a gradient that ZeRO-3 reduces; 0 = as grad_dtype")                                                    \
	INT(COMMUNICATION, zero_hpz_partition_size, "1", 0, 0, 1e6,                                                    \
	    "ZeRO-3: ranks with a copy that backward gathers from (hpZ)")                                              \
	YES(COMMUNICATION, deepep, 0, "a token goes once to a rank of several of its experts")                         \
	YES(COMMUNICATION, repeat_kv, 0, "keys and values copied per query head before a ring")                        \
	NUM(MEMORY, loss_B, "B", 12, 0, 100, "per logit, at the worst moment of the cross-entropy")                    \
	WORD(MEMORY, grads_twice, MQ_GRADS_ONCE, "no|step|yes",                                                        \
	     "gradients are held in 16 and in 32 bits: not, while the optimizer steps, always")                        \
	YES(MEMORY, save_quantized_operands, 0, "operands cast to fp8 or fp4 are kept so for backward")                \
	YES(MEMORY, quantize_weights_again, 0,                                                                         \
	    "weights are cast for each product: no fp8 or fp4 copy of them is kept")                                   \
	YES(MEMORY, deallocate_pipeline_outputs, 0, "outputs of pipeline stages are freed once sent")                  \
	YES(MEMORY, fp8_params, 0, "weights of GEMMs in fp8 are held in fp8 alone")                                    \
	YES(MEMORY, activation_func_fp8_input_store, 0, "what gated activations read is kept in fp8 for backward")     \
	YES(MEMORY, disable_parameter_transpose_cache, 0,                                                              \
	    "frozen fp8 weights are transposed again in each backward pass")                                           \
	YES(MEMORY, regather_in_backward, 1, "what is gathered along the sequence is gathered again in backward")      \
	YES(MEMORY, gather_logits, 0, "the loss sees whole logits on each tensor-parallel rank")                       \
	INT(MEMORY, logits_buffers, "1", 0, 0, 100,                                                                    \
	    "micro-batches before the one that runs whose logits stay in a buffer")                                    \
	YES(MEMORY, joint_qkv, 0, "values are views of the joint GEMM's output, which so outlives rotation")           \
	YES(MEMORY, record_stream, 0, "what collectives read is free for reuse only once the device has run them")     \
	YES(MEMORY, gradient_as_bucket_view, 1,                                                                        \
	    "unsharded gradients lie in the buckets they are reduced in; else they are copied there (DDP)")            \
	YES(MEMORY, defer_grad_accumulation, 0, "16-bit gradients of a pass are added to fp32 ones at its end")        \
	YES(MEMORY, probs_on_activation, 0, "routing weights multiply experts' activations, not their outputs")        \
	WORD(MEMORY, allocator, MQ_ALLOCATOR_OTHER, "other|pytorch|expandable|planned",                                \
	     "of device memory: PyTorch's, the same with expandable_segments, laid out before the run, another")       \
	YES(MEMORY, zero_grad_set_to_none, 0,                                                                          \
	    "gradients are made by a step's first backward pass, and freed behind it")                                 \
	NUM(MEMORY, master_B, "B", 4, 0, 4, "of the optimizer's copy of a parameter, in 16-bit training; 0 = none")    \
	NUM(MEMORY, moment_B, "B", 4, 1, 4, "of each moment of the optimizer, in 16-bit training")                     \
	INT(MEMORY, offload_layers, "1", 0, 0, 10000, "layers whose activations wait on the host")                     \
	INT(MEMORY, allgather_flat_copies, "1", 0, 0, 4,                                                               \
	    "ZeRO-1 and 2: flat copies of new parameters while they are gathered")                                     \
	NUM(MEMORY, flat_M, "1e6", 0, 0, 1e6,                                                                          \
	    "gradients that go through one flat copy to be reduced, of a single replica too")                          \
	NUM(MEMORY, live_M, "1e6", 0, 0, 1e6,                                                                          \
	    "ZeRO-3: parameters gathered at once, at most; 0 = a layer, the next one and what is outside")             \
	NUM(MEMORY, reserve_GB, "GB", 0, 0, 1000, "context, framework, libraries, workspaces")                         \
	NUM(MEMORY, comm_GB, "GB", 0, 0, 1000, "communicators' buffers where NVLink joins GPUs")                       \
	YES(MEMORY, offload_optimizer, 0, "optimizer state and step on the host")                                      \
	WORD(DEFAULTS, sync, MQ_SYNC_ALLREDUCE, "allreduce|ps|duplicate|zero1|zero2|zero3",                            \
	     "of gradients, where nothing is said")                                                                    \
	WORD(DEFAULTS, recompute, MQ_RECOMPUTE_NONE, "none|selective|full", "where nothing is said")                   \
	WORD(DEFAULTS, selective, MQ_SELECTIVE_ATTENTION, "attention|ops|layers|named",                                \
	     "what selective recompute computes again; named = recompute_ops")                                         \
	TEXT(DEFAULTS, recompute_ops, "", "names of ops of a layer, '|' between: q|kv|norm*")                          \
	INT(DEFAULTS, recompute_num_layers, "1", 0, 0, 10000,                                                          \
	    "layers of a stage that full recompute runs again (block), or of its units (uniform); 0 = all")            \
	WORD(DEFAULTS, recompute_method, MQ_RECOMPUTE_BLOCK, "block|uniform", "what recompute_num_layers counts")      \
	YES(DEFAULTS, early_stop, 0, "full recompute ends with the last tensor that backward needs")                   \
	WORD(DEFAULTS, partition, MQ_STAGES_EVEN, "even|ceil|ends|cost",                                               \
	     "layers of stages: where they do not divide, or all by cost")                                             \
	INT(DEFAULTS, expert_tp, "1", 0, 0, 1000, "tensor-parallel degree of experts; 0 = as of all else")             \
	INT(DEFAULTS, chunks, "1", 0, 0, 1000, "chunks per device of interleaved pipelines; 0 = must be said")         \
	YES(DEFAULTS, split_batch, 0, "a pipeline divides a replica's batch by its stages")                            \
	YES(DEFAULTS, use_tp_pp_dp_mapping, 0,                                                                         \
	    "ranks go through the stages of a replica before the next replica, where nothing is said")

#endif
