/* support.c - `maquette support`: which parts of a question are covered, and by what, without simulating.
 *
 * Six parts: model, precision, device types, links, training software, measured runs. Each line says whether its part
 * is covered, assumed or not covered. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <string.h>

#include "session/pages/page.h"
#include "session/trust.h"

struct options {
	struct mq_asked asked;
	bool json;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg options[] = {
	ROW(FLAG, "json", json, NULL, "print the parts as JSON", .flags = MQ_ARG_QUIET),
	{ .type = MQ_ARG_END },
};

enum known { COVERED, ASSUMED, MISSING };
static const char *const known_names[] = { "covered", "assumed", "not covered" };

/* The report of one part. */
struct said {
	const char *part, *text;
	enum known known;
};
struct sheet {
	struct mq_session *s;
	struct said *line;
	uint32_t n, room;
};

static void say(struct sheet *to, const char *part, enum known known, const char *text)
{
	struct said line = { part, text, known };

	MQ_PUSH(&to->s->arena, to->line, to->n, to->room, line);
}

/* ---- the parts -------------------------------------------------------------------------------------------- */

static void say_model(struct sheet *to)
{
	const struct mq_model *m = to->s->model;
	struct mq_arena *arena = &to->s->arena;
	uint32_t count[MQ_N_OP_KINDS] = { 0 };
	const char *ops = "";
	double parameters = mq_model_totals(m).parameters;

	for (uint32_t i = 0; i < m->n_ops; i++)
		count[m->op[i].kind]++;
	for (int k = 0; k < MQ_N_OP_KINDS; k++)
		if (count[k])
			ops = mq_arena_printf(arena, "%s%s%u %s", ops, *ops ? ", " : "", count[k],
					      mq_op_kind_name((enum mq_op_kind)k));
	say(to, "model", COVERED,
	    mq_arena_printf(arena, "%s: %.4g million parameters, %s", m->name, parameters / 1e6, ops));
	if (m->note)
		say(to, "model", ASSUMED, m->note);
	if (count[MQ_OP_PROFILED])
		say(to, "model", ASSUMED,
		    "its ops have measured times of their own: calibrations and software count for nothing");
}

static void say_devices(struct sheet *to)
{
	const struct mq_cluster *c = to->s->cluster;
	struct mq_arena *arena = &to->s->arena;
	enum mq_dtype dtype = mq_train_gemm_dtype(&to->s->train);

	for (uint32_t i = 0; i < c->n_devices; i++) {
		const struct mq_device_calib *d;

		if (!mq_first_of_type(c, i, NULL) || c->device[i].calib == MQ_NONE)
			continue;
		d = &to->s->calib->device[c->device[i].calib];
		say(to, "device", d->assumed ? ASSUMED : COVERED,
		    mq_arena_printf(arena, "%s: %s", d->name,
				    d->assumed ? d->assumed :
						 mq_arena_printf(arena, "calibrated (%s)",
								 d->source ? d->source : "no source given")));
		if (!mq_cost_multiplies(d, &to->s->train))
			say(to, "precision", MISSING,
			    mq_arena_printf(arena, "%s has no speed of %s", d->name,
					    mq_train_gemm_name(&to->s->train)));
		else
			say(to, "precision", COVERED,
			    mq_arena_printf(arena, "%s: %s, %.4g Tflop/s at most", d->name,
					    mq_train_gemm_name(&to->s->train), d->peak_flops[dtype] / 1e12));
	}
}

/* A link's class in calibrations: that of its network, if any. */
static const char *class_of(const struct mq_link *l)
{
	return l->fabric != MQ_FABRIC_NONE ? mq_fabric_name(l->fabric) : mq_link_class_name(l->class);
}

static void say_links(struct sheet *to)
{
	const struct mq_cluster *c = to->s->cluster;
	struct mq_arena *arena = &to->s->arena;

	for (uint32_t i = 0; i < c->n_links; i++) {
		const char *class = class_of(&c->link[i]);
		const char *name = !strcmp(class, "nvswitch") || !strcmp(class, "xgmi") ? "nvlink" : class;
		const struct mq_link_calib *l = mq_session_link(to->s, name);
		bool again = false;

		for (uint32_t k = 0; k < i && !again; k++)
			again = !strcmp(class_of(&c->link[k]), class);
		if (again)
			continue;
		if (l)
			say(to, "links", COVERED,
			    mq_arena_printf(arena, "%s%s%s: calibrated (%s)", class,
					    strcmp(class, l->name) ? " as " : "", strcmp(class, l->name) ? l->name : "",
					    l->source ? l->source : "no source given"));
		else
			say(to, "links", ASSUMED,
			    mq_arena_printf(arena, "%s: nominal bandwidth and latency, no timings of this class",
					    class));
	}
}

