/* common_study.c - job files of studies: keys, axes, points. See common_study.h. */
#include "cmd/common_study.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/csv.h"
#include "core/rng.h"
#include "executors/platform_generate.h"

/* ---- values --------------------------------------------------------------------------------------------- */

static char *trimmed(struct mq_arena *arena, const char *text, size_t n)
{
	while (n && isspace((unsigned char)*text)) {
		text++;
		n--;
	}
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	return mq_arena_printf(arena, "%.*s", (int)n, text);
}

static bool names_models(const char *key)
{
	return !strcmp(key, "model");
}

/* Length of the first item of a list; *next is what follows its separator, or NULL. */
static size_t item_length(const char *key, const char *list, const char **next)
{
	for (const char *c = list; *c; c++)
		if (*c == ';' || (*c == ',' && (!names_models(key) || isspace((unsigned char)c[1])))) {
			*next = c + 1;
			return (size_t)(c - list);
		}
	*next = NULL;
	return strlen(list);
}

/* "a..b", "a..b+step", "a..b*factor": true if the item is a range. */
static bool read_range(const char *item, double *from, double *to, double *step, bool *multiply)
{
	char text[128], *dots, *op;

	if (strlen(item) >= sizeof(text))
		return false;
	strcpy(text, item);
	dots = strstr(text, "..");
	if (!dots)
		return false;
	*dots = '\0';
	char *rest = dots + 2;
	*step = 1;
	*multiply = false;
	op = strpbrk(rest, "*+");
	if (op) {
		*multiply = *op == '*';
		*op = '\0';
		if (!mq_parse_f64(op + 1, step))
			return false;
	}
	return mq_parse_f64(text, from) && mq_parse_f64(rest, to);
}

struct reading {
	struct mq_study *study;
	struct mq_err *err;
	const char *path;
	uint32_t line;
	bool failed;
};

static bool add_value(struct mq_axis *axis, uint32_t *room, struct reading *r, const char *value)
{
	if (axis->n == MQ_MAX_AXIS) {
		mq_fail(r->err, MQ_EINPUT, "%s: %s has more than %d values", r->path, axis->key,
			MQ_MAX_AXIS);
		return false;
	}
	MQ_PUSH(r->study->arena, axis->value, axis->n, *room, value);
	return true;
}

static bool add_range(struct mq_axis *axis, uint32_t *room, struct reading *r, const char *item)
{
	double from, to, step;
	bool multiply;

	if (!read_range(item, &from, &to, &step, &multiply))
		return add_value(axis, room, r, item);
	if (multiply ? !(step > 1 && from > 0) : !(step > 0)) {
		mq_fail(r->err, MQ_EINPUT, "%s: %s = %s never ends; write from..to+step or from..to*factor",
			r->path, axis->key, item);
		return false;
	}
	/* By counting, so that rounding errors do not add up. */
	for (int i = 0;; i++) {
		double v = multiply ? from * pow(step, i) : from + i * step;

		if (v > to * (1 + 1e-12) + 1e-300)
			return true;
		if (!add_value(axis, room, r, mq_arena_printf(r->study->arena, "%.12g", v)))
			return false;
	}
}

/* The study's own keys: true if `key` is one. */
static bool own_key(struct reading *r, const char *key, const char *value)
{
	struct mq_study *s = r->study;

	if (!strcmp(key, "scaling")) {
		s->weak = !strcmp(value, "weak");
		if (!s->weak && strcmp(value, "strong"))
			r->failed = mq_fail(r->err, MQ_EINPUT, "%s: scaling = %s: give strong or weak",
					    r->path, value) != MQ_OK;
		if (!(s->efficiency > 0))
			s->efficiency = 0.8;
		return true;
	}
	double *field = !strcmp(key, "efficiency")  ? &s->efficiency :
			!strcmp(key, "sensitivity") ? &s->sensitivity :
						      NULL;
	if (!field)
		return false;
	if (!mq_parse_f64(value, field) || *field <= 0 || *field >= 1)
		r->failed = mq_fail(r->err, MQ_EINPUT, "%s: %s = %s: give a share between 0 and 1",
				    r->path, key, value) != MQ_OK;
	return true;
}

