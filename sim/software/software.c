/*
 * software.c - see software.h. One table row per field: reader, options, columns of tables of runs and the
 * documentation all come from it.
 */
#include "software/software_impl.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "maquette/rng.h"

#define NUM(group, field, unit, initial, min, max, help)                                \
	{                                                                               \
		MQ_F64(struct mq_software, field, initial, min, max, help), unit, group \
	}
#define INT(group, field, unit, initial, min, max, help)                                \
	{                                                                               \
		MQ_U32(struct mq_software, field, initial, min, max, help), unit, group \
	}
#define YES(group, field, initial, help)                                        \
	{                                                                       \
		MQ_BOOL(struct mq_software, field, initial, help), "0/1", group \
	}
#define WORD(group, field, initial, words, help)                                          \
	{                                                                                 \
		MQ_CHOICE(struct mq_software, field, initial, words, help), "word", group \
	}
#define TEXT(group, field, initial, help)                                       \
	{                                                                       \
		MQ_STR(struct mq_software, field, initial, help), "text", group \
	}

/* Order as in the enumerations of plan.h. */
#define SYNCS      "allreduce|ps|duplicate|zero1|zero2|zero3"
#define RECOMPUTES "none|selective|full"
/* Order as in enum mq_fusion. */
#define MAKES "fused|eager|apart|xla|tensorflow"