static void say_software(struct sheet *to)
{
	const struct mq_software_record *r = &to->s->software;
	struct mq_arena *arena = &to->s->arena;
	uint32_t count[MQ_N_EVIDENCE] = { 0 };
	const char *text = "", *schedules = "";

	if (!to->s->asked->software) {
		say(to, "software", ASSUMED,
		    "none was named: least traffic, no host time; --software NAME, see `maquette list software`");
		return;
	}
	for (uint32_t f = 0; mq_software_fields()[f].opt.type != MQ_OPT_END; f++)
		count[r->note[f].evidence]++;
	for (int e = MQ_N_EVIDENCE - 1; e >= 0; e--)
		text = mq_arena_printf(arena, "%s%s%u %s", text, *text ? ", " : "", count[e],
				       mq_evidence_name((enum mq_evidence)e));
	for (int p = 0; p < MQ_N_PIPELINES; p++)
		if (r->software.runs.schedules & 1u << p)
			schedules = mq_arena_printf(arena, "%s %s", schedules, mq_pipeline_name((enum mq_pipeline)p));
	say(to, "software", COVERED,
	    mq_arena_printf(arena, "%s%s%s: of its values %s (`maquette list software %s`)", r->software.file,
			    r->inherits ? ", a kind of " : "", r->inherits ? r->inherits : "", text, r->software.file));
	say(to, "software", COVERED,
	    mq_arena_printf(arena, "pipeline schedules that it runs:%s", *schedules ? schedules : " none"));
	if (to->s->train.dtype < MQ_N_DTYPES && !(r->software.runs.dtypes & 1u << to->s->train.dtype))
		say(to, "software", MISSING,
		    mq_arena_printf(arena, "it does not train in %s", mq_dtype_name(to->s->train.dtype)));
}

/* Number of runs in the index with this word, or with all of these. */
static uint32_t runs_with(const struct mq_trust *t, const struct mq_trust_place *p, uint32_t words)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		bool all = true;

		for (int w = 0; w < MQ_N_TRUST_WORDS; w++)
			all &= !(words & 1u << w) || mq_trust_same(&t->row[i].place, p, w);
		n += all;
	}
	return n;
}

static void say_runs(struct sheet *to)
{
	static const struct {
		uint32_t words;
		const char *what;
	} rows[] = {
		{ 1u << MQ_TRUST_device, "on this device type" },
		{ 1u << MQ_TRUST_software, "of this software or its kin" },
		{ 1u << MQ_TRUST_kind, "of this kind of model" },
		{ 1u << MQ_TRUST_precision, "of this precision" },
		{ 1u << MQ_TRUST_family | 1u << MQ_TRUST_kind, "of this kind on this generation" },
		{ 1u << MQ_TRUST_family | 1u << MQ_TRUST_kind | 1u << MQ_TRUST_software,
		  "of all three: generation, kind, software" },
	};
	struct mq_arena *arena = &to->s->arena;
	struct mq_trust_answer answer;
	struct mq_trust_point point = mq_session_point(to->s, arena);
	struct mq_trust_place place;

	if (!to->s->trust) {
		say(to, "runs", MISSING, "no index of errors (results/accuracy/trust.csv)");
		return;
	}
	mq_trust_place_of(to->s->trust, &point, &place);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint32_t n = runs_with(to->s->trust, &place, rows[i].words);

		say(to, "runs", n ? COVERED : MISSING, mq_arena_printf(arena, "%u published runs %s", n, rows[i].what));
	}
	mq_trust_ask(to->s->trust, &point, NULL, arena, &answer);
	if (*answer.beyond)
		say(to, "runs", MISSING, mq_arena_printf(arena, "beyond what was measured: %s", answer.beyond));
}

/* ---- output ------------------------------------------------------------------------------------------------ */

static void print(const struct sheet *sheet, bool json)
{
	for (uint32_t i = 0; i < sheet->n; i++) {
		const struct said *l = &sheet->line[i];

		if (!json) {
			printf("%-10s %-13s %s\n", i && !strcmp(l->part, l[-1].part) ? "" : l->part,
			       known_names[l->known], l->text);
			continue;
		}
		mq_json_put_after(stdout, i ? ",\n {\"part\": " : "[\n {\"part\": ", l->part);
		mq_json_add_text(stdout, "known", known_names[l->known]);
		mq_json_add_text(stdout, "text", l->text);
		putchar('}');
	}
	if (json)
		puts("\n]");
}

static void look(struct mq_session *session, bool json)
{
	struct sheet sheet = { .s = session };

	say_model(&sheet);
	say_devices(&sheet);
	say_links(&sheet);
	say_software(&sheet);
	const char *left = mq_session_left_out(session, &session->arena);
	if (*left)
		say(&sheet, "answers", MISSING, left);
	say_runs(&sheet);
	print(&sheet, json);
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct options o = { .json = false };
	MQ_CLOSED struct mq_session session = { .model = NULL };
	const struct mq_args args = {
		.table = { { mq_question_args, &o.asked }, { options, &o } },
		.doc = "Reports which parts of a question are covered, by which values and measured runs, and what is "
		       "not modelled, without simulating.",
	};

	mq_asked_init(&o.asked);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!o.asked.batch_given) { /* the report does not depend on it */
		o.asked.train.batch = 1;
		o.asked.batch_given = true;
	}
	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err));
	look(&session, o.json);
	return MQ_OK;
}

MQ_DEFINE_COMMAND(support, "which parts of a question are covered, and by what, without simulating");
