/* study.c - job files of studies: keys, axes, points. See study.h. SPDX-License-Identifier: Apache-2.0 */
#include "study/study.h"
#include "trust/trust.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/ini.h"
#include "base/quantity.h"
#include "base/text.h"
#include "hardware/platform/generate.h"

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

/* Splits "job.NAME.KEY": returns KEY and sets *name and *length; any other key is returned whole with *length 0. */
static const char *job_key(const char *key, const char **name, size_t *length)
{
	const char *dot = strncmp(key, "job.", 4) ? NULL : strchr(key + 4, '.');

	*name = key + 4;
	*length = dot ? (size_t)(dot - key - 4) : 0;
	return *length ? dot + 1 : key;
}

/* The option of the question or the search that the key names; NULL: none. */
static const struct mq_arg *option_of(const char *key)
{
	const struct mq_arg *row = mq_arg_find(mq_question_args, key);

	return row ? row : mq_arg_find(mq_search_args, key);
}

/* Has the key's option one of these flags? */
static bool has_flag(const char *key, uint32_t flags)
{
	const char *name;
	size_t length;
	const struct mq_arg *row = option_of(job_key(key, &name, &length));

	return row && row->flags & flags;
}

/* "NAME, NAME,key=value;key=value": does the text after a separator belong to the software before it? */
static bool is_option_of_software(const char *full, const char *rest)
{
	const char *name, *key;
	size_t length;

	key = job_key(full, &name, &length);
	return !strcmp(key, "software") && memchr(rest, '=', strcspn(rest, ",;"));
}

/* Length of the first item of a list; *next: the text after its separator, or NULL. */
static size_t item_length(const char *key, const char *list, const char **next)
{
	for (const char *c = list; *c; c++)
		if ((*c == ';' || (*c == ',' && (!has_flag(key, MQ_ARG_COMMAS) || isspace((unsigned char)c[1])))) &&
		    !is_option_of_software(key, c + 1)) {
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
	bool allow_exec;
};

/* Adds every shipped software as a value. */
static enum mq_status each_software(struct reading *r, struct mq_axis *axis)
{
	const struct mq_shipped *shipped = r->study->shipped;

	MQ_TRY(mq_listed_software(r->study->shipped, r->err));
	axis->n = shipped->n_software;
	axis->value = mq_arena_array(r->study->arena, axis->n + 1, const char *);
	for (uint32_t i = 0; i < axis->n; i++)
		axis->value[i] = shipped->software[i].software.file;
	return MQ_OK;
}

static enum mq_status add_value(struct mq_axis *axis, uint32_t *room, struct reading *r, const char *value)
{
	if (axis->n == MQ_MAX_AXIS)
		return mq_bad(r->err, "%s: %s has more than %d values", r->path, axis->key, MQ_MAX_AXIS);
	MQ_PUSH(r->study->arena, axis->value, axis->n, *room, value);
	return MQ_OK;
}

static enum mq_status add_range(struct mq_axis *axis, uint32_t *room, struct reading *r, const char *item)
{
	double from, to, step;
	bool multiply;

	if (!read_range(item, &from, &to, &step, &multiply))
		return add_value(axis, room, r, item);
	if (multiply ? !(step > 1 && from > 0) : !(step > 0))
		return mq_bad(r->err, "%s: %s = %s never ends; write from..to+step or from..to*factor", r->path,
			      axis->key, item);
	if (from > to)
		return mq_bad(r->err, "%s: %s = %s has no value; write the lesser number first", r->path, axis->key,
			      item);
	/* Computed from i, so that rounding errors do not add up. */
	for (int i = 0;; i++) {
		double v = multiply ? from * pow(step, i) : from + i * step;

		if (v > to * (1 + 1e-12) + 1e-300)
			return MQ_OK;
		MQ_TRY(add_value(axis, room, r, mq_arena_printf(r->study->arena, "%.12g", v)));
	}
}

/* Reads a key of the study's own; *own = false: the key is not one. */
static enum mq_status own_key(struct reading *r, const char *key, const char *value, bool *own)
{
	struct mq_study *s = r->study;
	const struct {
		const char *key;
		const char **text;
	} texts[] = { { "together", &s->together },
		      { "breakeven.target", &s->breakeven_target },
		      { "breakeven.plan_a", &s->breakeven_plan[0] },
		      { "breakeven.plan_b", &s->breakeven_plan[1] } };
	const struct {
		const char *key;
		double *to, below;
		const char *remedy;
	} numbers[] = { { "epoch.days", &s->epoch_days, INFINITY, "a number above 0" },
			{ "epoch.usd", &s->epoch_usd, INFINITY, "a number above 0" },
			{ "efficiency", &s->efficiency, 1, "a share between 0 and 1" },
			{ "sensitivity", &s->sensitivity, 1, "a share between 0 and 1" } };
	uint64_t n = 0;

	*own = true;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(key, texts[i].key)) {
			*texts[i].text = mq_arena_strdup(s->arena, value);
			return MQ_OK;
		}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(key, numbers[i].key))
			return mq_parse_f64(value, numbers[i].to) && *numbers[i].to > 0 &&
					       *numbers[i].to < numbers[i].below ?
				       MQ_OK :
				       mq_bad(r->err, "%s: %s = %s: give %s", r->path, key, value, numbers[i].remedy);
	if (!strcmp(key, "scaling")) {
		s->weak = !strcmp(value, "weak");
		if (!(s->efficiency > 0))
			s->efficiency = 0.8;
		if (!s->weak && strcmp(value, "strong"))
			return mq_bad(r->err, "%s: scaling = %s: give strong or weak", r->path, value);
	} else if (!strcmp(key, "job.steps")) {
		if (!mq_parse_u64(value, &n) || n < 1 || n > 10000)
			return mq_bad(r->err, "%s: job.steps = %s: give a whole number from 1 to 10000", r->path,
				      value);
		s->job_steps = (uint32_t)n;
	} else if (!strcmp(key, "epoch")) {
		const char *number = mq_arena_printf(s->arena, "%.*s", (int)strcspn(value, " "), value);

		s->epoch_tokens = !strcmp(value + strlen(number), " tokens");
		if ((value[strlen(number)] && !s->epoch_tokens) || !mq_parse_f64(number, &s->epoch) || !(s->epoch > 0))
			return mq_bad(r->err, "%s: epoch = %s: give its samples, or its tokens as `15e12 tokens`",
				      r->path, value);
	} else {
		*own = false;
	}
	return MQ_OK;
}

