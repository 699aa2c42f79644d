/*
 * export_targets.c - plans as DeepSpeed JSON, torchtitan TOML and FlagScale YAML.
 *
 * Each writer says what it refuses. Not said: data, tokenizer, learning rate; of the model only what the
 * parallel settings need.
 */
#include <errno.h>
#include <string.h>

#include "cmd/export/export.h"

/* What none of the three has a setting for. */
static enum mq_status refuse_switches(const struct mq_export *e, const char *target, struct mq_err *err)
{
	const struct mq_plan *p = e->plan;

	if (p->algo != MQ_ALGO_AUTO || p->proto != MQ_PROTO_AUTO)
		return mq_fail(err, MQ_EINPUT, "%s: a forced collective algorithm is no setting of it; it is "
			       "NCCL's environment", target);
	if ((p->overlap_tp && strcmp(target, "torchtitan")) || p->overlap_experts)
		return mq_fail(err, MQ_EINPUT, "%s: %s is not exported; megatron has it", target,
			       p->overlap_experts ? "overlap_experts" : "overlap_tp");
	if (p->zero_group)
		return mq_fail(err, MQ_EINPUT, "%s: sharding over groups of %u ranks is not exported", target,
			       p->zero_group);
	return MQ_OK;
}

/* ---- DeepSpeed ------------------------------------------------------------------------------------------ */

static enum mq_status refuse_deepspeed(const struct mq_export *e, const struct mq_shape *s,
				       struct mq_err *err)
{
	uint32_t zero = s->sync == MQ_SYNC_ALLREDUCE ? 0 : s->sync - MQ_SYNC_ZERO1 + 1;

	MQ_TRY(refuse_switches(e, "deepspeed", err));
	if (s->tp > 1 || s->cp > 1 || s->ep > 1)
		return mq_fail(err, MQ_EINPUT, "deepspeed: its file has no tensor, context or expert "
			       "parallelism (tp %u cp %u ep %u)", s->tp, s->cp, s->ep);
	if (s->pp > 1 && zero > 1)
		return mq_fail(err, MQ_EINPUT, "deepspeed: its pipeline engine takes ZeRO 0 or 1, not %u", zero);
	if (s->pp > 1 && e->plan->pipeline != MQ_PIPE_1F1B)
		return mq_fail(err, MQ_EINPUT, "deepspeed: its pipeline engine runs 1f1b, not %s",
			       mq_pipeline_name(e->plan->pipeline));
	for (uint32_t i = 1; i < s->pp; i++)
		if (s->stage_layers[i] + 1 < s->stage_layers[0] || s->stage_layers[i] > s->stage_layers[0] + 1)
			return mq_fail(err, MQ_EINPUT, "deepspeed: partitions layers evenly; stage %u has %u, "
				       "stage 0 %u", i, s->stage_layers[i], s->stage_layers[0]);
	if (s->recompute == MQ_RECOMPUTE_SELECTIVE)
		return mq_fail(err, MQ_EINPUT, "deepspeed: recomputes whole layers or nothing, not selectively");
	return MQ_OK;
}

/* "NODE slots=N" of the nodes that the plan uses, in rank order. */
static enum mq_status put_hostfile(const struct mq_export *e, uint32_t devices, struct mq_err *err)
{
	char path[4096];
	uint32_t slots = 0;

	snprintf(path, sizeof(path), "%s/hostfile", e->dir);
	FILE *f = fopen(path, "w");
	if (!f)
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	for (uint32_t d = 0; d < devices; d++) {
		uint32_t node = e->cluster->device[d].node;

		slots++;
		if (d + 1 < devices && e->cluster->device[d + 1].node == node)
			continue;
		fprintf(f, "node%u slots=%u\n", node, slots);
		slots = 0;
	}
	bool bad = ferror(f) != 0;
	if (fclose(f) || bad)
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", path, strerror(errno));
	return MQ_OK;
}

