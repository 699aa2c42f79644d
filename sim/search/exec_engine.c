/* exec_engine.c - see search.h. The child is started with posix_spawn (the main program may hold threads, so it
 * never forks) and reads requests on standard input; its standard error is the user's.
 * SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maquette/spawn.h"
#include "schedule/columns.h"

enum { POLL_MS = 100, PROTOCOL = 1 };

struct exec {
	const char *program, *options; /* from the option table */
	pid_t pid;
	int to, from; /* pipe ends */
	char *buffer; /* bytes read and not yet consumed; in the run's arena */
	size_t used;
	uint32_t room;
	uint64_t asked, observed;
};

/* ---- the pipe ----------------------------------------------------------------------------------- */

static enum mq_status spawn(struct exec *x, struct mq_err *err)
{
	int in[2], out[2];
	char *command = NULL;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || asprintf(&command, "exec %s", x->program) < 0)
		return mq_fail(err, MQ_ETIME, "exec:%s: cannot start: %s", x->program, strerror(errno));
	char shell[] = "/bin/sh", flag[] = "-c";
	char *const argv[] = { shell, flag, command, NULL };
	const struct mq_spawn program = {
		.path = shell, .argv = argv, .on_death = SIGKILL, .n_fds = 2, .fd = { { in[0], 0 }, { out[1], 1 } }
	};
	int bad = mq_spawn(&program, &x->pid);
	free(command);
	close(in[0]);
	close(out[1]);
	x->to = in[1];
	x->from = out[0];
	if (bad)
		return mq_fail(err, MQ_ETIME, "exec:%s: cannot start: %s", x->program, strerror(bad));
	return MQ_OK;
}

static enum mq_status ended(const struct exec *x, struct mq_err *err)
{
	return mq_bad(err,
		      "exec:%s: the program ended or closed its output after %llu requests; an engine "
		      "answers every request with one line of JSON",
		      x->program, (unsigned long long)x->asked);
}

/* Sends one JSON value as a line and frees it. */
static enum mq_status put(struct exec *x, json_t *value, struct mq_err *err)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
	size_t size, done = 0;

	json_decref(value);
	mq_assert(text);
	size = strlen(text);
	text[size++] = '\n'; /* in place of the NUL: not a string from here on */
	while (done < size) {
		ssize_t n = write(x->to, text + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	free(text);
	return done == size ? MQ_OK : ended(x, err);
}

/* Reads more bytes. MQ_ETIME: the engine's time is over. */
static enum mq_status fill(struct exec *x, const struct mq_problem *problem, struct mq_err *err)
{
	struct pollfd p = { .fd = x->from, .events = POLLIN };
	int ready;

	while ((ready = poll(&p, 1, POLL_MS)) <= 0) {
		if (ready < 0 && errno != EINTR)
			return ended(x, err);
		if (!problem->tick(problem->tick_context, (double)NAN, "waiting for the program"))
			return mq_fail(err, MQ_ETIME,
				       "exec:%s: no answer to request %llu when its share of "
				       "--seconds was used; give more seconds, or an engine that answers sooner",
				       x->program, (unsigned long long)x->asked);
	}
	if (x->room - x->used < 65536)
		x->buffer = mq_arena_grow(problem->arena, x->buffer, 1, x->used, x->used + 65536, &x->room);
	ssize_t n = read(x->from, x->buffer + x->used, x->room - x->used);
	if (n <= 0)
		return ended(x, err);
	x->used += (size_t)n;
	return MQ_OK;
}

/* The next line as JSON (caller frees); MQ_EINPUT where there is none or it is not an object. */
static enum mq_status get(struct exec *x, const struct mq_problem *problem, json_t **value, struct mq_err *err)
{
	json_error_t why;
	char *newline;

	x->asked++;
	while (!x->used || !(newline = memchr(x->buffer, '\n', x->used)))
		MQ_TRY(fill(x, problem, err));
	size_t size = (size_t)(newline - x->buffer) + 1;
	*value = json_loadb(x->buffer, size, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(*value)) {
		json_decref(*value);
		return mq_bad(err, "exec:%s: answer %llu is not a JSON object: %.60s", x->program,
			      (unsigned long long)x->asked, x->buffer);
	}
	x->used -= size;
	memmove(x->buffer, x->buffer + size, x->used);
	const char *error = json_string_value(json_object_get(*value, "error"));
	if (!error)
		return MQ_OK;
	enum mq_status status = mq_bad(err, "exec:%s: %s", x->program, error);
	json_decref(*value);
	return status;
}

/* ---- what the program is told ------------------------------------------------------------------- */

static json_t *model_json(const struct mq_model *m)
{
	json_t *ops = json_array(), *edges = json_array();

	for (uint32_t i = 0; i < m->n_ops; i++) {
		const struct mq_op *o = &m->op[i];

		json_array_append_new(ops, json_pack("{s:s, s:s, s:o, s:f, s:f, s:f}", "name", o->name, "kind",
						     mq_op_kind_name(o->kind), "layer",
						     o->layer == MQ_NONE ? json_null() : json_integer(o->layer), "flop",
						     o->flop, "param", o->param, "output", o->output));
	}
	for (uint32_t i = 0; i < m->n_edges; i++)
		json_array_append_new(edges, json_pack("[i, i, f]", m->edge[i].src, m->edge[i].dst, m->edge[i].elems));
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:o, s:o}", "name", m->name, "layers", m->n_layers, "heads",
			 m->heads, "hidden", m->hidden, "seq", m->seq, "ops", ops, "edges", edges);
}

