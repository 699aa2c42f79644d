/* search_run.c - options of a search, its engines, and the call of the loop; see search_run.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "session/search_run.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "session/session.h"
#include "search/search.h"
#include "maquette/loader.h"
#include "costing/costing.h"
#include "judge/pool.h"
#include "base/text.h"

enum { DEFAULT_EVALS = 200 };

static const char *objective(int i)
{
	return mq_objectives[i];
}

enum { N_OBJECTIVES = 5 };

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_search_options, field, __VA_ARGS__)
const struct mq_arg mq_search_args[] = {
	{ .type = MQ_ARG_GROUP, .name = "The search:" },
	ROW(LIST, "engine", engines, "NAME[:key=value,...][,NAME...]",
	    "engines (see `maquette list engines`), 'exec:PROGRAM', or 'all' but exhaustive; repeatable (default "
	    "portfolio)",
	    .letter = 'e', .flags = MQ_ARG_JOB_KEY | MQ_ARG_ONE_VALUE),
	ROW(CHOICE, "objective", objective, "NAME", "quantity to minimize", MQ_ARG_NAMES(objective, N_OBJECTIVES),
	    .text = "step-time", .flags = MQ_ARG_ALWAYS | MQ_ARG_JOB_KEY),
	ROW(INT, "evals", evals, "N", "proposals of each engine (default 200)", .min = 1, .max = 0x1p64,
	    .flags = MQ_ARG_EFFORT | MQ_ARG_JOB_KEY),
	ROW(F64, "seconds", seconds, "S", "time limit, divided equally among the engines", .unit = "s",
	    .initial = INFINITY, .min = 1e-3, .max = 1e9, .flags = MQ_ARG_EFFORT | MQ_ARG_JOB_KEY),
	ROW(INT, "top", top, "K", "plans to keep and print", .initial = 5, .min = 1, .max = 10000,
	    .flags = MQ_ARG_EFFORT | MQ_ARG_ALWAYS),
	ROW(FLAG, "proof", proof, NULL,
	    "print the best proven lower bounds and the gap to them; with -o, also to proof.csv",
	    .flags = MQ_ARG_EFFORT),
	{ .type = MQ_ARG_END },
};

void mq_search_options_settle(struct mq_search_options *o)
{
	if (!o->engines.n)
		o->engines.item[o->engines.n++] = "portfolio";
	if (!o->evals)
		o->evals = isfinite(o->seconds) ? UINT64_MAX : DEFAULT_EVALS;
}

/* ---- engines ------------------------------------------------------------------------------------ */

/* Engines of all -e options: "NAME[:key=value,...]", lists of these, "exec:PROGRAM", "all". */
struct engine_list {
	struct mq_arena *arena;
	struct mq_search_engine *engine;
	uint32_t n, room;
	const char *dir;
};

static enum mq_status add_exec(struct engine_list *p, const char *program, const char *given, struct mq_err *err)
{
	if (!*program)
		return mq_bad(err, "-e exec: names no program; write exec:PROGRAM");
	struct mq_search_engine e = { .engine = mq_exec_engine_new(program, given, p->arena),
				      .options = "",
				      .label = mq_arena_printf(p->arena, "exec:%s", program) };
	MQ_PUSH(p->arena, p->engine, p->n, p->room, e);
	return MQ_OK;
}

static enum mq_status add_named(struct engine_list *p, const char *name, const char *given, struct mq_err *err)
{
	struct mq_search_engine e = { .options = given, .label = name };

	for (uint32_t i = 0; i < p->n; i++)
		if (!strcmp(p->engine[i].label, name) && *given)
			e.label = mq_arena_printf(p->arena, "%s:%s", name, given);
	for (uint32_t i = 0; i < p->n; i++)
		if (!strcmp(p->engine[i].label, e.label))
			return mq_bad(err, "-e %s is given twice with the same options", name);
	MQ_TRY(mq_engine_open(p->dir, name, p->arena, &e.engine, err));
	MQ_PUSH(p->arena, p->engine, p->n, p->room, e);
	return MQ_OK;
}