static enum mq_status refuse_job_key(const struct reading *r, const char *full, const char *key)
{
	const struct mq_arg *const table[] = { mq_question_args, mq_search_args };
	const char *names = "";

	for (int t = 0; t < 2; t++)
		for (const struct mq_arg *row = table[t]; row->type != MQ_ARG_END; row++) {
			if (row->was && !strcmp(row->was, key))
				return mq_bad(r->err, "%s: %s: %s is now %s", r->path, full, key, row->name);
			if (row->flags & MQ_ARG_JOB_KEY)
				names = mq_arena_printf(r->study->arena, "%s%s ", names, row->name);
		}
	return mq_bad(
		r->err,
		"%s: %s is no key of a job; write job.NAME.KEY with KEY one of %splan begin; the rest is the same "
		"for all jobs",
		r->path, full, names);
}

/* Adds the job that a key names; refuses keys that a job cannot have. */
static enum mq_status take_job(struct reading *r, const char *full)
{
	struct mq_study *s = r->study;
	const char *name, *key;
	size_t length;

	if (strncmp(full, "job.", 4))
		return MQ_OK;
	key = job_key(full, &name, &length);
	if (!length || (strcmp(key, "plan") && strcmp(key, "begin") && !has_flag(key, MQ_ARG_JOB_KEY)))
		return refuse_job_key(r, full, key);
	const char *job = mq_arena_printf(s->arena, "%.*s", (int)length, name);
	for (uint32_t i = 0; i < s->n_jobs; i++)
		if (!strcmp(s->job[i], job))
			return MQ_OK;
	MQ_PUSH(s->arena, s->job, s->n_jobs, s->job_room, job);
	return MQ_OK;
}

static bool is_failures(const char *key)
{
	return !strncmp(key, "failures.", 9);
}

static bool is_jitter(const char *key)
{
	return !strncmp(key, "jitter.", 7);
}

/* Adds the values of a key: one, or a list with ranges. */
static enum mq_status add_values(struct reading *r, struct mq_axis *axis, const char *value)
{
	uint32_t room = 0;