static int take(void *user, const char *section, const char *name, const char *value)
{
	struct reading *r = user;
	struct mq_study *s = r->study;
	struct mq_axis axis = { .key = mq_arena_strdup(s->arena, name) };
	uint32_t room = 0;

	if (!strcmp(section, "about") || !strcmp(name, "command"))
		return 1;
	if (*section) {
		mq_fail(r->err, MQ_EINPUT, "%s: section [%s] means nothing here; only [about] may follow",
			r->path, section);
		r->failed = true;
		return 0;
	}
	if (own_key(r, name, value))
		return !r->failed;
	if (!strcmp(name, "engine") || !strcmp(name, "output")) {
		add_value(&axis, &room, r, mq_arena_strdup(s->arena, value));
	} else {
		for (const char *rest = value, *next; rest; rest = next) {
			size_t n = item_length(name, rest, &next);
			char *item = trimmed(s->arena, rest, n);

			if (!*item) {
				mq_fail(r->err, MQ_EINPUT, "%s: %s = %s has an empty value", r->path,
					name, value);
				r->failed = true;
				return 0;
			}
			if (!add_range(&axis, &room, r, item)) {
				r->failed = true;
				return 0;
			}
		}
	}
	MQ_PUSH(s->arena, s->axis, s->n_axes, s->axis_room, axis);
	return 1;
}

enum mq_status mq_study_load(const char *path, struct mq_arena *arena, struct mq_study *study,
			     struct mq_err *err)
{
	struct reading r = { .study = study, .err = err, .path = path };
	FILE *file = fopen(path, "r");

	*study = (struct mq_study){ .arena = arena, .path = path };
	if (!file)
		return mq_fail(err, MQ_EINPUT, "%s: cannot open the study: %s", path, strerror(errno));
	int line = ini_parse_file(file, take, &r);
	fclose(file);
	if (r.failed)
		return MQ_EINPUT;
	if (line)
		return mq_fail(err, MQ_EINPUT,
			       "%s:%d: not `key = value`, or a line of more than 198 characters", path,
			       line);
	double points = 1;
	for (uint32_t i = 0; i < study->n_axes; i++)
		points *= study->axis[i].n;
	if (points > MQ_MAX_POINTS)
		return mq_fail(err, MQ_EINPUT, "%s: %.3g points; a study has at most %d", path, points,
			       MQ_MAX_POINTS);
	study->n_points = (uint32_t)points;
	return MQ_OK;
}

/* ---- points ----------------------------------------------------------------------------------------------- */

static bool is_change(const char *key)
{
	static const char *const heads[] = { "link.",   "linkname.", "device.", "rank.",
					     "spread.", "calib.",    "linkcalib." };

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
		if (!strncmp(key, heads[i], strlen(heads[i])))
			return true;
	return false;
}

static char *without_blanks(struct mq_arena *arena, const char *text)
{
	char *copy = mq_arena_strdup(arena, text), *to = copy;

	for (; *text; text++)
		if (!isspace((unsigned char)*text))
			*to++ = *text;
	*to = '\0';
	return copy;
}

/* Writes the platform of platform.* keys once; its name is the hash of what it says. */
static enum mq_status make_platform(const struct mq_platform_spec *spec, const char *options,
				    const char *dir, struct mq_arena *arena, const char **path,
				    struct mq_err *err)
{
	uint64_t hash = mq_hash(MQ_HASH_INIT, options, strlen(options));
	char *half;

	*path = mq_arena_printf(arena, "%s/%016llx.xml", dir, (unsigned long long)hash);
	if (!access(*path, R_OK))
		return MQ_OK;
	half = mq_arena_printf(arena, "%s.%ld", *path, (long)getpid());
	MQ_TRY(mq_platform_generate(spec, half, err));
	if (rename(half, *path))
		return mq_fail(err, MQ_EINPUT, "%s: cannot write: %s", *path, strerror(errno));
	return MQ_OK;
}

struct argv {
	char **arg;
	uint32_t n, room;
};

static void push(struct mq_arena *arena, struct argv *v, char *arg)
{
	MQ_PUSH(arena, v->arg, v->n, v->room, arg);
}

static error_t parse_both(int key, char *arg, struct argp_state *state)
{
	struct mq_point *p = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &p->question;
	state->child_inputs[1] = &p->search;
	return 0;
}