enum mq_status mq_export_deepspeed(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	struct mq_shape s;
	uint32_t mbs;

	MQ_TRY(mq_export_shape(e, &s, err));
	MQ_TRY(refuse_deepspeed(e, &s, err));
	MQ_TRY(mq_export_micro_batch(e, s.dp, &mbs, err));
	fprintf(f, "{\n  \"train_batch_size\": %.0f,\n  \"train_micro_batch_size_per_gpu\": %u,\n"
		"  \"gradient_accumulation_steps\": %u,\n", e->train->batch, mbs, s.micro_batches);
	if (e->train->dtype == MQ_FP16 || e->train->dtype == MQ_BF16)
		fprintf(f, "  \"%s\": {\"enabled\": true},\n", mq_dtype_name(e->train->dtype));
	if (s.recompute == MQ_RECOMPUTE_FULL)
		fputs("  \"activation_checkpointing\": {\"number_checkpoints\": null},\n", f);
	if (s.pp > 1)
		fprintf(f, "  \"pipeline\": {\"stages\": %u, \"partition\": \"uniform\"},\n", s.pp);
	fprintf(f, "  \"zero_optimization\": {\"stage\": %d, \"overlap_comm\": %s",
		s.sync == MQ_SYNC_ALLREDUCE ? 0 : s.sync - MQ_SYNC_ZERO1 + 1,
		e->plan->overlap_grads ? "true" : "false");
	if (e->plan->bucket_B > 0) /* in elements */
		fprintf(f, ", \"reduce_bucket_size\": %.0f", e->plan->bucket_B / mq_dtype_size(e->train->dtype));
	if (e->plan->offload_optimizer)
		fputs(", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}", f);
	fputs("}\n}\n", f);
	return e->dir ? put_hostfile(e, s.dp * s.pp, err) : MQ_OK;
}

/* ---- torchtitan ------------------------------------------------------------------------------------------ */

static enum mq_status refuse_torchtitan(const struct mq_export *e, const struct mq_shape *s,
					struct mq_err *err)
{
	MQ_TRY(refuse_switches(e, "torchtitan", err));
	if (e->train->dtype != MQ_BF16 && e->train->dtype != MQ_FP32)
		return mq_fail(err, MQ_EINPUT, "torchtitan: trains in bf16 or fp32, not %s; ask with --dtype bf16",
			       mq_dtype_name(e->train->dtype));
	if (s->sync == MQ_SYNC_ZERO1)
		return mq_fail(err, MQ_EINPUT, "torchtitan: shards gradients with the optimizer (zero2, zero3) or "
			       "nothing; zero1 is not its");
	if (s->pp > 1 && e->plan->pipeline == MQ_PIPE_ZB_H1)
		return mq_fail(err, MQ_EINPUT, "torchtitan: its zero-bubble schedules are ZBV and interleaved, not "
			       "zb-h1");
	if (s->tp > 1 && !s->sequence_parallel)
		return mq_fail(err, MQ_EINPUT, "torchtitan: its tensor parallelism splits norms along the sequence; "
			       "this plan does not");
	if (e->plan->offload_optimizer)
		return mq_fail(err, MQ_EINPUT, "torchtitan: offloads parameters too, not the optimizer alone");
	return MQ_OK;
}

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

static const char *titan_schedule(uint8_t pipeline)
{
	return pipeline == MQ_PIPE_GPIPE ? "GPipe" : pipeline == MQ_PIPE_1F1B ? "1F1B" : "Interleaved1F1B";
}