/* Adds every engine; one that cannot be loaded or refuses the question is reported, not fatal. */
static enum mq_status add_all(struct engine_list *p, struct mq_err *err)
{
	const char **names;

	MQ_TRY(mq_plugin_names(p->dir, ".so", p->arena, &names, err));
	for (; *names; names++) {
		struct mq_err why = MQ_ERR_INIT;

		if (!strcmp(*names, "exhaustive"))
			continue; /* it refuses all but tiny questions */
		if (add_named(p, *names, "", &why) == MQ_OK)
			p->engine[p->n - 1].may_refuse = true;
		else
			fprintf(stderr, "maquette: left out: %s\n", why.text);
	}
	return MQ_OK;
}

/* Adds the engines of one -e text: items separated by commas; KEY=VALUE without ':' is an option of the last engine. */
static enum mq_status add_text(struct engine_list *p, const char *text, struct mq_err *err)
{
	char *copy = mq_arena_strdup(p->arena, text), *next;

	for (char *item = copy; item; item = next) {
		const char *given = "";

		next = strchr(item, ',');
		if (next)
			*next++ = '\0';
		bool exec = !strncmp(item, "exec:", 5);
		char *colon = exec ? NULL : strchr(item, ':');
		if (colon) {
			*colon = '\0';
			given = colon + 1;
		}
		while (next && strchr(next, '=') &&
		       strcspn(next, "=") < strcspn(next, ",:")) { /* key=value: an option of this engine */
			char *option = next;

			next = strchr(option, ',');
			if (next)
				*next++ = '\0';
			given = mq_arena_printf(p->arena, "%s%s%s", given, *given ? "," : "", option);
		}
		if (!*item)
			return mq_bad(err, "-e %s: an engine's name is empty", text);
		if (exec)
			MQ_TRY(add_exec(p, item + 5, given, err));
		else if (!strcmp(item, "all"))
			MQ_TRY(add_all(p, err));
		else
			MQ_TRY(add_named(p, item, given, err));
	}
	return MQ_OK;
}

/* --proof needs at least one engine that gives bounds. */
static enum mq_status check_proof(const struct engine_list *p, struct mq_err *err)
{
	const char **names;
	char list[256] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < p->n; i++)
		if (p->engine[i].engine->proves)
			return MQ_OK;
	MQ_TRY(mq_plugin_names(p->dir, ".so", p->arena, &names, err));
	for (; *names; names++) {
		const struct mq_engine *other;
		struct mq_err lost = MQ_ERR_INIT;

		if (mq_engine_open(p->dir, *names, p->arena, &other, &lost) == MQ_OK && other->proves &&
		    used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", *names);
	}
	return mq_bad(err, "--proof: engine '%s'%s shows no lower bound; these do:%s", p->engine[0].label,
		      p->n > 1 ? " (and no other of -e)" : "", list);
}

/* ---- running ------------------------------------------------------------------------------------ */

/* Progress on a terminal: one line on standard error, at most ten times a second. */
struct bar {
	double last_s;
	bool on, drawn;
};

static void draw(void *context, double done, const char *what)
{
	struct bar *bar = context;
	double now = mq_now_s();

	if (!bar->on || now - bar->last_s < 0.1)
		return;
	bar->last_s = now;
	bar->drawn = true;
	int filled = isnan(done) ? 0 : (int)(30 * fmin(fmax(done, 0), 1));
	fprintf(stderr, "\r[%.*s%*s] %-70.70s", filled, "##############################", 30 - filled, "", what);
}

/* Answers engines' questions about plans that are not simulated yet. */
struct screener {
	struct mq_session *session;
	const struct mq_question *q; /* the session's question, or one on a part of its cluster */
};

static bool screen(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	const struct screener *who = context;

	return mq_session_screen_here(who->session, who->q, MQ_SCREEN_BOTH, plan, result);
}