	if (!strcmp(axis->key, "software") && !strcmp(value, "each"))
		return each_software(r, axis);
	if (has_flag(axis->key, MQ_ARG_ONE_VALUE))
		return add_value(axis, &room, r, mq_arena_strdup(r->study->arena, value));
	for (const char *rest = value, *next; rest; rest = next) {
		size_t n = item_length(axis->key, rest, &next);
		char *item = trimmed(r->study->arena, rest, n);

		if (!*item)
			return mq_bad(r->err, "%s: %s = %.200s has an empty value", r->path, axis->key, value);
		MQ_TRY(add_range(axis, &room, r, item));
	}
	return MQ_OK;
}

static enum mq_status take(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct reading *r = context;
	struct mq_study *s = r->study;
	struct mq_axis axis = { .key = item->key };
	bool own;

	if (!strcmp(item->section, "about") || !strcmp(item->key, "command"))
		return MQ_OK;
	if (*item->section)
		return mq_bad(err, "%s: section [%s] means nothing here; only [about] may follow", r->path,
			      item->section);
	MQ_TRY(mq_job_allows(item, r->allow_exec, err));
	MQ_TRY(own_key(r, item->key, item->value, &own));
	if (own)
		return MQ_OK;
	MQ_TRY(take_job(r, item->key));
	for (uint32_t i = 0; i < s->n_axes; i++)
		if (!strcmp(s->axis[i].key, item->key))
			return mq_bad(err, "%s: %s is given twice; write its values in one list", r->path, item->key);
	MQ_TRY(add_values(r, &axis, item->value));
	s->fails |= is_failures(item->key);
	s->jitters |= is_jitter(item->key);
	MQ_PUSH(s->arena, s->axis, s->n_axes, s->axis_room, axis);
	return MQ_OK;
}

static const struct mq_axis *find_axis(const struct mq_study *study, const char *key)
{
	for (uint32_t i = 0; i < study->n_axes; i++)
		if (!strcmp(study->axis[i].key, key))
			return &study->axis[i];
	return NULL;
}

double mq_study_size(const struct mq_study *study, const char *const *value)
{
	static const char *const keys[] = { "platform.nodes", "platform.gpus" };
	double size = 1;
	bool any = false;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct mq_axis *axis = find_axis(study, keys[i]);
		double v;

		if (axis && mq_parse_f64(value[axis - study->axis], &v)) {
			size *= v;
			any |= axis->n > 1;
		}
	}
	return any ? size : 0;
}

static enum mq_status check_jobs(struct mq_study *study, struct mq_err *err)
{
	const char *other = study->sensitivity > 0  ? "sensitivity" :
			    study->fails            ? "failures" :
			    study->jitters          ? "jitter" :
			    study->efficiency > 0   ? "scaling" :
			    study->breakeven_target ? "breakeven.target" :
						      NULL;

	if (study->n_jobs && other)
		return mq_bad(err, "%s: %s asks about one job; take it out, or the job.NAME keys", study->path, other);
	for (uint32_t j = 0; j < study->n_jobs; j++)
		if (!find_axis(study, mq_arena_printf(study->arena, "job.%s.devices", study->job[j])))
			return mq_bad(err, "%s: job %s has no devices; give their ranks: job.%s.devices = 0-31",
				      study->path, study->job[j], study->job[j]);
	return MQ_OK;
}

bool mq_study_joined(const struct mq_study *study, uint32_t axis)
{
	bool joined = study->axis[axis].with;

	for (uint32_t a = 0; a < study->n_axes; a++)
		joined |= study->axis[a].with == axis + 1;
	return joined;
}

/* Joins the axes that vary together. */
static enum mq_status join_axes(struct mq_study *s, struct mq_err *err)
{
	char *group, *rest = s->together ? mq_arena_strdup(s->arena, s->together) : NULL;

