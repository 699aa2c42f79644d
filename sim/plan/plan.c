/* plan.c - the canonical form of a plan: copy, hash, description, packing. See plan.h.
 *
 * plan_check.c has the rules for plans, plan_shape.c the builders, plan_json.c the JSON format.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/plan.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/message.h"
#include "maquette/rng.h"

const enum mq_dim mq_mesh_dims[MQ_N_DIMS] = { MQ_DIM_BATCH, MQ_DIM_EXPERT, MQ_DIM_SEQ, MQ_DIM_SPATIAL,
					      MQ_DIM_HEAD,  MQ_DIM_OUT,    MQ_DIM_IN };

MQ_NAMES(mq_sync_name, enum mq_sync, MQ_N_SYNCS, "allreduce", "ps", "duplicate", "zero1", "zero2", "zero3")

MQ_NAMES(mq_recompute_name, enum mq_recompute, MQ_N_RECOMPUTES, "none", "selective", "full")

void mq_plan_init(struct mq_plan *plan, struct mq_arena *arena, uint32_t n_ops)
{
	memset(plan, 0, sizeof(*plan));
	plan->n_ops = n_ops;
	plan->config_of = mq_arena_array(arena, n_ops, uint32_t);
	plan->micro_batches = 1;
	plan->virtual = 1;
	plan->pipeline = MQ_PIPE_1F1B;
	plan->engine_objective = NAN;
}

static struct mq_config copy_config(const struct mq_config *from, struct mq_arena *arena)
{
	struct mq_config to = *from;
	uint32_t b = from->split[MQ_DIM_BATCH];

	to.device = mq_arena_array(arena, from->n_devices, uint32_t);
	if (from->n_devices)
		memcpy(to.device, from->device, from->n_devices * sizeof(*to.device));
	if (from->share) {
		to.share = mq_arena_array(arena, b, double);
		memcpy(to.share, from->share, b * sizeof(*to.share));
	}
	return to;
}

void mq_plan_copy(struct mq_plan *to, const struct mq_plan *from, struct mq_arena *arena)
{
	*to = *from;
	to->config_of = mq_arena_array(arena, from->n_ops, uint32_t);
	if (from->n_ops)
		memcpy(to->config_of, from->config_of, from->n_ops * sizeof(*to->config_of));
	/* Capacity as mq_plan_add_config expects it: the next power of two. */
	uint32_t room = 1;
	while (room < from->n_configs)
		room *= 2;
	to->config = mq_arena_array(arena, room, struct mq_config);
	for (uint32_t i = 0; i < from->n_configs; i++)
		to->config[i] = copy_config(&from->config[i], arena);
}

uint32_t mq_plan_add_config(struct mq_plan *plan, struct mq_arena *arena, uint32_t n_devices)
{
	uint32_t n = plan->n_configs;

	if (!(n & (n - 1))) { /* grow at powers of two */
		struct mq_config *bigger = mq_arena_array(arena, n ? 2 * n : 1, struct mq_config);

		if (n)
			memcpy(bigger, plan->config, n * sizeof(*bigger));
		plan->config = bigger;
	}
	struct mq_config *c = &plan->config[plan->n_configs++];
	memset(c, 0, sizeof(*c));
	c->n_devices = n_devices;
	c->device = mq_arena_array(arena, n_devices, uint32_t);
	for (int d = 0; d < MQ_N_DIMS; d++)
		c->split[d] = 1;
	return n;
}

void mq_plan_samples(const struct mq_plan *plan, const struct mq_config *config, const struct mq_train *train,
		     struct mq_arena *scratch, double *samples)
{
	uint32_t n = config->split[MQ_DIM_BATCH];
	double total = train->batch / plan->micro_batches, weight = 0, left = total;
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	double *above = mq_arena_array(scratch, n, double); /* the exact share; the least gets a sample left over */

	for (uint32_t i = 0; i < n; i++)
		weight += config->share ? config->share[i] : 1;
	for (uint32_t i = 0; i < n; i++) {
		double mine = config->share ? total * config->share[i] / weight : total / weight;

		samples[i] = n == 1 ? total : floor(mine);
		left -= samples[i];
		above[i] = samples[i] - mine;
	}
	const uint32_t *order = config->share ? mq_arena_order(scratch, above, n) : mq_arena_count(scratch, n);
	for (uint32_t k = 0; k < n && k < left; k++)
		samples[order[k]]++;
	mq_arena_rewind(scratch, mark);
}