static bool fits(void *context, const struct mq_plan *plan, struct mq_result *result)
{
	const struct screener *who = context;

	return mq_session_screen_here(who->session, who->q, MQ_SCREEN_MEMORY, plan, result);
}

/* Screens plans in the workers, of all ranks. If the pool is lost, the next judgement reports it. */
static void screen_times(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result)
{
	const struct screener *who = context;
	struct mq_session *s = who->session;
	struct mq_err lost = MQ_ERR_INIT;

	if (n > 1 && who->q == &s->q &&
	    (s->ranks ? mq_ranks_screen(s->ranks, plan, n, result, &lost) :
			mq_session_screen(s, plan, n, result, &lost)) == MQ_OK)
		return;
	for (uint32_t i = 0; i < n; i++)
		(void)mq_session_screen_here(s, who->q, MQ_SCREEN_TIME, plan[i], &result[i]);
}

static enum mq_status evaluate(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result,
			       struct mq_err *err)
{
	struct mq_session *s = context;

	return s->ranks ? mq_ranks_judge(s->ranks, plan, n, result, err) : mq_session_judge(s, plan, n, result, err);
}

static void until(void *context, double left_s)
{
	const struct mq_session *s = context;

	if (s->ranks)
		mq_ranks_until(s->ranks, left_s);
	else
		mq_pool_until(s->pool, left_s);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return mq_hash(hash, text, strlen(text) + 1);
}

uint64_t mq_hash_file(uint64_t hash, const char *path)
{
	uint64_t buffer[8192];
	size_t n;
	FILE *f = fopen(path, "r");

	hash = hash_text(hash, path);
	if (!f)
		return hash;
	while ((n = fread(buffer, 1, sizeof(buffer), f)) > 0) {
		/* Eight bytes at a time, since programs are large. */
		for (size_t i = 0; i < n / sizeof(*buffer); i++) {
			hash = (hash ^ buffer[i]) * 0x9e3779b97f4a7c15u;
			hash ^= hash >> 32;
		}
		hash = mq_hash(hash, buffer + n / sizeof(*buffer), n % sizeof(*buffer));
	}
	fclose(f);
	return hash;
}

enum mq_status mq_hash_folder(uint64_t *hash, const char *kind, const char *suffix, struct mq_arena *arena,
			      struct mq_err *err)
{
	const char *dir, **name;
	uint32_t n;

	MQ_TRY(mq_find_dir(kind, arena, &dir, err));
	name = mq_folder_names(dir, "", suffix, arena, &n);
	for (uint32_t i = 0; name && i < n; i++)
		*hash = mq_hash_file(*hash, mq_arena_printf(arena, "%s/%s", dir, name[i]));
	return MQ_OK;
}

/* Hashes the options that decide a plan's result, and the files that they name. */
static uint64_t hash_question(uint64_t hash, const struct mq_asked *asked)
{
	struct mq_asked plain = *asked;
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *stream = mq_words_open(&memory);
	const char *value;
	char text[32];

	if (!plain.change.n && !plain.sequence_packing) /* both use the seed */
		plain.seed = 0;
	mq_args_print(mq_question_args, &plain, MQ_ARG_CONSTRAINT, stream);
	fclose(stream);
	hash = hash_text(hash, memory.text);
	for (const struct mq_arg *row = mq_question_args; row->type != MQ_ARG_END; row++)
		for (uint32_t i = 0; row->flags & MQ_ARG_FILE && !(row->flags & MQ_ARG_CONSTRAINT) &&
				     (value = mq_arg_text(row, &plain, i, 17, text));
		     i++)
			hash = mq_hash_file(hash, value);
	return hash;
}