static const struct mq_software_field fields[] = {
	WORD(MQ_SW_KERNELS, attention, MQ_ATTENTION_FLASH2,
	     "stored|eager|masked-softmax|xla|tensorflow|fused-softmax|flash1|triton1|flash2|flash3|te",
	     "implementation of attention; the first six store scores"),
	WORD(MQ_SW_KERNELS, norm, MQ_FUSED, MAKES, "norms: one kernel; RMS op by op in fp32, others the framework's"),
	WORD(MQ_SW_KERNELS, rope, MQ_FUSED, "fused|eager", "rotary positions: one kernel, or op by op"),
	WORD(MQ_SW_KERNELS, yarn, MQ_FUSED, "fused|eager",
	     "those that scale what they turn (YaRN), where others are fused"),
	WORD(MQ_SW_KERNELS, activation, MQ_FUSED, MAKES, "activations: one kernel, or the framework's"),
	WORD(MQ_SW_KERNELS, dropout, MQ_FUSED, MAKES, "dropout and residual: one kernel, or the framework's"),
	WORD(MQ_SW_KERNELS, bias, MQ_FUSED, MAKES,
	     "of products: with them, gradients a sum (eager), or added apart too"),
	YES(MQ_SW_KERNELS, autocast, 0,
	    "16-bit training: parameters and residual stream are fp32, what products read is cast (torch.autocast)"),
	YES(MQ_SW_KERNELS, separate_projections, 0, "queries, keys, values, gate and up are products of their own"),
	YES(MQ_SW_KERNELS, unfused_gelu, 0, "tanh's approximation of GELU is written out, op by op"),
	YES(MQ_SW_KERNELS, masked_fill, 0, "eager attention: masks of scores are filled in, not added"),
	WORD(MQ_SW_KERNELS, transpose_copies, MQ_HEADS_NONE, "none|output|all|packed",
	     "copies around attention that bring heads together; packed: around fused attention"),
	NUM(MQ_SW_KERNELS, attention_setup_kernels, "1", 0, 0, 100,
	    "kernels before fused attention, in forward passes"),
	YES(MQ_SW_KERNELS, split_allgather_gemm, 0,
	    "sequence parallelism: products begin with the rank's own part of what is gathered, then those around it"),
	NUM(MQ_SW_KERNELS, traffic, "1", 1, .1, 20, "bytes of element-wise kernels / fused minimum"),
	NUM(MQ_SW_KERNELS, score_traffic, "1", 1, .1, 20, "as traffic, of kernels over stored attention scores"),
	WORD(MQ_SW_KERNELS, elementwise_fusion, MQ_CHAINS_NONE, "none|norm-16|all",
	     "image networks: element-wise ops inside the kernels before them: none, of 16-bit batch norms, all"),
	YES(MQ_SW_KERNELS, fused_grad_add, 0,
	    "image networks: gradients that meet are added by the products that make them"),
	YES(MQ_SW_KERNELS, aten_image_kernels, 0,
	    "image networks: PyTorch's kernels of pools, biases of convolutions, and batch norms in bf16"),
	WORD(MQ_SW_KERNELS, channels_first, MQ_FIRST_NONE, "none|32|32-volumes|all",
	     "tensors of convolutions that lie channels first: none, of 32 bits, these and volumes, all"),
	NUM(MQ_SW_KERNELS, layout_passes, "1", 0, 0, 10, "over such tensors, to and from the layout tensor cores want"),
	NUM(MQ_SW_KERNELS, fp8_cast_B, "B", 4, 0, 100, "moved to make an element of an fp8 operand"),
	NUM(MQ_SW_KERNELS, mxfp8_cast_B, "B", 4, 0, 100, "the same with a scale for each 32 elements (MXFP8)"),
	NUM(MQ_SW_KERNELS, fp4_cast_B, "B", 5.125, 0, 100, "the same of an fp4 operand"),
	NUM(MQ_SW_KERNELS, loss_moved_B, "B", 12, 0, 1000,
	    "moved per logit and both passes by the loss and metrics, in 16-bit training"),
	NUM(MQ_SW_KERNELS, cast_B, "B", 0, 0, 100, "moved per parameter and micro-batch in 16-bit training"),
	NUM(MQ_SW_KERNELS, accum_B, "B", 0, 0, 100, "the same where micro-batches are accumulated"),
	NUM(MQ_SW_KERNELS, update_B, "B", 0, 0, 200, "moved per parameter and step beside the optimizer's least"),
	NUM(MQ_SW_KERNELS, reduce_B, "B", 0, 0, 200, "more of it where gradients are reduced"),
	NUM(MQ_SW_KERNELS, grads_B, "B", 0, 0, 200,
	    "moved per gradient and step, of all that a rank has: divided, clipped, cleared"),
	NUM(MQ_SW_KERNELS, optimizer_kernels, "1", 1, 0, 1000, "kernels that update one op's parameters"),
	NUM(MQ_SW_KERNELS, reduce_kernels, "1", 0, 0, 1000, "more of them where its gradients are reduced"),
	YES(MQ_SW_KERNELS, tf32, 0, "fp32 products use TF32 where the device has it"),
	YES(MQ_SW_KERNELS, fused_experts, 0, "experts are one fused kernel, tokens sorted on their way"),
	YES(MQ_SW_KERNELS, fp8_attention, 0, "with fp8 products, those of fused attention too"),
	NUM(MQ_SW_HOST, host, "1", 1, 0, 1000, "host time per kernel / the machine's host_launch_s"),
	TEXT(MQ_SW_HOST, cuda_graph_scope, "",
	     "ops of a layer in CUDA graphs, '|' between: norm1|qkv*; * = whole steps"),
	NUM(MQ_SW_HOST, launches_per_collective, "1", 2, 0, 1000,
	    "host time of a collective or message / that of a kernel"),
	YES(MQ_SW_HOST, cuda_launch_blocking, 0, "the host waits for each kernel (CUDA_LAUNCH_BLOCKING)"),
	YES(MQ_SW_HOST, blocking_wait, 0, "the host waits for each collective inside the layers"),
	NUM(MQ_SW_HOST, torch_distributed_debug_us, "us", 0, 0, 1e6,
	    "per rank of its group, before each collective, to agree on it"),
	WORD(MQ_SW_HOST, blocking_sends, MQ_SENDS_NONE, "none|plain|all",
	     "a stage's next pass waits for what it sent: of one chunk to a device, of several too"),
	NUM(MQ_SW_HOST, handshake_ms, "ms", 0, 0, 1e4,
	    "a stage's host and device wait before each tensor that is sent or received"),
	NUM(MQ_SW_HOST, unflatten_us, "us", 0, 0, 1e6,
	    "per parameter tensor and rank, to take apart what ZeRO-1 and 2 gathered"),
	NUM(MQ_SW_HOST, step_ms, "ms", 0, 0, 1e4, "host time of a step that nothing hides"),
	YES(MQ_SW_COMMUNICATION, overlap_grads, 1, "gradients are reduced beside the backward pass"),
	WORD(MQ_SW_COMMUNICATION, nccl_proto, MQ_PROTO_AUTO, "auto|ll|ll128|simple",
	     "protocol of all collectives (NCCL_PROTO); auto = NCCL chooses"),
	NUM(MQ_SW_COMMUNICATION, bucket_MB, "MB", 0, 0, 1e6, "gradients reduced together; 0 = a stage's"),
	YES(MQ_SW_COMMUNICATION, overlap_tp, 0, "products in parts beside tensor-parallel communication"),
	YES(MQ_SW_COMMUNICATION, overlap_experts, 0, "forward and backward take turns while tokens travel"),
	YES(MQ_SW_COMMUNICATION, scatter_gather, 1, "tensor ranks send a part each between stages"),
	YES(MQ_SW_COMMUNICATION, broadcast_params, 0, "ZeRO-1 and 2: owners broadcast new parameters"),
	YES(MQ_SW_COMMUNICATION, sequence_parallel, 1, "norms along the sequence under tensor parallelism"),
	YES(MQ_SW_COMMUNICATION, vocab_parallel, 1, "embedding, head and loss split under tensor parallelism"),
	YES(MQ_SW_COMMUNICATION, zero1_allreduce, 0,
	    "ZeRO-1: all ranks get the whole sum of gradients, and keep their part"),
	YES(MQ_SW_COMMUNICATION, async_allreduce, 0,
	    "tensor parallelism: gradients of activations are all-reduced beside those of weights"),
	YES(MQ_SW_COMMUNICATION, separate_input_grad_reduce, 0,
	    "gate and up are two products, whose input's gradients are reduced apart"),
	YES(MQ_SW_COMMUNICATION, backward_prefetch, 0,
	    "ZeRO-3 gathers the next layer before it reduces this one's gradients"),
	YES(MQ_SW_COMMUNICATION, zero_once_per_step, 0,
	    "ZeRO-2 and 3 under pipeline stages gather and reduce once a step"),
	NUM(MQ_SW_COMMUNICATION, vocab_multiple, "1", 0, 0, 1e6, "each share of the vocabulary padded to it; 0 = not"),
	WORD(MQ_SW_COMMUNICATION, grad_dtype, MQ_GRAD_FP32, "dtype|fp32|bf16|fp16",
	     "type of reduced gradients; dtype = as trained"),
	INT(MQ_SW_COMMUNICATION, shard_group, "1", 0, 0, 1e6, "ranks over which ZeRO shards (HSDP); 0 = all"),
	NUM(MQ_SW_COMMUNICATION, zero_quantized_weights_B, "B", 0, 0, 8,
	    "of a parameter that ZeRO-3 gathers; 0 = as trained"),
	NUM(MQ_SW_COMMUNICATION, zero_quantized_gradients_B, "B", 0, 0, 8,
	    "of a gradient that ZeRO-3 reduces; 0 = as grad_dtype"),
	INT(MQ_SW_COMMUNICATION, zero_hpz_partition_size, "1", 0, 0, 1e6,
	    "ZeRO-3: ranks with a copy that backward gathers from (hpZ)"),
	YES(MQ_SW_COMMUNICATION, deepep, 0, "a token goes once to a rank of several of its experts"),
	YES(MQ_SW_COMMUNICATION, repeat_kv, 0, "keys and values copied per query head before a ring"),
	NUM(MQ_SW_MEMORY, loss_B, "B", 12, 0, 100, "per logit, at the worst moment of the cross-entropy"),
	YES(MQ_SW_MEMORY, grads_twice, 0, "gradients are held in 16 and in 32 bits"),
	YES(MQ_SW_MEMORY, save_quantized_operands, 0, "operands cast to fp8 or fp4 are kept so for backward"),
	YES(MQ_SW_MEMORY, deallocate_pipeline_outputs, 0, "outputs of pipeline stages are freed once sent"),
	YES(MQ_SW_MEMORY, fp8_params, 0, "weights of products in fp8 are held in fp8 alone"),
	YES(MQ_SW_MEMORY, regather_in_backward, 1, "what is gathered along the sequence is gathered again in backward"),
	YES(MQ_SW_MEMORY, gather_logits, 0, "the loss sees whole logits on each tensor-parallel rank"),
	INT(MQ_SW_MEMORY, logits_buffers, "1", 0, 0, 100,
	    "micro-batches before the one that runs whose logits stay in a buffer"),
	YES(MQ_SW_MEMORY, joint_qkv, 0, "values are views of the joint product's output, which so outlives rotation"),
	YES(MQ_SW_MEMORY, record_stream, 0,
	    "what collectives read is free for reuse only once the device has run them"),
	YES(MQ_SW_MEMORY, gradient_as_bucket_view, 1,
	    "unsharded gradients lie in the buckets they are reduced in; else they are copied there (DDP)"),
	YES(MQ_SW_MEMORY, defer_grad_accumulation, 0, "16-bit gradients of a pass are added to fp32 ones at its end"),
	YES(MQ_SW_MEMORY, probs_on_activation, 0, "routing weights multiply experts' activations, not their outputs"),
	WORD(MQ_SW_MEMORY, allocator, MQ_ALLOCATOR_OTHER, "other|pytorch|expandable",
	     "of device memory: PyTorch's, the same with expandable_segments, another"),
	YES(MQ_SW_MEMORY, zero_grad_set_to_none, 0,
	    "gradients are made by a step's first backward pass, and freed behind it"),
	NUM(MQ_SW_MEMORY, master_B, "B", 4, 0, 4,
	    "of the optimizer's copy of a parameter, in 16-bit training; 0 = none"),
	NUM(MQ_SW_MEMORY, moment_B, "B", 4, 1, 4, "of each moment of the optimizer, in 16-bit training"),
	INT(MQ_SW_MEMORY, offload_layers, "1", 0, 0, 10000, "layers whose activations wait on the host"),
	INT(MQ_SW_MEMORY, allgather_flat_copies, "1", 0, 0, 4,
	    "ZeRO-1 and 2: flat copies of new parameters while they are gathered"),
	NUM(MQ_SW_MEMORY, flat_M, "1e6", 0, 0, 1e6,
	    "gradients that go through one flat copy to be reduced, of a single replica too"),
	NUM(MQ_SW_MEMORY, reserve_GB, "GB", 0, 0, 1000, "context, framework, libraries, workspaces"),
	NUM(MQ_SW_MEMORY, comm_GB, "GB", 0, 0, 1000, "communicators' buffers where NVLink joins GPUs"),
	YES(MQ_SW_MEMORY, offload_optimizer, 0, "optimizer state and step on the host"),
	WORD(MQ_SW_DEFAULTS, sync, MQ_SYNC_ALLREDUCE, SYNCS, "of gradients, where nothing is said"),
	WORD(MQ_SW_DEFAULTS, recompute, MQ_RECOMPUTE_NONE, RECOMPUTES, "where nothing is said"),
	WORD(MQ_SW_DEFAULTS, selective, MQ_SELECTIVE_ATTENTION, "attention|ops|layers|named",
	     "what selective recompute computes again; named = recompute_ops"),
	TEXT(MQ_SW_DEFAULTS, recompute_ops, "", "names of ops of a layer, '|' between: q|kv|norm*"),
	YES(MQ_SW_DEFAULTS, early_stop, 0, "full recompute ends with the last tensor that backward needs"),
	WORD(MQ_SW_DEFAULTS, partition, MQ_STAGES_EVEN, "even|ceil|ends|cost",
	     "layers of stages: where they do not divide, or all by cost"),
	INT(MQ_SW_DEFAULTS, expert_tp, "1", 0, 0, 1000, "tensor-parallel degree of experts; 0 = as of all else"),
	INT(MQ_SW_DEFAULTS, chunks, "1", 0, 0, 1000, "chunks per device of interleaved pipelines; 0 = must be said"),
	YES(MQ_SW_DEFAULTS, split_batch, 0, "a pipeline divides a replica's batch by its stages"),
	{ .opt = MQ_END },
};
enum { N_FIELDS = sizeof(fields) / sizeof(*fields) - 1 };

