/* shape.c - shared by writers of settings: the plan as a shape, its ranks and machines; see export.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/template.h"
#include "base/text.h"
#include "export/export.h"
#include "model/formats/lib/huggingface.h"

#include <math.h>
#include <string.h>

/* Devices in the launcher's order of ranks. */
static void number_ranks(struct mq_export *e)
{
	const struct mq_shape *s = &e->shape;
	uint32_t width = s->cp * s->tp, n = 0;

	e->replica_major = !e->form.stage_major && e->form.replica_major;
	e->n_ranks = s->dp * s->pp * width;
	e->rank = mq_arena_array(e->arena, e->n_ranks, uint32_t);
	for (uint32_t i = 0; i < s->dp * s->pp; i++) {
		uint32_t stage = e->replica_major ? i % s->pp : i / s->dp;
		uint32_t replica = e->replica_major ? i / s->pp : i % s->dp;

		for (uint32_t k = 0; k < width; k++)
			e->rank[n++] = s->device[(stage * s->dp + replica) * width + k];
	}
}

enum mq_status mq_export_open(struct mq_export *e, const struct mq_question *q, struct mq_err *err)
{
	char why[400];

	e->software = q->software;
	e->calib = q->calib;
	mq_plan_form(q, e->plan, e->arena, &e->form);
	if (!mq_software_runs_model(q->software, q, why, sizeof(why)))
		return mq_bad(err, "%s", why);
	if (!mq_software_runs_form(q->software, q, e->plan, &e->form, why, sizeof(why)))
		return mq_bad(err, "%s; search with --software %s, which keeps to plans that it runs", why,
			      q->software->name);
	if (!e->form.shaped)
		return mq_bad(err, "one set of flags says one dp x tp x pp for all: %s", e->form.why);
	e->shape = e->form.shape;
	mq_software_apply_defaults(q->software, e->model, e->plan, e->arena, &e->resolved);
	number_ranks(e);
	return mq_export_micro_batch(e, e->shape.dp, &e->micro_batch, err);
}

enum mq_status mq_export_build(const struct mq_export *e, const struct mq_shape *shape, const struct mq_plan *like,
			       struct mq_plan *plan, struct mq_err *err)
{
	MQ_TRY(mq_plan_from_shape(shape, e->model, e->cluster, e->arena, plan, err));
	mq_plan_copy_decisions(plan, like);
	return MQ_OK;
}

enum mq_status mq_export_micro_batch(const struct mq_export *e, uint32_t dp, uint32_t *samples, struct mq_err *err)
{
	double each = e->train->batch / e->plan->micro_batches / dp;

	if (!(each >= 1) || each != floor(each))
		return mq_bad(err,
			      "a batch of %g in %u micro-batches over %u replicas is %g samples each; "
			      "launchers want whole ones",
			      e->train->batch, e->plan->micro_batches, dp, each);
	*samples = (uint32_t)each;
	return MQ_OK;
}

enum mq_status mq_import_batch(const struct mq_export *e, double said, double *batch, struct mq_err *err)
{
	*batch = e->train->batch > 0 ? e->train->batch : said;
	if (*batch > 1e9)
		return mq_bad(err, "%g %ss of a step are more than 1e9", *batch, e->model->unit);
	return *batch >= 1 ? MQ_OK :
			     mq_bad(err,
				    "--batch is missing, and the file says none: give the %ss of a step over all "
				    "devices, as --batch 256",
				    e->model->unit);
}

uint32_t mq_export_nodes(const struct mq_export *e, struct mq_export_node **node)
{
	uint32_t n = 0;

	*node = mq_arena_array(e->arena, e->n_ranks, struct mq_export_node);
	for (uint32_t r = 0; r < e->n_ranks; r++) {
		uint32_t at = e->cluster->device[e->rank[r]].node;

		if (!n || (*node)[n - 1].node != at)
			(*node)[n++] = (struct mq_export_node){ at, r, 0 };
		(*node)[n - 1].n++;
	}
	return n;
}