/* ---- canonical order of the configs: first use first, equal ones merged, unused ones dropped --- */

static bool same_config(const struct mq_config *a, const struct mq_config *b)
{
	uint32_t n = a->split[MQ_DIM_BATCH];

	return a->n_devices == b->n_devices && a->stage == b->stage && a->sync == b->sync &&
	       a->recompute == b->recompute && !memcmp(a->split, b->split, sizeof(a->split)) &&
	       !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device)) && !a->share == !b->share &&
	       (!a->share || !memcmp(a->share, b->share, n * sizeof(*a->share)));
}

static uint64_t hash_config(uint64_t h, const struct mq_config *c)
{
	uint32_t fields[] = { c->n_devices, c->stage, c->sync, c->recompute, c->share != NULL };

	h = mq_hash(h, fields, sizeof(fields));
	h = mq_hash(h, c->split, sizeof(c->split));
	h = mq_hash(h, c->device, c->n_devices * sizeof(*c->device));
	if (c->share)
		h = mq_hash(h, c->share, c->split[MQ_DIM_BATCH] * sizeof(*c->share));
	return h;
}

uint32_t mq_plan_intern(struct mq_plan *plan, const struct mq_config *like, struct mq_arena *arena)
{
	for (uint32_t i = plan->n_configs; i-- > 0;)
		if (same_config(&plan->config[i], like))
			return i;
	struct mq_config own = copy_config(like, arena);
	uint32_t i = mq_plan_add_config(plan, arena, 0);

	plan->config[i] = own;
	return i;
}

/* Fills canonical[n_configs] with new indices (MQ_NONE = unused); returns their number. */
static uint32_t canonical_order(const struct mq_plan *plan, uint32_t *canonical, uint32_t *first)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < plan->n_configs; i++)
		canonical[i] = MQ_NONE;
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		uint32_t c = plan->config_of[op];

		if (canonical[c] != MQ_NONE)
			continue;
		for (uint32_t k = 0; k < n && canonical[c] == MQ_NONE; k++)
			if (same_config(&plan->config[first[k]], &plan->config[c]))
				canonical[c] = k;
		if (canonical[c] == MQ_NONE) {
			first[n] = c;
			canonical[c] = n++;
		}
	}
	return n;
}

/* The scalars of a plan; decisions have the other words (decisions.h). Words from N_HASHED on are hashed only if one of
 * them is not 0, so that plans without later decisions keep their hashes. */
enum {
	WORD_OPS,
	WORD_CONFIGS,
	WORD_MICRO_BATCHES,
	WORD_VIRTUAL,
	WORD_PIPELINE = 6,
	WORD_EXPLICIT = 18,
	N_HASHED = 20,
	N_WORDS = 24
};
struct head {
	uint32_t word[N_WORDS];
};

/* What a plan leaves open counts as 0: it makes no two plans of one. */
static struct head head_of(const struct mq_plan *plan, uint32_t n_configs)
{
	struct head head = { .word = { [WORD_OPS] = plan->n_ops,
				       [WORD_CONFIGS] = n_configs,
				       [WORD_MICRO_BATCHES] = plan->micro_batches,
				       [WORD_VIRTUAL] = plan->virtual,
				       [WORD_PIPELINE] = plan->pipeline,
				       [WORD_EXPLICIT] = plan->explicit } };

	for (int d = 0; d < MQ_N_DECISIONS; d++) {
		const struct mq_decision *row = mq_decision(d);
		double value = mq_plan_leaves(plan, d) ? 0 : mq_plan_value(plan, d);

		if (row->kind == MQ_DECIDES_F64)
			memcpy(&head.word[row->word], &value, sizeof(value));
		else
			head.word[row->word] = (uint32_t)value;
	}
	return head;
}