	while ((group = strsep(&rest, ";"))) {
		uint32_t leader = 0, a;

		for (char *save, *key = strtok_r(group, ", ", &save); key; key = strtok_r(NULL, ", ", &save)) {
			for (a = 0; a < s->n_axes && strcmp(s->axis[a].key, key); a++)
				;
			if (a == s->n_axes)
				return mq_bad(err, "%s: together = %s: the study has no key %s", s->path, s->together,
					      key);
			if (leader && s->axis[a].n != s->axis[leader - 1].n)
				return mq_bad(err, "%s: together: %s has %u values, %s %u; give as many", s->path,
					      s->axis[leader - 1].key, s->axis[leader - 1].n, key, s->axis[a].n);
			if (a + 1 == leader || mq_study_joined(s, a))
				return mq_bad(err, "%s: together: %s is named twice", s->path, key);
			s->axis[a].with = leader;
			leader = leader ? leader : a + 1;
		}
	}
	return MQ_OK;
}

void mq_study_values(const struct mq_study *s, uint32_t point, uint32_t *index)
{
	for (uint32_t a = s->n_axes; a-- > 0;)
		if (!s->axis[a].with) {
			index[a] = point % s->axis[a].n;
			point /= s->axis[a].n;
		}
	for (uint32_t a = 0; a < s->n_axes; a++)
		if (s->axis[a].with)
			index[a] = index[s->axis[a].with - 1];
}

enum mq_status mq_study_load(const char *path, bool allow_exec, struct mq_arena *arena, struct mq_study *study,
			     struct mq_err *err)
{
	struct reading r = { .study = study, .err = err, .path = path, .allow_exec = allow_exec };

	*study = (struct mq_study){ .arena = arena, .path = path, .context = MQ_HASH_INIT, .job_steps = 10 };
	study->shipped = mq_arena_array(arena, 1, struct mq_shipped);
	study->shipped->arena = arena;
	MQ_TRY(mq_ini_read(path, arena, take, &r, err));
	MQ_TRY(check_jobs(study, err));
	MQ_TRY(join_axes(study, err));
	double points = 1;
	for (uint32_t i = 0; i < study->n_axes; i++)
		points *= study->axis[i].with ? 1 : study->axis[i].n;
	if (points > MQ_MAX_POINTS)
		return mq_bad(err, "%s: %.3g points; a study has at most %d", path, points, MQ_MAX_POINTS);
	study->n_points = (uint32_t)points;
	if (!study->breakeven_plan[0] != !study->breakeven_plan[1])
		return mq_bad(err,
			      "%s: give breakeven.plan_a and breakeven.plan_b, or neither: then the two "
			      "best plans of the search are compared",
			      path);
	if ((study->epoch_days > 0 || study->epoch_usd > 0) && !(study->epoch > 0))
		return mq_bad(err, "%s: epoch.days and epoch.usd need epoch, as 1e6 or `15e12 tokens`", path);
	if (study->breakeven_plan[0] && !study->breakeven_target)
		return mq_bad(err, "%s: breakeven.plan_a needs breakeven.target, as link.network.bw", path);
	if (study->fails && !find_axis(study, "failures.mtbf_h"))
		return mq_bad(err,
			      "%s: failures.mtbf_h is missing: give the mean time between failures of one "
			      "device, hours",
			      path);
	const struct mq_axis *batch = find_axis(study, "batch");
	if (study->weak && (!batch || batch->n != 1))
		return mq_bad(err, "%s: scaling = weak: give one batch, that of the smallest cluster", path);
	return MQ_OK;
}

enum mq_status mq_study_bind(struct mq_study *study, struct mq_err *err)
{
	static const struct {
		const char *kind, *suffix;
	} parts[] = { { "platforms/calib", ".json" }, { "platforms/software", ".json" }, { "engines", ".so" } };

	study->context = mq_hash_file(MQ_HASH_INIT, "/proc/self/exe");
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		MQ_TRY(mq_hash_folder(&study->context, parts[i].kind, parts[i].suffix, study->arena, err));
	const char *index = mq_trust_path(study->arena);
	if (index)
		study->context = mq_hash_file(study->context, index);
	return MQ_OK;
}

/* ---- points ----------------------------------------------------------------------------------------------- */