/* Hashes all that a judgement depends on: the question, the files it names, shipped files, this program. */
static uint64_t hash_context(const struct mq_session *s)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	static const char *const folder[][2] = { { "platforms/calib", ".json" },
						 { "platforms/kernels", ".csv" },
						 { "platforms/software", ".json" } };
	struct mq_err lost;
	uint64_t hash = hash_question(MQ_HASH_INIT, s->asked);

	char *file = mq_arena_strdup(&scratch, s->asked->model);
	file[strcspn(file, ":")] = '\0';
	hash = mq_hash_file(hash, file);
	if (!s->own_platform) {
		hash = mq_hash_file(hash, s->platform_path);
		hash = mq_hash_file(hash, s->platform_calib);
	}
	for (size_t i = 0; i < sizeof(folder) / sizeof(*folder); i++)
		(void)!mq_hash_folder(&hash, folder[i][0], folder[i][1], &scratch, &lost);
	hash = mq_software_hash(s->q.software, hash);
	hash = mq_hash_file(hash, "/proc/self/exe");
	return hash;
}

enum mq_status mq_listed_software(struct mq_shipped *shipped, struct mq_err *err)
{
	struct mq_software_record *all;
	const char *dir;
	uint32_t n;

	if (shipped->n_software)
		return MQ_OK;
	MQ_TRY(mq_find_dir("platforms/software", shipped->arena, &dir, err));
	MQ_TRY(mq_software_load_all(dir, shipped->arena, &all, &n, err));
	shipped->software = all;
	for (uint32_t i = 0; i < n; i++)
		if (all[i].listed)
			all[shipped->n_software++] = all[i];
	return MQ_OK;
}

/* ---- a part for a large cluster ------------------------------------------------------------------ */

/* PART: fewest devices of a part (chosen: two pods of most fabrics). STATES: most of a device's memory that the model's
 * states, divided over the part, may take: then a plan past memory on the part does not fit the whole either. */
enum { PART = 256 };
static const double STATES = 0.08, state_B = 16;

/* Devices per machine if all GPUs and machines are equal and ranks are in machine order; else 0. */
static uint32_t equal_machines(const struct mq_cluster *c)
{
	uint32_t n = c->n_nodes && c->n_devices % c->n_nodes == 0 ? c->n_devices / c->n_nodes : 0;

	for (uint32_t i = 0; n && i < c->n_devices; i++) {
		const struct mq_device *d = &c->device[i], *first = c->device;
		bool alike = d->kind == MQ_GPU && d->calib == first->calib && !strcmp(d->type, first->type) &&
			     d->memory_B == first->memory_B && d->host_B == first->host_B && d->node == i / n;

		n = alike ? n : 0;
	}
	return n;
}

/* Does n allow the degrees that the user fixed? Experts are distributed over the ranks of a stage. */
static bool allows_fixed(const struct mq_limits *l, uint32_t n)
{
	double pp = mq_or_1(l->fix_pp), tp = mq_or_1(l->fix_tp);
	double experts = mq_or_1(l->fix_ep) * (l->fix_etp ? l->fix_etp : tp);

	return fmod(n, pp * tp * mq_or_1(l->fix_cp)) == 0 && fmod(n, pp * experts) == 0;
}

/* Finds the smallest part of a large cluster from whose plans the whole's can be made by more data-parallel replicas.
 * None (part->times 0): the cluster is too small or unequal, or an option concerns the whole. */
static enum mq_status find_part(const struct mq_session *s, const struct mq_search_options *o, struct mq_arena *arena,
				struct mq_search_part *part, struct mq_err *err)
{
	const struct mq_cluster *whole = s->q.cluster;
	const struct mq_limits *l = &s->limits;
	uint32_t n = whole->n_devices, machine = n > 2 * PART ? equal_machines(whole) : 0, times;
	double memory_B = whole->device[0].memory_B > 0 ? whole->device[0].memory_B : (double)INFINITY;
	double states_B = mq_model_totals(s->model).parameters * (s->train.infer ? 2 : state_B);

	if (!machine || o->proof || s->start || s->asked->change.n || l->fix_dp || l->max_dp || l->max_devices)
		return MQ_OK;
	for (times = n / PART; times > 1; times--)
		if (n / machine % times == 0 && fmod(s->train.batch, times) == 0 && allows_fixed(l, n / times) &&
		    states_B <= STATES * memory_B * n / times)
			break;
	if (times < 2)
		return MQ_OK;
	struct mq_train *train = mq_arena_array(arena, 1, struct mq_train);
	struct mq_cluster *cluster;