static enum mq_status parse_point(struct mq_point *p, struct argv *v, struct mq_err *err)
{
	static const struct argp_child children[] = { { &mq_question_argp, 0, NULL, 0 },
						      { &mq_search_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = { .parser = parse_both, .children = children };

	mq_question_init(&p->question, err);
	mq_search_options_init(&p->search, err);
	MQ_TRY(mq_args_parse(&argp, (int)v->n - 1, v->arg, p, err));
	/* Points run side by side, so each judges alone; plans to print are not needed. */
	p->question.jobs = 1;
	p->search.top = 1;
	return MQ_OK;
}

enum mq_status mq_study_point(const struct mq_study *study, uint32_t index, const char *platform_dir,
			      struct mq_arena *arena, struct mq_point *point, struct mq_err *err)
{
	struct mq_platform_spec spec;
	struct argv v = { 0 };
	const char *platform = "";
	uint32_t rest = index;

	*point = (struct mq_point){ .index = index };
	point->value = mq_arena_array(arena, study->n_axes, const char *);
	for (uint32_t i = study->n_axes; i-- > 0;) {
		point->value[i] = study->axis[i].value[rest % study->axis[i].n];
		rest /= study->axis[i].n;
	}
	mq_platform_spec_init(&spec);
	push(arena, &v, mq_arena_strdup(arena, "whatif"));
	for (uint32_t i = 0; i < study->n_axes; i++) {
		const char *key = study->axis[i].key, *value = point->value[i];

		if (!strncmp(key, "platform.", 9)) {
			MQ_TRY(mq_opt_set(mq_platform_opts, &spec, "platform", key + 9, value, arena,
					  err));
			platform = mq_arena_printf(arena, "%s%s=%s\n", platform, key, value);
		} else if (is_change(key)) {
			push(arena, &v, mq_arena_printf(arena, "--change=%s=%s", key, value));
		} else {
			if (!strcmp(key, "engine"))
				value = without_blanks(arena, value);
			push(arena, &v, mq_arena_printf(arena, "--%s=%s", key, value));
		}
	}
	point->hash = MQ_HASH_INIT;
	for (uint32_t i = 0; i < v.n; i++)
		point->hash = mq_hash(point->hash, v.arg[i], strlen(v.arg[i]) + 1);
	point->hash = mq_hash(point->hash, platform, strlen(platform) + 1);
	if (*platform) {
		const char *path;

		MQ_TRY(make_platform(&spec, platform, platform_dir, arena, &path, err));
		push(arena, &v, mq_arena_printf(arena, "--platform=%s", path));
	}
	push(arena, &v, NULL);
	return parse_point(point, &v, err);
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static const char columns[] =
	"verdict,step_time_s,samples_per_s,mfu,peak_memory_B,devices,usd_per_step,kWh_per_step,"
	"compute_s,exposed_comm_s,bubble_s,lower_bound_s,bottleneck,engine,plans,plan_hash,dp,tp,pp,"
	"micro_batches,schedule,recompute,plan";

static bool varies(const struct mq_axis *axis)
{
	return axis->n > 1;
}

const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena)
{
	const char *text = "point";

	for (uint32_t i = 0; i < study->n_axes; i++)
		if (varies(&study->axis[i]))
			text = mq_arena_printf(arena, "%s,%s", text, study->axis[i].key);
	return mq_arena_printf(arena, "%s,%s", text, columns);
}

/* Sums a price or a power over the distinct devices of a plan. */
static double sum_devices(const struct mq_cluster *cluster, const struct mq_plan *plan, bool price)
{
	struct mq_arena scratch = MQ_ARENA_INIT;
	bool *seen = mq_arena_array(&scratch, cluster->n_devices, bool);
	double sum = 0;

	for (uint32_t op = 0; op < plan->n_ops; op++) {
		const struct mq_config *c = &plan->config[plan->config_of[op]];

		for (uint32_t i = 0; i < c->n_devices; i++) {
			const struct mq_device *d = &cluster->device[c->device[i]];

			if (seen[c->device[i]])
				continue;
			seen[c->device[i]] = true;
			sum += price ? d->price_per_h : d->power_W;
		}
	}
	mq_arena_fini(&scratch);
	return sum;
}

double mq_step_price(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s)
{
	return sum_devices(cluster, plan, true) * step_time_s / 3600;
}

double mq_step_energy_kWh(const struct mq_cluster *cluster, const struct mq_plan *plan,
			  double step_time_s)
{
	return sum_devices(cluster, plan, false) * step_time_s / 3.6e6;
}

static void put_head(struct mq_csv_writer *w, const struct mq_study *study,
		     const struct mq_point *point)
{
	mq_csv_put_u64(w, point->index);
	for (uint32_t i = 0; i < study->n_axes; i++)
		if (varies(&study->axis[i]))
			mq_csv_put_text(w, point->value[i]);
}

/* A point without a plan: the verdict says why, the last column in words. */
static void put_nothing(struct mq_csv_writer *w, const char *verdict, const char *why)
{
	mq_csv_put_text(w, verdict);
	for (const char *c = columns; (c = strchr(c, ',')) && strcmp(c, ",plan"); c++)
		mq_csv_put_empty(w);
	mq_csv_put_text(w, why);
}

static void put_degree(struct mq_csv_writer *w, uint32_t degree)
{
	if (degree)
		mq_csv_put_u64(w, degree);
	else
		mq_csv_put_empty(w);
}

static void put_best(struct mq_csv_writer *w, const struct mq_session *s,
		     const struct mq_search_outcome *outcome, struct mq_arena *arena)
{
	const struct mq_candidate *best = &outcome->best[0];
	const struct mq_result *r = &best->result;
	struct mq_degrees g = mq_plan_degrees(best->plan);
	const struct mq_config *c = &best->plan->config[best->plan->config_of[0]];

	mq_csv_put_text(w, mq_verdict_name(r->verdict));
	mq_csv_put_f64(w, r->step_time_s);
	mq_csv_put_f64(w, r->samples_per_s);
	mq_csv_put_f64(w, r->mfu);
	mq_csv_put_f64(w, r->peak_memory_B);
	mq_csv_put_u64(w, g.n_devices);
	mq_csv_put_f64(w, mq_step_price(s->cluster, best->plan, r->step_time_s));
	mq_csv_put_f64(w, mq_step_energy_kWh(s->cluster, best->plan, r->step_time_s));
	mq_csv_put_f64(w, r->compute_s);
	mq_csv_put_f64(w, r->exposed_comm_s);
	mq_csv_put_f64(w, r->bubble_s);
	mq_csv_put_f64(w, r->lower_bound_s);
	mq_csv_put_text(w, r->bottleneck);
	mq_csv_put_text(w, best->engine);
	mq_csv_put_u64(w, outcome->proposals);
	mq_csv_put_text(w, mq_arena_printf(arena, "%016llx", (unsigned long long)best->hash));
	put_degree(w, g.dp);
	put_degree(w, g.tp);
	put_degree(w, g.pp);
	mq_csv_put_u64(w, best->plan->micro_batches);
	mq_csv_put_text(w, mq_pipeline_name(best->plan->pipeline));
	mq_csv_put_text(w, mq_recompute_name(c->recompute));
	mq_csv_put_text(w, mq_plan_describe(best->plan, s->cluster, arena));
}

static enum mq_status search_point(const struct mq_point *point, struct mq_session *session,
				   struct mq_search_outcome *outcome, struct mq_err *err)
{
	MQ_TRY(mq_session_open(session, &point->question, err));
	return mq_search_session(session, &point->search, NULL, outcome, err);
}

enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point,
			    struct mq_arena *arena, const char **row, struct mq_err *err)
{
	struct mq_session session = { 0 };
	struct mq_search_outcome outcome;
	char *text;
	size_t size;
	struct mq_csv_writer w = { .file = open_memstream(&text, &size), .path = "row" };

	mq_assert(w.file);
	put_head(&w, study, point);
	enum mq_status status = search_point(point, &session, &outcome, err);
	if (status != MQ_OK)
		put_nothing(&w, "refused", err->text);
	else if (!outcome.n_best)
		put_nothing(&w, outcome.have_nearest ?
					mq_verdict_name(outcome.nearest.result.verdict) :
					"none",
			    outcome.have_nearest ? outcome.nearest.result.message :
						   "no feasible plan");
	else
		put_best(&w, &session, &outcome, arena);
	mq_session_close(&session);
	if (fclose(w.file))
		return mq_fail(err, MQ_EBUG, "out of memory for a row");
	*row = mq_arena_strdup(arena, text);
	free(text);
	return MQ_OK;
}