static bool is_change(const char *key)
{
	static const char *const heads[] = {
		"link.", "linkname.", "device.", "rank.", "spread.", "calib.", "linkcalib."
	};

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

static enum mq_status parse_point(struct mq_point *p, struct mq_argv *v, struct mq_err *err)
{
	const struct mq_args args = { .table = { { mq_question_args, &p->asked }, { mq_search_args, &p->search } } };
	struct mq_limits limits;

	mq_asked_init(&p->asked);
	mq_args_defaults(mq_search_args, &p->search);
	char **word = mq_argv_end(v);
	MQ_TRY(mq_args_parse(&args, (int)v->n, word, err));
	mq_search_options_settle(&p->search);
	MQ_TRY(mq_asked_limits(&p->asked, &limits, err));
	mq_asked_limit_simulation(&p->asked);
	/* Points run in parallel, so each uses one worker; only the best plan is needed. */
	p->asked.jobs = 1;
	p->search.top = 1;
	return MQ_OK;
}

/* Hashes the study's own keys that change a row. */
static uint64_t hash_extras(const struct mq_study *study, uint64_t hash)
{
	hash = mq_hash(hash, &study->sensitivity, sizeof(study->sensitivity));
	hash = mq_hash(hash, &study->epoch, sizeof(study->epoch));
	if (study->epoch_tokens)
		hash = mq_hash(hash, &study->epoch_tokens, sizeof(study->epoch_tokens));
	if (!study->breakeven_target)
		return hash;
	hash = mq_hash(hash, study->breakeven_target, strlen(study->breakeven_target) + 1);
	for (int i = 0; i < 2 && study->breakeven_plan[i]; i++)
		hash = mq_hash_file(hash, study->breakeven_plan[i]);
	return hash;
}

/* Weak scaling: the batch of the first cluster size, times the growth of the cluster. */
static enum mq_status grow_batch(const struct mq_study *study, const char *const *value, struct mq_arena *arena,
				 const char **batch, struct mq_err *err)
{
	const char **first = mq_arena_array(arena, study->n_axes, const char *);
	double n;

	for (uint32_t i = 0; i < study->n_axes; i++)
		first[i] = study->axis[i].value[0];
	double from = mq_study_size(study, first), to = mq_study_size(study, value);
	if (!(from > 0) || !mq_parse_f64(*batch, &n))
		return mq_bad(err,
			      "%s: scaling = weak: give a list of platform.nodes or platform.gpus, and a "
			      "number for batch",
			      study->path);
	*batch = mq_arena_printf(arena, "%.12g", n * to / from);
	return MQ_OK;
}

struct asking {
	const struct mq_study *study;
	const char *job; /* name of the job asked about; NULL = the study */
	struct mq_arena *arena;
	struct mq_argv v;
	const char *platform; /* the platform.* keys as -p takes them */
	struct mq_list calib; /* files of device types that these may name */
	struct mq_err *err;
};

/* The key without "job.NAME.", if it applies to this question: its own key, or a key of the study that the job does not
 * override; else NULL. */
static const char *key_for(const struct asking *a, const char *full)
{
	const char *name, *key;
	size_t length;

	key = job_key(full, &name, &length);
	if (length)
		return a->job && strlen(a->job) == length && !strncmp(name, a->job, length) ? key : NULL;
	return a->job && find_axis(a->study, mq_arena_printf(a->arena, "job.%s.%s", a->job, full)) ? NULL : full;
}

static enum mq_status take_key(struct asking *a, const char *key, const char *value, struct mq_point *point)
{
	if (!strncmp(key, "platform.", 9)) { /* VALUE, or VALUE:KEY=VALUE,... for several */
		int n = (int)strcspn(value, ":");

		a->platform = mq_arena_printf(a->arena, "%s%s%s=%.*s%s%s", a->platform, *a->platform ? " " : "",
					      key + 9, n, value, value[n] ? " " : "", value + n + (value[n] == ':'));
		return MQ_OK;
	}
	if (is_failures(key) || is_jitter(key)) {
		point->hash = mq_hash(point->hash, key, strlen(key) + 1);
		point->hash = mq_hash(point->hash, value, strlen(value) + 1);
		return is_jitter(key) ?
			       mq_opt_set(mq_jitter_opts, &point->jitter, "jitter", key + 7, value, a->arena, a->err) :
			       mq_opt_set(mq_failures_opts, &point->failures, "failures", key + 9, value, a->arena,
					  a->err);
	}
	if (is_change(key)) {
		mq_argv_add(&a->v, "--change=%s=%s", key, value);
		return MQ_OK;
	}
	if (!strcmp(key, "calib"))
		MQ_TRY(mq_arg_push("calib", &a->calib, value, a->err));
	if (!strcmp(key, "plan")) {
		point->plan = value;
		point->hash = mq_hash_file(point->hash, value);
		return MQ_OK;
	}
	if (a->job && !strcmp(key, "begin")) {
		if (!mq_parse_f64(value, &point->start_s) || !(point->start_s >= 0))
			return mq_bad(a->err, "begin = %s: give seconds, 0 or more", value);
		point->hash = mq_hash(point->hash, value, strlen(value) + 1);
		return MQ_OK;
	}
	if (a->study->weak && !strcmp(key, "batch"))
		MQ_TRY(grow_batch(a->study, point->value, a->arena, &value, a->err));
	if (has_flag(key, MQ_ARG_FILE))
		point->hash = mq_hash_file(point->hash, value);
	if (!strcmp(key, "software")) { /* study->context covers the shipped files */
		const char *file = mq_arena_printf(a->arena, "%.*s", (int)strcspn(value, ",;"), value);

		point->hash = mq_hash_file(point->hash, file);
	}
	if (!strcmp(key, "engine"))
		value = without_blanks(a->arena, value);
	for (const struct mq_opt *o = mq_platform_opts; o->name && !option_of(key); o++)
		if (!strcmp(o->name, key))
			return mq_bad(a->err, "unknown key '%s'; did you mean platform.%s?", key, key);
	mq_argv_add(&a->v, "--%s=%s", key, value);
	return MQ_OK;
}

/* Fills the point's question for a job (NULL: the study); point->value is set. */
static enum mq_status ask(const struct mq_study *study, const char *job, struct mq_arena *arena, struct mq_point *point,
			  struct mq_err *err)
{
	struct asking a = {
		.study = study, .job = job, .arena = arena, .v = { .arena = arena }, .platform = "", .err = err
	};

	point->hash = study->context;
	mq_argv_add(&a.v, "whatif");
	for (uint32_t i = 0; i < study->n_axes; i++) {
		const char *key = key_for(&a, study->axis[i].key);

		if (key)
			MQ_TRY(take_key(&a, key, point->value[i], point));
	}
	point->hash = hash_extras(study, point->hash);
	for (uint32_t i = 0; i < a.v.n; i++)
		point->hash = mq_hash(point->hash, a.v.word[i], strlen(a.v.word[i]) + 1);
	point->hash = mq_hash(point->hash, a.platform, strlen(a.platform) + 1);
	if (*a.platform) {
		struct mq_calib *calib;

		MQ_TRY(mq_calib_open(&a.calib, study->shipped, arena, &calib, err));
		MQ_TRY(mq_platform_keys_check(a.platform, calib, err));
		mq_argv_add(&a.v, "--platform=%s", a.platform);
	}
	MQ_TRY(parse_point(point, &a.v, err));
	if (study->breakeven_target)
		point->search.top = 2;
	return MQ_OK;
}

enum mq_status mq_study_point(const struct mq_study *study, uint32_t index, struct mq_arena *arena,
			      struct mq_point *point, struct mq_err *err)
{
	uint32_t *at = mq_arena_array(arena, study->n_axes, uint32_t);

	*point = (struct mq_point){ .index = index };
	mq_opt_defaults(mq_failures_opts, &point->failures);
	mq_opt_defaults(mq_jitter_opts, &point->jitter);
	point->value = mq_arena_array(arena, study->n_axes, const char *);
	mq_study_values(study, index, at);
	for (uint32_t i = 0; i < study->n_axes; i++)
		point->value[i] = study->axis[i].value[at[i]];
	MQ_TRY(ask(study, NULL, arena, point, err));
	if (!study->n_jobs)
		return MQ_OK;
	point->job = mq_arena_array(arena, study->n_jobs, struct mq_point);
	point->hash = mq_hash(point->hash, &study->job_steps, sizeof(study->job_steps));
	for (uint32_t j = 0; j < study->n_jobs; j++) {
		struct mq_point *job = &point->job[j];

		*job = (struct mq_point){ .index = index, .value = point->value };
		if (ask(study, study->job[j], arena, job, err) != MQ_OK)
			return mq_wrap(err, "job %s", study->job[j]);
		point->hash = mq_hash(point->hash, study->job[j], strlen(study->job[j]) + 1);
		point->hash = mq_hash(point->hash, &job->hash, sizeof(job->hash));
	}
	return MQ_OK;
}