enum mq_status mq_export_torchtitan(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	struct mq_shape s;
	uint32_t mbs;

	MQ_TRY(mq_export_shape(e, &s, err));
	MQ_TRY(refuse_torchtitan(e, &s, err));
	MQ_TRY(mq_export_micro_batch(e, s.dp, &mbs, err));
	bool sharded = s.sync != MQ_SYNC_ALLREDUCE;
	fprintf(f, "[training]\nlocal_batch_size = %u\nglobal_batch_size = %.0f\nseq_len = %u\n"
		"mixed_precision_param = \"%s\"\n\n[parallelism]\n",
		s.pp > 1 ? mbs * s.micro_batches : mbs, e->train->batch, e->model->seq,
		e->train->dtype == MQ_BF16 ? "bfloat16" : "float32");
	fprintf(f, "data_parallel_replicate_degree = %u\ndata_parallel_shard_degree = %u\n"
		"tensor_parallel_degree = %u\ncontext_parallel_degree = %u\nexpert_parallel_degree = %u\n",
		sharded ? 1 : s.dp, sharded ? s.dp : 1, s.tp, s.cp, s.ep ? s.ep : 1);
	if (e->plan->overlap_tp && s.tp > 1)
		fputs("enable_async_tensor_parallel = true\n", f);
	if (sharded)
		fprintf(f, "fsdp_reshard_after_forward = \"%s\"\n",
			s.sync == MQ_SYNC_ZERO3 ? "always" : "never");
	fprintf(f, "pipeline_parallel_degree = %u\n", s.pp);
	if (s.pp > 1) {
		fprintf(f, "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %u\n",
			titan_schedule(e->plan->pipeline), mbs);
		put_parts(&s, f);
	}
	fprintf(f, "\n[activation_checkpoint]\nmode = \"%s\"\n", mq_recompute_name(s.recompute));
	return MQ_OK;
}

/* ---- FlagScale ------------------------------------------------------------------------------------------- */

static enum mq_status refuse_flagscale(const struct mq_export *e, const struct mq_export_stage *s, uint32_t n,
				       struct mq_err *err)
{
	MQ_TRY(refuse_switches(e, "flagscale", err));
	if (e->plan->virtual > 1 || (n > 1 && e->plan->pipeline != MQ_PIPE_1F1B))
		return mq_fail(err, MQ_EINPUT, "flagscale: mixed devices run 1f1b with one chunk per rank");
	for (uint32_t i = 0, next = 0; i < n; next += s[i++].n_devices) {
		if (s[i].first_device != next)
			return mq_fail(err, MQ_EINPUT, "flagscale: ranks follow the stages; stage %u begins at "
				       "device %u, not %u", i, s[i].first_device, next);
		if (s[i].sync != s[0].sync || s[i].recompute != s[0].recompute || s[i].cp != s[0].cp)
			return mq_fail(err, MQ_EINPUT, "flagscale: stage %u differs from stage 0 in gradient "
				       "sync, recomputation or cp", i);
		if (s[i].sync > MQ_SYNC_ALLREDUCE && s[i].sync != MQ_SYNC_ZERO1)
			return mq_fail(err, MQ_EINPUT, "flagscale: has allreduce and zero1, not %s",
				       mq_sync_name(s[i].sync));
	}
	return MQ_OK;
}

/* The first stages of each run of equal device type and degrees: one process mesh each. */
static uint32_t find_meshes(const struct mq_export_stage *s, uint32_t n, uint32_t *first)
{
	uint32_t meshes = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!i || strcmp(s[i].type, s[i - 1].type) || s[i].tp != s[i - 1].tp ||
		    s[i].dp != s[i - 1].dp || s[i].ep != s[i - 1].ep)
			first[meshes++] = i;
	first[meshes] = n;
	return meshes;
}

enum mq_status mq_export_flagscale(const struct mq_export *e, FILE *f, struct mq_err *err)
{
	struct mq_export_stage *s;
	uint32_t n, mbs, *first, meshes;

	MQ_TRY(mq_export_stages(e, &s, &n, err));
	MQ_TRY(mq_export_one_width(e, "flagscale", err));
	MQ_TRY(refuse_flagscale(e, s, n, err));
	MQ_TRY(mq_export_micro_batch(e, s[0].dp, &mbs, err));
	first = mq_arena_array(e->arena, n + 1, uint32_t);
	meshes = find_meshes(s, n, first);
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
		fprintf(f, "%s\"%s\"", m ? ", " : "", s[first[m]].type);
	fprintf(f, "]\n    hetero_current_device_type: \"%s\"\n", s[0].type);
	fprintf(f, "model:\n  num_layers: %u\n  hidden_size: %u\n  num_attention_heads: %u\n"
		"  ffn_hidden_size: %u\n  seq_length: %u\n  micro_batch_size: %u\n  global_batch_size: %.0f\n",
		e->model->n_layers, e->model->hidden, e->model->heads, e->model->ffn, e->model->seq, mbs,
		e->train->batch);
	return MQ_OK;
}