const char *mq_export_head_lines(const struct mq_export *e, const char *comment)
{
	struct mq_export_node *node;
	uint32_t n = mq_export_nodes(e, &node);
	const char *text = "";
	bool plain = true;

	for (const char *line = e->head; line && *line; line += strcspn(line, "\n") + 1)
		text = mq_arena_printf(e->arena, "%s%s%.*s\n", text, comment, (int)strcspn(line, "\n"), line);
	if (e->model->note)
		text = mq_arena_printf(e->arena, "%s%snot in these settings, of the model: %s\n", text, comment,
				       e->model->note);
	for (uint32_t r = 0; r < e->n_ranks; r++)
		plain = plain && e->rank[r] == r;
	for (uint32_t i = 0; i < n; i++)
		plain = plain && node[i].n == node[0].n;
	for (uint32_t i = 0; i < n && !plain; i++) {
		text = mq_arena_printf(e->arena,
				       "%s%snode rank %u: machine %u, %u processes, CUDA_VISIBLE_DEVICES=", text,
				       comment, i, node[i].node, node[i].n);
		for (uint32_t k = 0; k < node[i].n; k++)
			text = mq_arena_printf(e->arena, "%s%s%u", text, k ? "," : "",
					       e->cluster->device[e->rank[node[i].first + k]].local);
		text = mq_arena_printf(e->arena, "%s\n", text);
	}
	return text;
}

enum mq_status mq_export_put(const struct mq_export *e, const char *name, const char *text, struct mq_err *err)
{
	return mq_file_put(mq_arena_printf(e->arena, "%s/%s", e->dir, name), text, err);
}

enum mq_status mq_export_huggingface(const struct mq_export *e, const char **config, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *f = mq_words_open(&memory);
	enum mq_status status = mq_hf_write(e->model->stack, f, err);

	fclose(f);
	*config = mq_arena_strdup(e->arena, memory.text);
	return status;
}

void mq_export_fields(struct mq_template *v, const struct mq_transformer *t, const char *yes, const char *no)
{
	size_t n;
	const struct mq_field *field = mq_transformer_fields(&n);

	for (const struct mq_field *f = field; f < field + n; f++) {
		const void *at = (const char *)t + f->offset;
		const char *text = f->type == 's' ? *(const char *const *)at : NULL;

		if (f->type == 'n')
			mq_template_set(v, f->name, *(const uint32_t *)at || *no ? "%u" : "", *(const uint32_t *)at);
		else if (f->type == 'd')
			mq_template_set(v, f->name, *(const double *)at > 0 ? "%.9g" : "", *(const double *)at);
		else if (f->type == 'b')
			mq_template_set(v, f->name, "%s", *(const bool *)at ? yes : no);
		else
			mq_template_set(v, f->name, "%s", text ? text : "");
	}
}

const char *mq_export_nccl(const struct mq_export *e)
{
	const struct mq_plan *p = e->plan;
	const char *text = "";

	if (p->algo != MQ_ALGO_AUTO)
		text = mq_arena_printf(e->arena, "NCCL_ALGO=%s ", mq_algo_nccl(p->algo));
	if (p->proto != MQ_PROTO_AUTO)
		text = mq_arena_printf(e->arena, "%sNCCL_PROTO=%s ", text, mq_proto_nccl(p->proto));
	return text;
}

const char *mq_export_recompute(const struct mq_export *e, uint32_t *layers)
{
	*layers = e->resolved.recompute_num_layers;
	if (*layers)
		return mq_recompute_method_name(e->resolved.recompute_method);
	*layers = 1;
	return "uniform";
}

/* Megatron's recomputable modules (transformer_config.py: recompute_modules) and our ops of a layer. */
static const struct {
	const char *module, *ops;
} modules[] = {
	{ "core_attn", "attention" },
	{ "layernorm", "norm1|norm2" },
	{ "mla_up_proj", "q_up|kv_up" },
	{ "mlp", "up|activation|down" },
	{ "moe", "router|dispatch|experts.*|combine" },
	{ "moe_act", "experts.activation" },
	{ "shared_experts", "shared.*" },
};
enum { N_MODULES = sizeof(modules) / sizeof(*modules) };

const char *mq_export_modules(const struct mq_export *e, const char **unknown)
{
	const char *at = e->software->recompute_ops, *said = "";

	while (*at) {
		int found = -1;

		for (int i = 0; i < N_MODULES && found < 0; i++) {
			size_t n = strlen(modules[i].ops);

			if (!strncmp(at, modules[i].ops, n) && (!at[n] || at[n] == '|'))
				found = i;
		}
		if (found < 0) {
			*unknown = at;
			return NULL;
		}
		said = mq_arena_printf(e->arena, "%s%s%s", said, *said ? " " : "", modules[found].module);
		at += strlen(modules[found].ops);
		at += *at == '|';
	}
	return said;
}