const struct mq_software_field *mq_software_fields(void)
{
	return fields;
}

uint32_t mq_software_field_find(const char *name)
{
	for (uint32_t i = 0; i < N_FIELDS; i++)
		if (!strcmp(fields[i].opt.name, name))
			return i;
	return UINT32_MAX;
}

const char *mq_software_group_name(enum mq_software_group group)
{
	static const char *const names[MQ_N_SW_GROUPS] = { "kernels", "host", "communication", "memory", "defaults" };

	return (unsigned)group < MQ_N_SW_GROUPS ? names[group] : "?";
}

const struct mq_space_flag *mq_space_flags(void)
{
#define FLAG(key, initial) { #key, offsetof(struct mq_software_space, key) },
	static const struct mq_space_flag flags[] = { MQ_SPACE_FLAGS(FLAG){ NULL, 0 } };
#undef FLAG

	return flags;
}

const char *mq_models_name(enum mq_models m)
{
	static const char *const names[MQ_N_MODELS] = { "any", "layers", "one-width", "llama-like" };

	return (unsigned)m < MQ_N_MODELS ? names[m] : "?";
}

const char *mq_switch_name(uint32_t i)
{
	for (int d = 0; d < MQ_N_DECISIONS; d++)
		if (mq_decision(d)->bit == 1u << i)
			return mq_decision(d)->setting ? mq_decision(d)->setting : mq_decision(d)->name;
	return "?";
}

