/* flagscale.c - a plan as FlagScale's YAML, the only target with degrees per device type. Not written: data, tokenizer,
 * learning rate. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "export/export.h"
#include "base/shell.h"
#include "base/text.h"

/* Decisions without a setting here. */
static enum mq_status refuse_decisions(const struct mq_plan *p, struct mq_err *err)
{
	static const enum mq_decision_id refused[] = {
		MQ_DECISION_ALGO,       MQ_DECISION_PROTO,          MQ_DECISION_OVERLAP_EXPERTS,
		MQ_DECISION_OVERLAP_TP, MQ_DECISION_OFFLOAD_LAYERS, MQ_DECISION_ZERO_GROUP
	};
	char value[32];

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		const struct mq_decision *row = mq_decision(refused[i]);
		const char *text = row->kind == MQ_DECIDES_BOOL ? "" : mq_plan_value_text(p, refused[i], value);

		if (mq_plan_value(p, refused[i]))
			return mq_bad(err, "flagscale: %s%s%s is not exported; megatron has it", row->name,
				      *text ? " " : "", text);
	}
	return MQ_OK;
}

static enum mq_status refuse_stage(const struct mq_export *e, uint32_t i, uint32_t next, struct mq_err *err)
{
	const struct mq_plan_stage *s = &e->form.stage[i], *first = e->form.stage;

	for (uint32_t d = 0; d < s->n_devices; d++)
		if (s->device[d] != next + d)
			return mq_bad(err,
				      "flagscale: ranks follow the stages; stage %u has device %u where rank %u is", i,
				      s->device[d], next + d);
	for (uint32_t d = 1; d < s->n_devices; d++)
		if (strcmp(e->cluster->device[s->device[0]].type, e->cluster->device[s->device[d]].type))
			return mq_bad(err, "flagscale: wants one device type per stage; stage %u mixes %s and %s", i,
				      e->cluster->device[s->device[0]].type, e->cluster->device[s->device[d]].type);
	if (s->uneven)
		return mq_bad(err,
			      "flagscale: replicas of stage %u get uneven shares of the batch; it "
			      "has no setting for that",
			      i);
	if (s->sync != first->sync || s->recompute != first->recompute || s->cp != first->cp)
		return mq_bad(err, "flagscale: stage %u differs from stage 0 in gradient sync, recomputation or cp", i);
	if (s->sync != MQ_SYNC_ALLREDUCE && s->sync != MQ_SYNC_ZERO1)
		return mq_bad(err, "flagscale: has allreduce and zero1, not %s", mq_sync_name(s->sync));
	return MQ_OK;
}

static enum mq_status refuse_flagscale(const struct mq_export *e, struct mq_err *err)
{
	const struct mq_plan_form *f = &e->form;

	if (!f->n_stages)
		return mq_bad(err, "flagscale: %s", f->why);
	if (!e->model->n_layers || !e->model->hidden)
		return mq_bad(err,
			      "flagscale: the layers of '%s' are not of one width, and its flags "
			      "have one for all; --to deepspeed or chakra says such plans",
			      e->model->name);
	MQ_TRY(refuse_decisions(&e->resolved, err));
	if (e->plan->virtual > 1 || (f->n_stages > 1 && e->plan->pipeline != MQ_PIPE_1F1B))
		return mq_bad(err, "flagscale: mixed devices run 1f1b with one chunk per rank");
	for (uint32_t i = 0, next = 0; i < f->n_stages; next += f->stage[i++].n_devices)
		MQ_TRY(refuse_stage(e, i, next, err));
	return MQ_OK;
}

static const char *type_of(const struct mq_export *e, uint32_t stage)
{
	return e->cluster->device[e->form.stage[stage].device[0]].type;
}

/* The first stage of each range of stages with equal device type and degrees: one process mesh per range. */
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

/* Its keys are Megatron-LM's flags with '_' for '-'. */
static void put_keys(const char *const *word, FILE *f)
{
	for (; *word; word++) {
		bool value = word[1] && strncmp(word[1], "--", 2);

		fputs("  ", f);
		for (const char *c = *word + 2; *c; c++)
			fputc(*c == '-' ? '_' : *c, f);
		fprintf(f, ": %s\n", value ? word[1] : "True");
		word += value;
	}
}

static void put_system(const struct mq_export *e, uint32_t n, FILE *f)
{
	const struct mq_plan_stage *s = e->form.stage;

	fprintf(f,
		"system:\n  tensor_model_parallel_size: %u\n  pipeline_model_parallel_size: %u\n"
		"  context_parallel_size: %u\n  expert_model_parallel_size: %u\n  use_distributed_optimizer: %s\n",
		s[0].tp, n, s[0].cp, mq_or_1(s[0].ep), s[0].sync == MQ_SYNC_ZERO1 ? "True" : "False");
	if (e->form.shaped && e->form.shape.sequence_parallel)
		fputs("  sequence_parallel: True\n", f);
	if (s[0].etp && s[0].etp != s[0].tp)
		fprintf(f, "  expert_tensor_parallel_size: %u\n", s[0].etp);
	if (s[0].recompute != MQ_RECOMPUTE_NONE)
		fprintf(f, "  recompute_granularity: %s\n", mq_recompute_name(s[0].recompute));
	if (s[0].recompute == MQ_RECOMPUTE_FULL) {
		uint32_t layers;
		const char *method = mq_export_recompute(e, &layers);

		fprintf(f, "  recompute_method: %s\n  recompute_num_layers: %u\n", method, layers);
	}
	if (e->train->dtype == MQ_BF16 || e->train->dtype == MQ_FP16)
		fprintf(f, "  precision:\n    %s: True\n", mq_dtype_name(e->train->dtype));
}

enum mq_status mq_export_flagscale(const struct mq_export *e, const char **text, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	const struct mq_plan_stage *s = e->form.stage;
	uint32_t n = e->form.n_stages, mbs, *first, meshes;
	struct mq_script script;
	const char *flags;

	MQ_TRY(refuse_flagscale(e, err));
	MQ_TRY(mq_export_micro_batch(e, s[0].dp, &mbs, err));
	MQ_TRY(mq_export_megatron_model(e, &flags, err));
	MQ_TRY(mq_shell_read(flags, e->arena, &script, err));
	FILE *f = mq_words_open(&memory);
	first = mq_arena_array(e->arena, n + 1, uint32_t);
	meshes = find_meshes(e, first);
	fputs(mq_export_head_lines(e, "# "), f);
	put_system(e, n, f);
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
	fprintf(f, "model:\n  micro_batch_size: %u\n  global_batch_size: %.0f\n", mbs, e->train->batch);
	put_keys(script.word, f);
	fclose(f);
	*text = mq_arena_strdup(e->arena, memory.text);
	return MQ_OK;
}