static json_t *devices_json(const struct mq_cluster *c)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < c->n_devices; i++)
		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:i, s:f}", "rank", i, "name", c->device[i].name,
						      "type", c->device[i].type, "node", c->device[i].node, "memory_B",
						      c->device[i].memory_B));
	return list;
}

static json_t *limits_json(const struct mq_limits *l)
{
	json_t *fix = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "dp", l->fix_dp, "tp", l->fix_tp, "pp",
				l->fix_pp, "cp", l->fix_cp, "ep", l->fix_ep, "mbs", l->fix_mbs, "virtual",
				l->fix_virtual, "etp", l->fix_etp, "ulysses", l->fix_ulysses);

	if (l->fix_pipeline >= 0)
		json_object_set_new(fix, "schedule", json_string(mq_pipeline_name(l->fix_pipeline)));
	if (l->fix_recompute >= 0)
		json_object_set_new(fix, "recompute", json_string(mq_recompute_name(l->fix_recompute)));
	if (l->fix_sync >= 0)
		json_object_set_new(fix, "sync", json_string(mq_sync_name(l->fix_sync)));
	return json_pack("{s:o, s:{s:i, s:i, s:i, s:i}}", "fix", fix, "max", "dp", l->max_dp, "tp", l->max_tp, "pp",
			 l->max_pp, "devices", l->max_devices);
}

static json_t *names_json(uint32_t bits, const char *(*name_of)(int), int n)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		if (bits & 1u << i)
			json_array_append_new(list, json_string(name_of(i)));
	return list;
}
#define NAMES_JSON(bits, name_of, n) names_json(bits, (const char *(*)(int))(name_of), n)

/* What the training software runs, as far as a program can choose it. */
static json_t *software_json(const struct mq_software *s)
{
	const struct mq_software_space *r = &s->runs;

	return json_pack("{s:s, s:b, s:b, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "name", s->name,
			 "sequence_parallel", s->sequence_parallel, "vocab_parallel", s->vocab_parallel, "schedules",
			 NAMES_JSON(r->schedules, mq_pipeline_name, MQ_N_PIPELINES), "sync",
			 NAMES_JSON(r->syncs, mq_sync_name, MQ_N_SYNCS), "recompute",
			 NAMES_JSON(r->recomputes, mq_recompute_name, MQ_N_RECOMPUTES), "tensor", r->tensor, "pipeline",
			 r->pipeline, "context", r->context, "expert", r->expert, "uneven_stages", r->uneven_stages,
			 "unequal_degrees", r->unequal_degrees, "shares", r->shares, "placement", r->placement);
}

