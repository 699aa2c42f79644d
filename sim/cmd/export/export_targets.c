/*
 * export_targets.c - plans as DeepSpeed JSON, torchtitan TOML and FlagScale YAML.
 *
 * Plans come here as their software can say them; FlagScale alone says what it refuses. Not said: data,
 * tokenizer, learning rate; of the model only what the parallel settings need.
 */
#include <errno.h>
#include <string.h>

#include "cmd/export/export.h"

/* ---- DeepSpeed ------------------------------------------------------------------------------------------ */

/* "NODE slots=N" of the nodes that the plan uses, in rank order. */
static enum mq_status put_hostfile(const struct mq_export *e, struct mq_err *err)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	char path[4096];

	snprintf(path, sizeof(path), "%s/hostfile", e->dir);
	FILE *f = fopen(path, "w");
	if (!f)
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	mq_export_put_nodes(e, "# ", f);
	for (uint32_t i = 0; i < n; i++)
		fprintf(f, "node%u slots=%u\n", node[i].node, node[i].n);
	bool bad = ferror(f) != 0;
	if (fclose(f) || bad)
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	return MQ_OK;
}

static void put_zero(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	const struct mq_plan *p = &e->dressed;
	/* the optimizer is offloaded by ZeRO's engine, on one replica too */
	int stage = s->sync >= MQ_SYNC_ZERO1 ? s->sync - MQ_SYNC_ZERO1 + 1 : p->offload_optimizer;

	fprintf(f, "  \"zero_optimization\": {\"stage\": %d, \"overlap_comm\": %s", stage,
		p->overlap_grads ? "true" : "false");
	if (p->bucket_B > 0) /* in elements */
		fprintf(f, ", \"reduce_bucket_size\": %.0f", p->bucket_B / mq_dtype_size(e->train->dtype));
	if (p->offload_optimizer)
		fputs(", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}", f);
	fputs("}\n}\n", f);
}

enum mq_status mq_export_deepspeed(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	const struct mq_shape *s = &e->shape;

	fprintf(f, "{\n  \"train_batch_size\": %.0f,\n  \"train_micro_batch_size_per_gpu\": %u,\n"
		"  \"gradient_accumulation_steps\": %u,\n", e->train->batch, e->micro_batch, s->micro_batches);
	if (e->train->dtype == MQ_FP16 || e->train->dtype == MQ_BF16)
		fprintf(f, "  \"%s\": {\"enabled\": true},\n", mq_dtype_name(e->train->dtype));
	if (e->train->grad_dtype != e->train->dtype)
		fprintf(f, "  \"communication_data_type\": \"%s\",\n", mq_dtype_name(e->train->grad_dtype));
	if (s->recompute == MQ_RECOMPUTE_FULL)
		fputs("  \"activation_checkpointing\": {\"number_checkpoints\": null},\n", f);
	if (s->tp > 1)
		fprintf(f, "  \"tensor_parallel\": {\"autotp_size\": %u},\n", s->tp);
	if (s->pp > 1)
		fprintf(f, "  \"pipeline\": {\"stages\": %u, \"partition\": \"uniform\"},\n", s->pp);
	put_zero(e, f);
	return e->dir ? put_hostfile(e, err) : MQ_OK;
}

/* ---- torchtitan ------------------------------------------------------------------------------------------ */

static void put_parts(const struct mq_shape *s, FILE *f)
{
	uint32_t layer = 0, n = s->pp * s->virtual;

	fputs("module_fqns_per_model_part = [\n", f);
	for (uint32_t i = 0; i < n; i++) {
		fprintf(f, "  [%s", i ? "" : "\"tok_embeddings\", ");
		for (uint32_t k = 0; k < s->stage_layers[i]; k++)
			fprintf(f, "%s\"layers.%u\"", k ? ", " : "", layer++);
		fprintf(f, "%s],\n", i + 1 < n ? "" : ", \"norm\", \"output\"");
	}
	fputs("]\n", f);
}

static const char *titan_schedule(const struct mq_shape *s)
{
	if (s->pipeline == MQ_PIPE_GPIPE)
		return "GPipe";
	return s->virtual > 1 ? "Interleaved1F1B" : "1F1B";
}

static const char *type_name(enum mq_dtype dtype)
{
	return dtype == MQ_BF16 ? "bfloat16" : "float32";
}

/* Copies and shards: HSDP where ZeRO shards over groups, plain copies where it does not at all. Shards
 * lie over replicas and the parts of a sequence; torchtitan counts replicas. */