uint64_t mq_plan_hash(const struct mq_plan *plan)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t *canonical = mq_arena_array(&scratch, plan->n_configs + 1, uint32_t);
	uint32_t *first = mq_arena_array(&scratch, plan->n_configs + 1, uint32_t);
	uint32_t n = canonical_order(plan, canonical, first);
	struct head head = head_of(plan, n);
	uint64_t h = mq_hash(MQ_HASH_INIT, &head, N_HASHED * sizeof(*head.word));

	for (int w = N_HASHED; w < N_WORDS; w++)
		if (head.word[w])
			h = mq_hash(mq_hash(h, &w, sizeof(w)), &head.word[w], sizeof(head.word[w]));

	for (uint32_t op = 0; op < plan->n_ops; op++)
		h = mq_hash(h, &canonical[plan->config_of[op]], sizeof(uint32_t));
	for (uint32_t k = 0; k < n; k++)
		h = hash_config(h, &plan->config[first[k]]);
	return h;
}

/* ---- flat bytes -------------------------------------------------------------------------------- */

enum { CONFIG_WORDS = 5 + MQ_N_DIMS };

void *mq_plan_pack(const struct mq_plan *plan, struct mq_arena *arena, size_t *size)
{
	uint32_t *canonical = mq_arena_array(arena, plan->n_configs + 1, uint32_t);
	uint32_t *first = mq_arena_array(arena, plan->n_configs + 1, uint32_t);
	uint32_t n = canonical_order(plan, canonical, first);
	struct head head = head_of(plan, n);
	struct mq_message m = { .arena = arena };

	mq_message_put(&m, &head, sizeof(head));
	mq_message_put(&m, &plan->engine_objective, sizeof(double));
	for (uint32_t op = 0; op < plan->n_ops; op++)
		mq_message_put(&m, &canonical[plan->config_of[op]], sizeof(uint32_t));
	for (uint32_t k = 0; k < n; k++) {
		const struct mq_config *c = &plan->config[first[k]];
		uint32_t words[CONFIG_WORDS] = { c->n_devices, c->stage, c->sync, c->recompute, c->share != NULL };

		memcpy(words + 5, c->split, sizeof(c->split));
		mq_message_put(&m, words, sizeof(words));
		mq_message_put(&m, c->device, c->n_devices * sizeof(uint32_t));
		if (c->share)
			mq_message_put(&m, c->share, c->split[MQ_DIM_BATCH] * sizeof(double));
	}
	*size = m.n;
	return m.at;
}

static bool take_config(struct mq_message *m, struct mq_plan *plan)
{
	const uint32_t *words = mq_message_take(m, CONFIG_WORDS * sizeof(*words));

	if (!words)
		return false;
	uint32_t index = mq_plan_add_config(plan, m->arena, 0); /* may move config[] */
	struct mq_config *c = &plan->config[index];
	c->n_devices = words[0];
	c->stage = words[1];
	c->sync = (uint8_t)words[2];
	c->recompute = (uint8_t)words[3];
	memcpy(c->split, words + 5, sizeof(c->split));
	c->device = mq_message_take(m, c->n_devices * sizeof(uint32_t));
	if (!c->device || !words[4])
		return c->device;
	c->share = mq_message_take(m, c->split[MQ_DIM_BATCH] * sizeof(double));
	return c->share;
}

enum mq_status mq_plan_unpack(const void *bytes, size_t size, struct mq_arena *arena, struct mq_plan *plan,
			      struct mq_err *err)
{
	struct mq_message m = { arena, (char *)(uintptr_t)bytes, 0, size };
	const struct head *head = mq_message_take(&m, sizeof(*head));
	const double *objective = head ? mq_message_take(&m, sizeof(*objective)) : NULL;
	uint32_t *config_of = objective ? mq_message_take(&m, head->word[WORD_OPS] * sizeof(uint32_t)) : NULL;
	bool whole = config_of;