const char *mq_evidence_name(enum mq_evidence evidence)
{
	static const char *const names[MQ_N_EVIDENCE] = { "assumed", "documented", "counted", "fitted" };

	return (unsigned)evidence < MQ_N_EVIDENCE ? names[evidence] : "?";
}

void mq_software_init(struct mq_software *software)
{
	*software = (struct mq_software){ .name = "plain", .file = "plain", .about = "", .flags = "" };
	for (uint32_t i = 0; i < N_FIELDS; i++) {
		const struct mq_opt one[] = { fields[i].opt, MQ_END };

		mq_opt_defaults(one, software);
	}
	software->runs = (struct mq_software_space)MQ_SPACE_ALL;
}

const struct mq_software *mq_software_plain(void)
{
	/* The defaults of the table, as a constant: a test compares the two. */
	static const struct mq_software plain = {
		.name = "plain",
		.file = "plain",
		.about = "",
		.flags = "",
		.attention = MQ_ATTENTION_FLASH2,
		.traffic = 1,
		.score_traffic = 1,
		.fp8_cast_B = 4,
		.mxfp8_cast_B = 4,
		.fp4_cast_B = 5.125,
		.optimizer_kernels = 1,
		.host = 1,
		.launches_per_collective = 2,
		.overlap_grads = true,
		.scatter_gather = true,
		.sequence_parallel = true,
		.vocab_parallel = true,
		.grad_dtype = MQ_GRAD_FP32,
		.loss_B = 12,
		.loss_moved_B = 12,
		.regather_in_backward = true,
		.gradient_as_bucket_view = true,
		.master_B = 4,
		.moment_B = 4,
		.recompute_ops = "",
		.cuda_graph_scope = "",
		.runs = MQ_SPACE_ALL,
	};

	return &plain;
}