static void stop(void *state, const struct mq_problem *problem)
{
	struct exec *x = state;
	struct mq_err lost;
	int status;

	if (x->pid <= 0)
		return;
	if (put(x, json_pack("{s:s}", "type", "stop"), &lost) != MQ_OK)
		kill(x->pid, SIGTERM);
	close(x->to);
	close(x->from);
	for (int i = 0; i < 20; i++) { /* a second to leave by itself */
		if (waitpid(x->pid, &status, WNOHANG) == x->pid) {
			x->pid = 0;
			break;
		}
		usleep(50000);
	}
	if (x->pid > 0) {
		kill(x->pid, SIGKILL);
		waitpid(x->pid, &status, 0);
	}
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct exec *x = state;
	json_t *answer;
	json_t *hello = json_pack(
		"{s:s, s:i, s:I, s:o, s:s, s:s, s:o, s:o, s:{s:f, s:s, s:s}, s:o, s:o}", "type", "start", "protocol",
		PROTOCOL, "seed", (json_int_t)(mq_rng_next(problem->rng) >> 1), "evals",
		problem->evals == UINT64_MAX ? json_null() : json_integer((json_int_t)problem->evals), "options",
		x->options, "objective", problem->objective, "model", model_json(problem->q->model), "devices",
		devices_json(problem->q->cluster), "train", "batch", problem->q->train->batch, "dtype",
		mq_dtype_name(problem->q->train->dtype), "mode", problem->q->train->infer ? "infer" : "train", "limits",
		limits_json(problem->limits), "software", software_json(mq_question_software(problem->q)));

	mq_assert(hello);
	x->to = x->from = -1;
	enum mq_status status = spawn(x, err);
	if (status != MQ_OK) {
		json_decref(hello);
		return status;
	}
	status = put(x, hello, err);
	if (status == MQ_OK)
		status = get(x, problem, &answer, err);
	if (status == MQ_OK)
		json_decref(answer);
	else
		stop(x, problem);
	return status;
}

/* ---- what it answers ---------------------------------------------------------------------------- */

/* A plan in the file format, through a file in memory, because that is what the reader takes. */
static enum mq_status read_plan(const struct exec *x, json_t *value, const struct mq_problem *problem,
				struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	char path[64];
	int fd = memfd_create("plan", MFD_CLOEXEC);

	if (fd < 0 || json_dumpfd(value, fd, 0)) {
		if (fd >= 0)
			close(fd);
		return mq_bad(err, "exec:%s: cannot store its plan: %s", x->program, strerror(errno));
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	enum mq_status status = mq_plan_load(path, problem->q->model, problem->q->cluster, arena, plan, err);
	close(fd);
	return status == MQ_OK ? MQ_OK : mq_wrap(err, "exec:%s: answer %llu", x->program, (unsigned long long)x->asked);
}

static enum mq_status read_placement(const struct exec *x, json_t *list, const struct mq_problem *problem,
				     struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	uint32_t n = problem->q->model->n_ops;
	uint32_t *device_of = mq_arena_array(arena, n, uint32_t);

	if (json_array_size(list) != n)
		return mq_bad(err, "exec:%s: device_of has %zu entries, the model %u ops", x->program,
			      json_array_size(list), n);
	for (uint32_t i = 0; i < n; i++) {
		json_t *v = json_array_get(list, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) >= problem->q->cluster->n_devices)
			return mq_bad(err, "exec:%s: device_of[%u] is no rank from 0 to %u", x->program, i,
				      problem->q->cluster->n_devices - 1);
		device_of[i] = (uint32_t)json_integer_value(v);
	}
	mq_plan_from_placement(device_of, problem->q->model, arena, plan);
	return MQ_OK;
}