	mq_plan_init(plan, arena, 0);
	if (whole) {
		plan->n_ops = head->word[WORD_OPS];
		plan->config_of = config_of;
		plan->micro_batches = head->word[WORD_MICRO_BATCHES];
		plan->virtual = head->word[WORD_VIRTUAL];
		plan->pipeline = (uint8_t)head->word[WORD_PIPELINE];
		plan->explicit = head->word[WORD_EXPLICIT] & MQ_EXPLICIT_ALL;
		plan->engine_objective = *objective;
	}
	for (int d = 0; d < MQ_N_DECISIONS && whole; d++) {
		double value = head->word[mq_decision(d)->word];

		if (mq_decision(d)->kind == MQ_DECIDES_F64)
			memcpy(&value, &head->word[mq_decision(d)->word], sizeof(value));
		mq_plan_set_value(plan, d, value);
	}
	for (uint32_t k = 0; whole && k < head->word[WORD_CONFIGS]; k++)
		whole = take_config(&m, plan);
	return whole ? MQ_OK : mq_bad(err, "packed plan is cut short at %zu of %zu bytes", m.n, size);
}

/* ---- shape and description ----------------------------------------------------------------------- */

static uint32_t count_devices(const struct mq_plan *plan)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t max = 0, n = 0;

	for (uint32_t i = 0; i < plan->n_configs; i++)
		for (uint32_t d = 0; d < plan->config[i].n_devices; d++)
			if (plan->config[i].device[d] >= max)
				max = plan->config[i].device[d] + 1;
	bool *seen = mq_arena_array(&scratch, max, bool);
	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		for (uint32_t d = 0; d < c->n_devices; d++) {
			n += !seen[c->device[d]];
			seen[c->device[d]] = true;
		}
	}
	return n;
}

/* Do some ops split the sequence further than attention, which splits more heads instead (Ulysses)? */
static bool exchanges_heads(const struct mq_plan *plan)
{
	uint32_t seq = 1, of_attention = UINT32_MAX;

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const uint32_t *split = plan->config[i].split;

		seq = split[MQ_DIM_SEQ] > seq ? split[MQ_DIM_SEQ] : seq;
		if (split[MQ_DIM_HEAD] > 1 && split[MQ_DIM_SEQ] < of_attention)
			of_attention = split[MQ_DIM_SEQ];
	}
	return of_attention < seq;
}

/* The degrees common to all used configs: batch = dp, the largest feature split = tp, the sequence split beyond tp =
 * cp; of experts, which may be laid out differently, ep and etp. Zero if stages differ. */
struct mq_degrees mq_plan_degrees(const struct mq_plan *plan)
{
	struct mq_degrees g = { 0 };
	uint32_t stages = 0, n = 0, dp = 0, tp = 1, cp = 1, ep = 1, etp = 1, heads = 1, seq = 1;
	bool regular = true;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];
		uint32_t t = c->split[MQ_DIM_OUT] * c->split[MQ_DIM_IN];
		uint32_t d = c->split[MQ_DIM_BATCH];

		heads = c->split[MQ_DIM_HEAD] > heads ? c->split[MQ_DIM_HEAD] : heads;
		seq = c->split[MQ_DIM_SEQ] > seq ? c->split[MQ_DIM_SEQ] : seq;

		if (c->stage + 1 > stages)
			stages = c->stage + 1;
		regular = regular && (!n || n == c->n_devices) && c->split[MQ_DIM_SPATIAL] == 1;
		n = c->n_devices;
		if (c->split[MQ_DIM_EXPERT] > 1) {
			ep = c->split[MQ_DIM_EXPERT] > ep ? c->split[MQ_DIM_EXPERT] : ep;
			etp = t > etp ? t : etp;
			continue;
		}
		regular = regular && (!dp || dp == d);
		dp = d;
		tp = t > tp ? t : tp;
	}
	g.n_devices = count_devices(plan);
	uint32_t ranks = plan->virtual ? stages / plan->virtual : stages;
	if (heads > tp && !exchanges_heads(plan))
		tp = heads; /* a plan without other splits */
	if (dp && n && n % (dp * tp) == 0)
		cp = n / (dp * tp);
	if (tp > 1 && heads == 1 && seq > 1) /* only an embedding splits features, other ops the sequence */
		return g;
	if (!regular || !dp || dp * tp * cp != n || n * ranks != g.n_devices)
		return g;
	g.dp = dp;
	g.tp = tp;
	g.pp = ranks;
	g.cp = cp;
	g.ep = ep;
	g.etp = ep > 1 ? etp : tp;
	g.ulysses = heads > tp ? heads / tp : 1;
	return g;
}