	MQ_TRY(mq_cluster_part(whole, mq_arena_count(arena, n), n / times, arena, &cluster, err));
	*train = s->train;
	train->batch /= times;
	*part = (struct mq_search_part){ .times = times, .q = s->q };
	part->q.cluster = cluster;
	part->q.train = train;
	part->costs = mq_costs_new(&part->q, arena);
	return MQ_OK;
}

/* Has each op a device that can run it? In a data type that no device multiplies none has. */
static enum mq_status check_ops(const struct mq_question *q, const struct mq_costs *costs, struct mq_err *err)
{
	uint32_t split[MQ_N_DIMS];

	for (int d = 0; d < MQ_N_DIMS; d++)
		split[d] = 1;
	for (uint32_t op = 0; op < q->model->n_ops; op++) {
		bool runs = false;

		for (uint32_t d = 0; d < q->cluster->n_devices && !runs; d++)
			runs = mq_first_of_type(q->cluster, d, NULL) &&
			       isfinite(costs->op_time(costs->context, op, MQ_FORWARD, d, split, 1));
		if (!runs)
			return mq_bad(
				err,
				"no device of '%s' can run '%s' of '%s' in %s; choose another platform, --dtype or "
				"--gemm-dtype",
				q->cluster->name, q->model->op[op].name, q->model->name, mq_train_gemm_name(q->train));
	}
	return MQ_OK;
}

enum mq_status mq_search_session(struct mq_session *session, const struct mq_search_options *o, const char *dir,
				 struct mq_search_outcome *outcome, struct mq_err *err)
{
	const struct mq_asked *q = session->asked;
	struct engine_list engine_list = { .arena = &session->arena };
	struct bar bar = { .on = isatty(2) };
	struct mq_search_part part = { .times = 0 };
	struct screener all = { session, &session->q }, some = { session, &part.q };
	struct mq_shipped own = { .arena = &session->arena };
	struct mq_shipped *shipped = session->shipped ? session->shipped : &own;

	MQ_TRY(mq_find_dir("engines", engine_list.arena, &engine_list.dir, err));
	for (uint32_t i = 0; i < o->engines.n; i++)
		MQ_TRY(add_text(&engine_list, o->engines.item[i], err));
	MQ_TRY(mq_listed_software(shipped, err));
	if (o->proof)
		MQ_TRY(check_proof(&engine_list, err));
	struct mq_costs *costs = mq_costs_new(&session->q, &session->arena);
	MQ_TRY(check_ops(&session->q, costs, err));
	MQ_TRY(find_part(session, o, &session->arena, &part, err));
	part.screen_context = &some;
	struct mq_search search = {
		.q = &session->q,
		.costs = costs,
		.screen = screen,
		.fits = fits,
		.screen_times = screen_times,
		.screen_context = &all,
		.part = part.times ? &part : NULL,
		.limits = &session->limits,
		.software = shipped->software,
		.n_software = shipped->n_software,
		.start = session->start,
		.objective = o->objective,
		.proof = o->proof,
		.engine = engine_list.engine,
		.n_engines = engine_list.n,
		.seed = q->seed,
		.evals = o->evals,
		.seconds = o->seconds,
		.top = o->top,
		.dir = dir,
		.context = dir ? hash_context(session) : 0,
		.evaluator = { session, evaluate, 16 * q->jobs * (session->ranks ? session->n_ranks : 1), until },
		.now_s = mq_now_s,
		.stopped = mq_job_stopped,
		.progress = draw,
		.progress_context = &bar,
	};
	enum mq_status status = mq_search_run(&search, &session->arena, outcome, err);
	if (bar.drawn)
		fprintf(stderr, "\r%106s\r", "");
	return status;
}