/* The readers of a shape take what they read away: what is left is unknown. */

static bool read_u32(json_t *object, const char *key, uint32_t *value)
{
	json_t *v = json_object_get(object, key);
	json_int_t number = json_integer_value(v);
	bool good = !v || (json_is_integer(v) && number >= 0 && number < (json_int_t)UINT32_MAX);

	*value = (uint32_t)number;
	json_object_del(object, key);
	return good;
}

static bool read_enum(json_t *object, const char *key, const char *(*name_of)(int), int n, uint8_t *value)
{
	json_t *v = json_object_get(object, key);
	const char *text = json_string_value(v);

	if (!v)
		return true;
	int found = text ? mq_enum_find(name_of, n, text) : n;
	*value = (uint8_t)found;
	json_object_del(object, key);
	return found < n;
}
#define READ_ENUM(object, key, name_of, n, value) read_enum(object, key, (const char *(*)(int))(name_of), n, value)

static bool read_u32s(json_t *object, const char *key, struct mq_arena *arena, size_t n, const uint32_t **values)
{
	json_t *list = json_object_get(object, key);

	if (!list)
		return true;
	if (json_array_size(list) != n)
		return false;
	uint32_t *v = mq_arena_array(arena, n, uint32_t);
	for (size_t i = 0; i < n; i++) {
		json_int_t number = json_integer_value(json_array_get(list, i));

		if (!json_is_integer(json_array_get(list, i)) || number < 0 || number >= UINT32_MAX)
			return false;
		v[i] = (uint32_t)number;
	}
	*values = v;
	json_object_del(object, key);
	return true;
}