const char *mq_import_modules(const char *said, struct mq_arena *arena, const char **unknown)
{
	const char *ops = "";

	for (const char *at = said + strspn(said, " "); *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");
		int i = 0;

		while (i < N_MODULES && (strlen(modules[i].module) != n || strncmp(at, modules[i].module, n) != 0))
			i++;
		if (i == N_MODULES) {
			*unknown = mq_arena_printf(arena, "%.*s", (int)n, at);
			return NULL;
		}
		ops = mq_arena_printf(arena, "%s%s%s", ops, *ops ? "|" : "", modules[i].ops);
		at += n;
	}
	return ops;
}

const struct mq_torch_schedule mq_torch_schedules[] = {
	{ "1F1B", MQ_PIPE_1F1B, 1 },
	{ "GPipe", MQ_PIPE_GPIPE, 1 },
	{ "Interleaved1F1B", MQ_PIPE_INTERLEAVED, 2 },
	{ "ZBVZeroBubble", MQ_PIPE_ZBV, 2 },
	{ "DualPipeV", MQ_PIPE_DUALPIPE_V, 2 },
	{ NULL, 0, 0 },
};

const char *mq_export_differs(const struct mq_export *e, const struct mq_transformer *said, const char *of)
{
	bool both = e->model->stack && said;
	char values[96] = "none";
	const char *field = both ? mq_transformer_differs(e->model->stack, said, values) : "stack";

	return field ? mq_arena_printf(e->arena, "%s is %s (of -m, and of %s)", field, values, of) : NULL;
}

/* The text with blanks in place of the lines that are comments. */
static const char *without_comments(const char *text, struct mq_arena *arena)
{
	char *copy = mq_arena_strdup(arena, text);
	bool comment = false, begins = true; /* only blanks since the start of the line */

	for (char *c = copy; *c; c++) {
		comment = *c != '\n' && (comment || (begins && *c == '#'));
		begins = *c == '\n' || (begins && (*c == ' ' || *c == '\t'));
		if (comment)
			*c = ' ';
	}
	return copy;
}

/* Does the text name LoRA? The ranks of latent attention do not count. */
static bool says_lora(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!strncasecmp(c, "lora", 4) &&
		    (c - text < 2 || (c[-1] != '_' && c[-1] != '-') || !strchr("qvoQVO", c[-2])))
			return true;
	return false;
}

/* "load_in_4bit: true", "load_in_4bit=True", "--load_in_4bit", "quantization_bit: 4": bitsandbytes holds the base. */
static bool says_4bit(const char *text)
{
	for (const char *c = text; (c = strstr(c, "quantization_bit"));)
		if (*(c += 16 + strspn(c + 16, " :=\"")) == '4')
			return true;
	for (const char *c = text; (c = strstr(c, "load_in_4bit"));) {
		c += 12;
		c += strspn(c, " :=\"");
		if (strncasecmp(c, "false", 5) && strncasecmp(c, "null", 4))
			return true;
	}
	return false;
}

enum mq_status mq_export_check_tuning(const struct mq_export *e, const char *path, const char *text, struct mq_err *err)
{
	const char *tuning = e->train->tuning ? e->train->tuning : "";
	bool asked = !strncmp(tuning, "lora", 4);

	text = without_comments(text, e->arena);
	if (says_lora(text) && !asked)
		return mq_bad(err, "%s: trains adapters of low rank (LoRA); ask with --train lora:rank=N,targets=...",
			      path);
	if (says_4bit(text) && !strstr(tuning, "base=nf4"))
		return mq_bad(err, "%s: holds the frozen base in 4 bits; ask with --train qlora:rank=N,targets=...",
			      path);
	return MQ_OK;
}

const char *mq_export_adapters(const struct mq_export *e, const char *const (*names)[2], struct mq_template *values)
{
	const struct mq_tuning *t = &e->tuning;
	const char *list = "", *targets = t->kind == MQ_TUNE_LORA ? t->targets : "", *word;

	while ((word = mq_text_next(&targets, "+", e->arena))) {
		const char *const(*name)[2] = names;

		while ((*name)[0] && !mq_text_has_word((*name)[0], word))
			name++;
		if (!(*name)[0])
			return NULL;
		list = mq_arena_printf(e->arena, "%s%s\"%s\"", list, *list ? ", " : "", (*name)[1] ? (*name)[1] : word);
	}
	mq_template_set(values, "lora", "%s", list);
	mq_template_set(values, "rank", "%u", t->rank);
	mq_template_set(values, "alpha", "%u", t->alpha);
	mq_template_set(values, "dropout", "%g", t->dropout);
	return list;
}
