/* point.c - see trust.h: a question and its prediction as a row of the index. SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <math.h>
#include <string.h>

#define MQ_MEMBER(name, about) "," #name
const char mq_trust_header[] = MQ_TRUST_WORDS(MQ_MEMBER) MQ_TRUST_NUMBERS(MQ_MEMBER);
#undef MQ_MEMBER

static const char *family_of(const struct mq_device_calib *d)
{
	static const struct {
		double capability;
		const char *name;
	} families[] = { { 100, "blackwell" }, { 90, "hopper" }, { 89, "ada" },   { 80, "ampere" },
			 { 75, "turing" },     { 70, "volta" },  { 60, "pascal" } };

	if (!d)
		return "";
	if (d->kind == MQ_CPU)
		return "cpu";
	if (mq_calib_is_amd(d))
		return "amd";
	for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
		if (d->compute_capability >= families[i].capability)
			return families[i].name;
	return "other";
}

static const char *kind_of(const struct mq_model *m, const struct mq_train *train)
{
	bool part = train->tuning && *train->tuning && strcmp(train->tuning, "full") != 0;

	return train->infer ? "inference" :
	       part         ? "fine-tuning" :
	       m->image     ? "images" :
	       m->experts   ? "mixture" :
	       m->stack     ? "dense" :
			      "other";
}

/* The plan's highest recomputation and gradient sharding of any op. */
static void note_configs(const struct mq_plan *plan, double *n)
{
	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];
		double sync = c->sync >= MQ_SYNC_ZERO1 ? 1 + c->sync - MQ_SYNC_ZERO1 : 0;

		n[MQ_TRUST_recompute] = fmax(n[MQ_TRUST_recompute], c->recompute);
		n[MQ_TRUST_sync] = fmax(n[MQ_TRUST_sync], sync);
	}
}

void mq_trust_point_of(const struct mq_trust_view *v, struct mq_trust_point *p)
{
	const struct mq_degrees d = mq_plan_degrees(v->plan);
	const struct mq_result *r = v->result;
	double *n = p->number, step_s = r->step_time_s;

	*p = (struct mq_trust_point){
		.word = { [MQ_TRUST_device] = v->device ? v->device->name : "",
			  [MQ_TRUST_family] = family_of(v->device),
			  [MQ_TRUST_software] = v->software->software.file ? v->software->software.file : "",
			  [MQ_TRUST_kind] = kind_of(v->model, v->train),
			  [MQ_TRUST_precision] = mq_dtype_name(mq_train_gemm_dtype(v->train)),
			  [MQ_TRUST_network] = v->nodes > 1 ? v->network : "none" },
	};
	p->word[MQ_TRUST_parent] = v->software->inherits ? v->software->inherits : p->word[MQ_TRUST_software];
	n[MQ_TRUST_gpus] = d.n_devices;
	n[MQ_TRUST_nodes] = v->nodes;
	n[MQ_TRUST_kinds] = v->kinds;
	n[MQ_TRUST_seq] = v->model->tokens_per_sample;
	n[MQ_TRUST_params] = mq_model_totals(v->model).parameters;
	n[MQ_TRUST_tp] = mq_or_1(d.tp);
	n[MQ_TRUST_tp_nodes] = ceil(n[MQ_TRUST_tp] / v->per_node);
	n[MQ_TRUST_pp] = mq_or_1(d.pp);
	n[MQ_TRUST_cp] = mq_or_1(d.cp);
	n[MQ_TRUST_ep] = mq_or_1(d.ep);
	n[MQ_TRUST_dp] = mq_or_1(d.dp);
	note_configs(v->plan, n);
	n[MQ_TRUST_comm_share] = r->exposed_comm_s / step_s;
	n[MQ_TRUST_bubble_share] = r->bubble_s / step_s;
	n[MQ_TRUST_mfu] = r->mfu;
	n[MQ_TRUST_step_s] = step_s;
}

void mq_trust_put(struct mq_csv_writer *w, const struct mq_trust_point *p)
{
	for (int i = 0; i < MQ_N_TRUST_WORDS; i++)
		mq_csv_put_text(w, p->word[i]);
	for (int i = 0; i < MQ_N_TRUST_NUMBERS; i++)
		mq_csv_put_f64(w, p->number[i]);
}