/* "5 stages of 4+4+4+2+2 devices", or "placement on 3 devices" for one stage. */
static const char *describe_uneven(const struct mq_plan *plan, uint32_t n_devices, struct mq_arena *arena)
{
	enum { MOST = 10 };
	uint32_t width[MOST] = { 0 }, stages = mq_plan_stage_count(plan);
	const char *list = "";

	for (uint32_t i = 0; i < plan->n_configs; i++) {
		const struct mq_config *c = &plan->config[i];

		if (c->stage < MOST && c->n_devices > width[c->stage])
			width[c->stage] = c->n_devices;
	}
	if (stages < 2)
		return mq_arena_printf(arena, "placement on %u devices", n_devices);
	if (stages > MOST)
		return mq_arena_printf(arena, "%u stages on %u devices", stages, n_devices);
	for (uint32_t s = 0; s < stages; s++)
		list = mq_arena_printf(arena, "%s%s%u", list, s ? "+" : "", width[s]);
	return mq_arena_printf(arena, "%u stages of %s devices", stages, list);
}

/* What the plan decides itself, under the names that its file has for it; what it does without is not said. */
static const char *describe_decisions(const struct mq_plan *plan, const char *text, struct mq_arena *arena)
{
	for (int d = 0; d < MQ_N_DECISIONS; d++) {
		const struct mq_decision *row = mq_decision(d);
		double value = mq_plan_value(plan, d);
		char word[32];

		if (mq_plan_leaves(plan, d) || !value ||
		    (row->matters & MQ_NEEDS_RECOMPUTE & ~mq_plan_properties(plan)))
			continue;
		if (row->shown)
			text = mq_arena_printf(arena, "%s, %s %g %s", text, row->shown, value, row->unit);
		else if (row->kind == MQ_DECIDES_BOOL)
			text = mq_arena_printf(arena, "%s, %s", text, row->name);
		else if (row->kind == MQ_DECIDES_F64)
			text = mq_arena_printf(arena, "%s, %s %g MB", text, row->setting, value / 1e6);
		else
			text = mq_arena_printf(arena, "%s, %s %s", text, row->name, mq_plan_value_text(plan, d, word));
	}
	return text;
}

const char *mq_plan_describe(const struct mq_plan *plan, const struct mq_cluster *cluster, struct mq_arena *arena)
{
	struct mq_degrees g = mq_plan_degrees(plan);
	const struct mq_config *c = plan->n_ops ? &plan->config[plan->config_of[0]] : NULL;
	const char *text;

	(void)cluster;
	if (!c)
		return "empty plan";
	if (g.dp == 1 && g.tp == 1 && g.pp == 1 && g.cp == 1)
		text = "one device";
	else if (g.dp)
		text = mq_arena_printf(arena, "dp %u tp %u pp %u", g.dp, g.tp, g.pp);
	else
		text = describe_uneven(plan, g.n_devices, arena);
	if (g.cp > 1)
		text = mq_arena_printf(arena, "%s cp %u", text, g.cp);
	if (g.ulysses > 1)
		text = mq_arena_printf(arena, "%s ulysses %u", text, g.ulysses);
	if (g.ep > 1)
		text = mq_arena_printf(arena, "%s ep %u", text, g.ep);
	if (g.etp != g.tp)
		text = mq_arena_printf(arena, "%s etp %u", text, g.etp);
	bool even = true;
	for (uint32_t i = 0; i < plan->n_configs; i++)
		even = even && !plan->config[i].share;
	text = mq_arena_printf(arena, "%s, %u micro-batches, %s", text, plan->micro_batches,
			       mq_pipeline_name(plan->pipeline));
	if (plan->virtual > 1)
		text = mq_arena_printf(arena, "%s x%u", text, plan->virtual);
	if (c->sync != MQ_SYNC_ALLREDUCE)
		text = mq_arena_printf(arena, "%s, %s", text, mq_sync_name(c->sync));
	if (c->recompute != MQ_RECOMPUTE_NONE)
		text = mq_arena_printf(arena, "%s, recompute %s", text, mq_recompute_name(c->recompute));
	text = describe_decisions(plan, text, arena);
	return even ? text : mq_arena_printf(arena, "%s, uneven batch", text);
}