static void put_data_parallel(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;
	bool sharded = s->sync >= MQ_SYNC_ZERO1;
	uint32_t shards = sharded ? s->dp : 1;

	if (sharded && e->dressed.zero_group && e->dressed.zero_group < s->dp * s->cp)
		shards = e->dressed.zero_group / s->cp;
	fprintf(f, "data_parallel_replicate_degree = %u\ndata_parallel_shard_degree = %u\n", s->dp / shards,
		shards);
	if (sharded)
		fprintf(f, "fsdp_reshard_after_forward = \"%s\"\n",
			s->sync == MQ_SYNC_ZERO3 ? "always" : "never");
}

static void put_parallelism(const struct mq_export *e, FILE *f)
{
	const struct mq_shape *s = &e->shape;

	fputs("\n[parallelism]\n", f);
	put_data_parallel(e, f);
	fprintf(f, "tensor_parallel_degree = %u\ncontext_parallel_degree = %u\nexpert_parallel_degree = %u\n",
		s->tp, s->cp, s->ep);
	if (s->ep > 1 && s->tp > 1) /* 1 by default: experts whole on each tensor rank */
		fprintf(f, "expert_tensor_parallel_degree = %u\n", s->tp);
	if (e->dressed.overlap_tp && s->tp > 1)
		fputs("enable_async_tensor_parallel = true\n", f);
	fprintf(f, "pipeline_parallel_degree = %u\n", s->pp);
	if (s->pp == 1)
		return;
	fprintf(f, "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %u\n",
		titan_schedule(s), e->micro_batch);
	put_parts(s, f);
}

enum mq_status mq_export_torchtitan(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	const struct mq_shape *s = &e->shape;
	const char *nccl = mq_export_nccl(e);

	(void)err;
	if (*nccl)
		fprintf(f, "# environment: %s\n", nccl);
	mq_export_put_nodes(e, "# ", f);
	if (mq_train_products(e->train) == MQ_FP8)
		fprintf(f, "[model]\nconverters = [\"%s\"]\n\n",
			e->train->mx ? "quantize.linear.mx" : "quantize.linear.float8");
	fprintf(f, "[training]\nlocal_batch_size = %u\nglobal_batch_size = %.0f\nseq_len = %u\n"
		"mixed_precision_param = \"%s\"\nmixed_precision_reduce = \"%s\"\n",
		s->pp > 1 ? e->micro_batch * s->micro_batches : e->micro_batch, e->train->batch, e->model->seq,
		type_name(e->train->dtype), type_name(e->train->grad_dtype));
	put_parallelism(e, f);
	fprintf(f, "\n[activation_checkpoint]\nmode = \"%s\"\n", mq_recompute_name(s->recompute));
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE)
		fprintf(f, "selective_ac_option = \"%s\"\n",
			e->software->selective == MQ_SELECTIVE_LAYERS ? "2" : "op");
	if (*e->software->flags)
		fprintf(f, "\n%s\n", e->software->flags);
	return MQ_OK;
}

/* ---- FlagScale ------------------------------------------------------------------------------------------- */

static enum mq_status refuse_switches(const struct mq_plan *p, struct mq_err *err)
{
	if (p->algo != MQ_ALGO_AUTO || p->proto != MQ_PROTO_AUTO)
		return mq_fail(err, MQ_EINPUT, "flagscale: a forced collective algorithm is no setting of it; it "
			       "is NCCL's environment");
	if (p->overlap_tp || p->overlap_experts)
		return mq_fail(err, MQ_EINPUT, "flagscale: %s is not exported; megatron has it",
			       p->overlap_experts ? "overlap_experts" : "overlap_tp");
	if (p->zero_group)
		return mq_fail(err, MQ_EINPUT, "flagscale: sharding over groups of %u ranks is not exported",
			       p->zero_group);
	return MQ_OK;
}

static enum mq_status refuse_stage(const struct mq_export *e, uint32_t i, uint32_t next, struct mq_err *err)
{
	const struct mq_plan_stage *s = &e->form.stage[i], *first = e->form.stage;

	for (uint32_t d = 0; d < s->n_devices; d++)
		if (s->device[d] != next + d)
			return mq_fail(err, MQ_EINPUT, "flagscale: ranks follow the stages; stage %u has device %u "
				       "where rank %u is", i, s->device[d], next + d);
	for (uint32_t d = 1; d < s->n_devices; d++)
		if (strcmp(e->cluster->device[s->device[0]].type, e->cluster->device[s->device[d]].type))
			return mq_fail(err, MQ_EINPUT, "flagscale: wants one device type per stage; stage %u mixes "
				       "%s and %s", i, e->cluster->device[s->device[0]].type,
				       e->cluster->device[s->device[d]].type);
	if (s->uneven)
		return mq_fail(err, MQ_EINPUT, "flagscale: replicas of stage %u get uneven shares of the batch; it "
			       "has no setting for that", i);
	if (s->sync != first->sync || s->recompute != first->recompute || s->cp != first->cp)
		return mq_fail(err, MQ_EINPUT, "flagscale: stage %u differs from stage 0 in gradient sync, "
			       "recomputation or cp", i);
	if (s->sync != MQ_SYNC_ALLREDUCE && s->sync != MQ_SYNC_ZERO1)
		return mq_fail(err, MQ_EINPUT, "flagscale: has allreduce and zero1, not %s",
			       mq_sync_name(s->sync));
	return MQ_OK;
}