static enum mq_status read_shape(const struct exec *x, json_t *o, const struct mq_problem *problem,
				 struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	struct mq_shape s = { .pipeline = MQ_PIPE_1F1B };
	bool good = read_u32(o, "dp", &s.dp) && read_u32(o, "tp", &s.tp) && read_u32(o, "pp", &s.pp) &&
		    read_u32(o, "cp", &s.cp) && read_u32(o, "ep", &s.ep) && read_u32(o, "virtual", &s.virtual) &&
		    read_u32(o, "micro_batches", &s.micro_batches) &&
		    READ_ENUM(o, "schedule", mq_pipeline_name, MQ_N_PIPELINES, &s.pipeline) &&
		    READ_ENUM(o, "sync", mq_sync_name, MQ_N_SYNCS, &s.sync) &&
		    READ_ENUM(o, "recompute", mq_recompute_name, MQ_N_RECOMPUTES, &s.recompute);
	double devices = (double)mq_or_1(s.dp) * mq_or_1(s.tp) * mq_or_1(s.pp) * mq_or_1(s.cp);

	/* not said: off and on, unless the software knows one way only */
	json_t *sequence = json_object_get(o, "sequence_parallel"), *vocab = json_object_get(o, "vocab_parallel");
	const struct mq_software_space *runs = &mq_question_software(problem->q)->runs;
	s.sequence_parallel = s.tp > 1 && (sequence ? json_is_true(sequence) : !(runs->sequence & MQ_WHOLE));
	s.vocab_parallel = s.tp > 1 && (vocab ? !json_is_false(vocab) : (runs->vocab & MQ_SPLIT) != 0);
	json_object_del(o, "sequence_parallel");
	json_object_del(o, "vocab_parallel");
	if (good && devices > problem->q->cluster->n_devices)
		return mq_bad(err, "exec:%s: answer %llu: a shape of %.0f devices, where there are %u", x->program,
			      (unsigned long long)x->asked, devices, problem->q->cluster->n_devices);
	good = good && (uint64_t)mq_or_1(s.pp) * mq_or_1(s.virtual) <= problem->q->model->n_ops &&
	       read_u32s(o, "stage_layers", arena, (size_t)mq_or_1(s.pp) * mq_or_1(s.virtual), &s.stage_layers) &&
	       read_u32s(o, "device", arena, (size_t)devices, &s.device);
	for (size_t i = 0; good && s.device && i < (size_t)devices; i++)
		good = s.device[i] < problem->q->cluster->n_devices;
	const char *left = json_object_iter_key(json_object_iter(o));
	if (!good || left)
		return mq_bad(err, "exec:%s: answer %llu: a bad shape%s%s; see strategies/README.md", x->program,
			      (unsigned long long)x->asked, good ? ": no " : "", good ? left : "");
	if (!s.stage_layers && /* not said: as the software deals them out */
	    mq_software_stages(mq_question_software(problem->q), problem->q->model, arena, &s) <
		    mq_or_1(s.pp) * mq_or_1(s.virtual))
		s.stage_layers = NULL; /* with idle stages: the verdict says so */
	return mq_plan_from_shape(&s, problem->q->model, problem->q->cluster, arena, plan, err);
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct exec *x = state;
	json_t *answer, *part;
	enum mq_status status = MQ_DONE;

	MQ_TRY(put(x, json_pack("{s:s}", "type", "propose"), err));
	MQ_TRY(get(x, problem, &answer, err));
	if ((part = json_object_get(answer, "plan")))
		status = read_plan(x, part, problem, arena, plan, err);
	else if ((part = json_object_get(answer, "shape")))
		status = read_shape(x, part, problem, arena, plan, err);
	else if ((part = json_object_get(answer, "device_of")))
		status = read_placement(x, part, problem, arena, plan, err);
	else if (!json_is_true(json_object_get(answer, "done")))
		status = mq_bad(err, "exec:%s: answer %llu has none of plan, shape, device_of, done, error", x->program,
				(unsigned long long)x->asked);
	part = json_object_get(answer, "objective");
	if (status == MQ_OK && json_is_number(part))
		plan->engine_objective = json_number_value(part);
	json_decref(answer);
	return status;
}

static json_t *number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static void observe(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
		    const struct mq_result *r)
{
	const struct mq_column *column;
	uint32_t n = mq_table_numbers(MQ_TABLE_observe_json, "step_time_s", &column);
	struct mq_result copy = *r;
	struct exec *x = state;
	struct mq_err lost;
	char hash[24];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)mq_plan_hash(plan));
	json_t *o = json_pack("{s:s, s:I, s:s, s:s}", "type", "observe", "index", (json_int_t)x->observed++,
			      "plan_hash", hash, "verdict", mq_verdict_name(r->verdict));
	mq_assert(o);
	for (uint32_t i = 0; i < n; i++)
		json_object_set_new(o, column[i].name, number(*mq_result_number(&copy, &column[i])));
	json_object_set_new(o, "message", json_string(r->message));
	/* A dead program shows at the next request, whose answer is needed. */
	if (put(x, o, &lost) != MQ_OK)
		return;
}

const struct mq_engine *mq_exec_engine_new(const char *program, const char *options, struct mq_arena *arena)
{
	struct mq_engine *e = mq_arena_alloc(arena, sizeof(*e));
	struct mq_opt *opts = mq_arena_array(arena, 3, struct mq_opt);

	opts[0] = (struct mq_opt)MQ_STR(struct exec, program, program, "command line");
	opts[1] = (struct mq_opt)MQ_STR(struct exec, options, options, "handed to the program");
	*e = (struct mq_engine){
		MQ_ENGINE_HEAD("exec"),
		.summary = "a program that speaks JSON lines",
		.opts = opts,
		.state_size = sizeof(struct exec),
		.batch = 1,
		.start = start,
		.propose = propose,
		.observe = observe,
		.stop = stop,
	};
	return e;
}