uint64_t mq_software_hash(const struct mq_software *s, uint64_t hash)
{
	static const size_t size[] = {
		[MQ_OPT_U32] = sizeof(uint32_t),
		[MQ_OPT_F64] = sizeof(double),
		[MQ_OPT_BOOL] = sizeof(bool),
		[MQ_OPT_CHOICE] = sizeof(uint32_t),
		[MQ_OPT_STR] = 0,
	};
	const struct mq_software_space *runs = &s->runs;

	for (uint32_t i = 0; i < N_FIELDS; i++) {
		const void *at = (const char *)s + fields[i].opt.offset;

		if (fields[i].opt.type == MQ_OPT_STR)
			hash = mq_hash(hash, *(const char *const *)at, strlen(*(const char *const *)at) + 1);
		else
			hash = mq_hash(hash, at, size[fields[i].opt.type]);
	}
	return mq_hash(hash, runs, offsetof(struct mq_software_space, placement) + sizeof(runs->placement));
}

const char *mq_software_renamed(const char *old)
{
	static const char *const names[][2] = {
		{ "attention_calls", "attention_setup_kernels" },
		{ "bucket_copies", "gradient_as_bucket_view" },
		{ "call_launches", "launches_per_collective" },
		{ "call_waits", "blocking_wait" },
		{ "chains", "elementwise_fusion" },
		{ "check_us", "torch_distributed_debug_us" },
		{ "copies_heads", "transpose_copies" },
		{ "fills_mask", "masked_fill" },
		{ "frees_late", "record_stream" },
		{ "frees_outputs", "deallocate_pipeline_outputs" },
		{ "gather_B", "zero_quantized_weights_B" },
		{ "gather_ahead", "backward_prefetch" },
		{ "gather_copies", "allgather_flat_copies" },
		{ "gather_us", "unflatten_us" },
		{ "gathers_again", "regather_in_backward" },
		{ "gathers_logits", "gather_logits" },
		{ "grads_wait", "defer_grad_accumulation" },
		{ "graphs", "cuda_graph_scope" },
		{ "keeps_logits", "logits_buffers" },
		{ "launch_waits", "cuda_launch_blocking" },
		{ "lazy_grads", "zero_grad_set_to_none" },
		{ "merge_copies", "deepep" },
		{ "own_first", "split_allgather_gemm" },
		{ "own_image_kernels", "aten_image_kernels" },
		{ "pipeline_once", "zero_once_per_step" },
		{ "products_apart", "separate_projections" },
		{ "reduce_calls", "reduce_kernels" },
		{ "reduces_apart", "separate_input_grad_reduce" },
		{ "reduces_beside", "async_allreduce" },
		{ "reduces_whole", "zero1_allreduce" },
		{ "saves_casts", "save_quantized_operands" },
		{ "secondary_group", "zero_hpz_partition_size" },
		{ "sends_wait", "blocking_sends" },
		{ "sums_into", "fused_grad_add" },
		{ "update_calls", "optimizer_kernels" },
		{ "weighs_early", "probs_on_activation" },
		{ "wire_B", "zero_quantized_gradients_B" },
		{ "writes_gelu", "unfused_gelu" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(old, names[i][0]))
			return names[i][1];
	return NULL;
}

enum mq_status mq_software_set_one(struct mq_software *software, const char *what, const char *key, const char *value,
				   struct mq_arena *arena, struct mq_err *err)
{
	uint32_t i = mq_software_field_find(key);

	if (i < N_FIELDS) {
		const struct mq_opt one[] = { fields[i].opt, MQ_END };

		return mq_opt_set(one, software, what, key, value, arena, err);
	}
	if (mq_software_renamed(key))
		return mq_fail(err, MQ_EINPUT, "%s: '%s' of software is now '%s'%s", what, key,
			       mq_software_renamed(key), strcmp(key, "bucket_copies") ? "" : ", its opposite");
	const char *names[N_FIELDS + 1] = { NULL };
	for (uint32_t k = 0; k < N_FIELDS; k++)
		names[k] = fields[k].opt.name;
	const char *near = mq_nearest(key, names);
	return mq_fail(err, MQ_EINPUT, "%s: software has no '%s'%s%s%s; `maquette list software NAME` prints all", what,
		       key, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

enum mq_status mq_software_set(struct mq_software *software, const char *what, const char *options,
			       struct mq_arena *arena, struct mq_err *err)
{
	char *copy = mq_arena_strdup(arena, options), *next;

	for (char *item = copy; item; item = next) {
		next = item + strcspn(item, ",;");
		next = *next ? (*next = '\0', next + 1) : NULL;
		item += strspn(item, " ");
		for (size_t n = strlen(item); n && item[n - 1] == ' ';)
			item[--n] = '\0';
		char *value = strchr(item, '=');
		if (!*item)
			continue;
		if (!value)
			return mq_fail(err, MQ_EINPUT, "%s: '%s' is not KEY=VALUE", what, item);
		*value++ = '\0';
		MQ_TRY(mq_software_set_one(software, what, item, value, arena, err));
		software->name = mq_arena_printf(arena, "%s,%s=%s", software->name, item, value);
	}
	return MQ_OK;
}