static enum mq_status refuse_flagscale(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_plan_form *f = &e->form;

	if (!f->n_stages)
		return mq_fail(err, MQ_EINPUT, "flagscale: %s", f->why);
	if (!e->model->n_layers || !e->model->hidden)
		return mq_fail(err, MQ_EINPUT, "flagscale: the layers of '%s' are not of one width, and its flags "
			       "have one for all; --to deepspeed or chakra says such plans", e->model->name);
	MQ_TRY(refuse_switches(&e->dressed, err));
	if (e->plan->virtual > 1 || (f->n_stages > 1 && e->plan->pipeline != MQ_PIPE_1F1B))
		return mq_fail(err, MQ_EINPUT, "flagscale: mixed devices run 1f1b with one chunk per rank");
	for (uint32_t i = 0, next = 0; i < f->n_stages; next += f->stage[i++].n_devices)
		MQ_TRY(refuse_stage(e, i, next, err));
	return MQ_OK;
}

static const char *type_of(const struct mq_export *e, uint32_t stage)
{
	return e->cluster->device[e->form.stage[stage].device[0]].type;
}

/* The first stages of each run of equal device type and degrees: one process mesh each. */
static uint32_t find_meshes(const struct mq_export *e, uint32_t *first)
{
	const struct mq_plan_stage *s = e->form.stage;
	uint32_t meshes = 0, n = e->form.n_stages;

	for (uint32_t i = 0; i < n; i++)
		if (!i || strcmp(type_of(e, i), type_of(e, i - 1)) || s[i].tp != s[i - 1].tp ||
		    s[i].dp != s[i - 1].dp || s[i].ep != s[i - 1].ep)
			first[meshes++] = i;
	first[meshes] = n;
	return meshes;
}

enum mq_status mq_export_flagscale(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	const struct mq_plan_stage *s = e->form.stage;
	uint32_t n = e->form.n_stages, mbs, *first, meshes;

	MQ_TRY(refuse_flagscale(e, err));
	MQ_TRY(mq_export_micro_batch(e, s[0].dp, &mbs, err));
	first = mq_arena_array(e->arena, n + 1, uint32_t);
	meshes = find_meshes(e, first);
	fprintf(f, "system:\n  tensor_model_parallel_size: %u\n  pipeline_model_parallel_size: %u\n"
		"  context_parallel_size: %u\n  use_distributed_optimizer: %s\n", s[0].tp, n, s[0].cp,
		s[0].sync == MQ_SYNC_ZERO1 ? "True" : "False");
	if (s[0].recompute != MQ_RECOMPUTE_NONE)
		fprintf(f, "  recompute_granularity: %s\n", mq_recompute_name(s[0].recompute));
	if (s[0].recompute == MQ_RECOMPUTE_FULL)
		fputs("  recompute_method: uniform\n  recompute_num_layers: 1\n", f);
	fprintf(f, "  hetero:\n    enable_hetero: %s\n    hetero_pipeline_layer_split: [",
		meshes > 1 ? "True" : "False");
	for (uint32_t i = 0; i < n; i++)
		fprintf(f, "%s%u", i ? ", " : "", s[i].layers);
	fputs("]\n    hetero_process_meshes: [", f); /* tp, cp, ep, dp, pp of each */
	for (uint32_t m = 0; m < meshes; m++)
		fprintf(f, "%s%u, %u, %u, %u, %u", m ? ", " : "", s[first[m]].tp, s[first[m]].cp,
			s[first[m]].ep ? s[first[m]].ep : 1, s[first[m]].dp, first[m + 1] - first[m]);
	fputs("]\n    hetero_device_types: [", f);
	for (uint32_t m = 0; m < meshes; m++)
		fprintf(f, "%s\"%s\"", m ? ", " : "", type_of(e, first[m]));
	fprintf(f, "]\n    hetero_current_device_type: \"%s\"\n", type_of(e, 0));
	fprintf(f, "model:\n  num_layers: %u\n  hidden_size: %u\n  num_attention_heads: %u\n"
		"  ffn_hidden_size: %u\n  seq_length: %u\n  micro_batch_size: %u\n  global_batch_size: %.0f\n",
		e->model->n_layers, e->model->hidden, e->model->heads, e->model->ffn, e->model->seq, mbs,
		e->train->batch);
	return MQ_OK;
}
