/* probes.c - builds micro-benchmarks as schedules, for fitting calibrations.
 *
 * Each probe is a schedule of many tasks in shuffled order, so that drift affects all sizes equally; a task is one
 * library call (on GPUs repeated a few times, as kernels follow each other in a step). Compute probes run on all
 * devices at once, each from another place in the list, as plans use a machine whose devices share memory bandwidth and
 * power. Message sizes are log-uniform random, not powers of two, which would miss protocol switches (Cornebize and
 * Legrand). Before every communication call a 4-byte all-reduce, measured too, synchronises the ranks.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fit/fit.h"

const char *const mq_probe_name[MQ_N_PROBES] = { "gemm", "memory", "attention", "comm", "empty", "overlap" };
enum {
	N_GEMM = 150,
	N_GEMM_OTHER = 24,
	N_BATCHED = 24,
	N_MEMORY = 24,
	N_ATTENTION = 36,
	N_MESSAGES = 40,
	N_CALLS = 36,
	N_EMPTY = 2000,
	N_OVERLAP = 12
};

struct builder {
	const struct mq_probe_request *request;
	struct mq_schedule *schedule;
	struct mq_arena *arena;
	struct mq_rng rng;
};

static double log_uniform(struct mq_rng *rng, double low, double high)
{
	return exp(log(low) + mq_rng_unit(rng) * (log(high) - log(low)));
}

/* ---- pieces of a schedule -------------------------------------------------------------------- */

static struct mq_schedule *new_schedule(const struct mq_probe_request *request, uint32_t probe, struct mq_arena *arena)
{
	struct mq_schedule *s = mq_arena_array(arena, 1, struct mq_schedule);

	s->arena = arena;
	s->model = mq_arena_printf(arena, "probe-%s", mq_probe_name[probe]);
	s->plan_hash = mq_hash(MQ_HASH_INIT, &request->seed, sizeof(request->seed));
	s->n_devices = request->n_devices;
	s->device = mq_arena_array(arena, s->n_devices, uint32_t);
	s->device_name = mq_arena_array(arena, s->n_devices, const char *);
	s->device_type = mq_arena_array(arena, s->n_devices, const char *);
	for (uint32_t i = 0; i < s->n_devices; i++) {
		s->device[i] = i;
		s->device_name[i] = request->device_name[i];
		s->device_type[i] = request->device_type[i];
	}
	return s;
}

static struct mq_task *add_task(struct builder *b, uint32_t device, enum mq_task_kind kind, enum mq_stream stream)
{
	struct mq_schedule *s = b->schedule;
	struct mq_task task = { .device = device,
				.kind = (uint8_t)kind,
				.stream = (uint8_t)stream,
				.work = MQ_NONE,
				.comm = MQ_NONE,
				.peer = MQ_NONE,
				.op = MQ_NONE,
				.micro_batch = MQ_NONE,
				.dtype = MQ_FP32 };

	MQ_PUSH(b->arena, s->task, s->n_tasks, s->task_room, task);
	return &s->task[s->n_tasks - 1];
}

/* Adds a work that repeats a kernel as requested, so that the overhead of a task is small in comparison. */
static uint32_t add_work(struct builder *b, const struct mq_kernel *kernel)
{
	struct mq_schedule *s = b->schedule;
	uint32_t n = b->request->repeats ? b->request->repeats : 1;
	struct mq_work work = { .n_kernels = n,
				.kernel = mq_arena_array(b->arena, n, struct mq_kernel),
				.flop = n * kernel->flop,
				.bytes = n * kernel->bytes };

	for (uint32_t i = 0; i < n; i++)
		work.kernel[i] = *kernel;
	MQ_PUSH(b->arena, s->work, s->n_works, s->work_room, work);
	return s->n_works - 1;
}

/* Adds tasks that run all works once on every device, each in another order. */
static void run_works_everywhere(struct builder *b)
{
	uint32_t n = b->schedule->n_works;
	uint32_t *order = mq_arena_count(b->arena, n);

	for (uint32_t d = 0; d < b->schedule->n_devices; d++) {
		MQ_SHUFFLE(&b->rng, order, n)
		for (uint32_t i = 0; i < n; i++)
			add_task(b, d, MQ_TASK_COMPUTE, MQ_STREAM_COMPUTE)->work = order[i];
	}
}

/* ---- compute --------------------------------------------------------------------------------- */

static struct mq_kernel gemm_kernel(enum mq_kernel_kind kind, enum mq_dtype dtype, double m, double n, double k,
				    double count)
{
	struct mq_kernel g = { .op = MQ_NONE,
			       .kind = (uint8_t)kind,
			       .phase = MQ_FORWARD,
			       .dtype = (uint8_t)dtype,
			       .m = floor(m),
			       .n = floor(n),
			       .k = floor(k),
			       .count = floor(count),
			       .launches = 1 };

	g.flop = 2 * g.m * g.n * g.k * g.count;
	g.bytes = (g.m * g.k + g.k * g.n + g.m * g.n) * g.count * mq_dtype_size(dtype);
	return g;
}

static double whole(double x, double unit)
{
	return fmax(unit, unit * round(x / unit));
}

enum shapes { LAYERS, LARGE, HEADS, ODD };

/* A random GEMM. Layers are at least 128 wide, heads 64, in multiples of 64, with rows in multiples of eight: such
 * strides collide in cache sets, and whole tiles have no edges, so the speed of odd shapes (a few are added) differs.
 * Large layers last long enough to measure their rate. */
static struct mq_kernel random_gemm(struct builder *b, enum mq_dtype dtype, enum shapes shapes, double count)
{
	static const double narrowest[] = { [LAYERS] = 100, [LARGE] = 100, [HEADS] = 40, [ODD] = 16 };
	double most = b->request->speed_flops * 6e-3;
	double least = b->request->speed_flops * (shapes == LARGE ? 400e-6 : 4e-6);
	struct mq_kernel g;

	do {
		double m = log_uniform(&b->rng, shapes == ODD ? 8 : 24, 8192);
		double n = log_uniform(&b->rng, narrowest[shapes], 8192);
		double k = log_uniform(&b->rng, narrowest[shapes], 8192);

		if (shapes != ODD) {
			m = whole(m, dtype == MQ_FP8 ? 16 : 8);
			n = whole(n, 64);
			k = whole(k, 64);
		}
		g = gemm_kernel(MQ_KERNEL_GEMM, dtype, m, n, k, count);
	} while (g.flop > most || g.flop < least);
	return g;
}

/* A random convolution of image networks, with its image: windows of 1 x 1 and 3 x 3. */
static struct mq_kernel random_conv(struct builder *b, enum mq_dtype dtype)
{
	double most = b->request->speed_flops * 6e-3, least = b->request->speed_flops * 4e-6;
	struct mq_kernel g;

	do {
		uint32_t side = 7u << mq_rng_below(&b->rng, 4), window = mq_rng_below(&b->rng, 2) ? 3 : 1;
		double images = 1u << mq_rng_below(&b->rng, 7), channels = 32u << mq_rng_below(&b->rng, 5);

		g = gemm_kernel(MQ_KERNEL_CONV, dtype, images * side * side, 32u << mq_rng_below(&b->rng, 5),
				channels * window * window, 1);
		g.bytes = (images * side * side * (channels + g.n) + g.n * g.k) * mq_dtype_size(dtype);
		g.image = (struct mq_conv_image){ .h = (uint16_t)side,
						  .w = (uint16_t)side,
						  .out_h = (uint16_t)side,
						  .out_w = (uint16_t)side,
						  .kh = (uint8_t)window,
						  .kw = (uint8_t)window,
						  .stride_h = 1,
						  .stride_w = 1 };
	} while (g.flop > most || g.flop < least);
	return g;
}

static void build_gemm(struct builder *b)
{
	const struct mq_probe_request *r = b->request;

	/* A third of the GEMMs are of the forward pass, whose operands have other layouts. */
	for (uint32_t t = 0; t < r->n_dtypes; t++)
		for (uint32_t i = 0; i < (t ? N_GEMM_OTHER : N_GEMM); i++) {
			bool odd = i % 5 == 4 && r->dtype[t] != MQ_FP8; /* fp8 has no odd rows */
			struct mq_kernel g = random_gemm(b, r->dtype[t], odd ? ODD : i % 2 ? LARGE : LAYERS, 1);

			g.phase = i % 3 ? MQ_BACKWARD : MQ_FORWARD;
			add_work(b, &g);
		}
	for (uint32_t i = 0; i < N_BATCHED; i++) {
		double count = floor(log_uniform(&b->rng, 2, 32));
		struct mq_kernel g = i % 2 ? random_conv(b, r->dtype[0]) : random_gemm(b, r->dtype[0], HEADS, count);

		add_work(b, &g);
	}
	run_works_everywhere(b);
}

/* Memory-bound kernels: half are element-wise, half reduce rows, as norms and softmaxes do. */
static void build_memory(struct builder *b)
{
	static const uint8_t kinds[] = { MQ_KERNEL_MEMORY, MQ_KERNEL_MEMORY, MQ_KERNEL_OPTIMIZER, MQ_KERNEL_EMBEDDING,
					 MQ_KERNEL_COPY };
	enum { ROWS = 1 };

	for (size_t k = 0; k < sizeof(kinds); k++)
		for (uint32_t i = 0; i < N_MEMORY; i++) {
			struct mq_kernel m = { .op = MQ_NONE, .kind = kinds[k], .dtype = MQ_FP32, .launches = 1 };

			m.phase = m.kind == MQ_KERNEL_OPTIMIZER ? MQ_UPDATE : MQ_FORWARD;
			m.bytes = floor(log_uniform(&b->rng, 16384, b->request->largest_B));
			if (k == ROWS)
				m.n = whole(log_uniform(&b->rng, 128, 4096), 4);
			add_work(b, &m);
		}
	run_works_everywhere(b);
	for (uint32_t d = 0; d < b->schedule->n_devices; d++)
		for (uint32_t i = 0; i < N_MEMORY; i++) {
			struct mq_task *t = add_task(b, d, MQ_TASK_COPY, MQ_STREAM_COMPUTE);

			t->bytes = floor(log_uniform(&b->rng, 4096, b->request->largest_B));
			t->to_host = i % 2;
		}
}

static void build_attention(struct builder *b)
{
	double most = b->request->speed_flops * 6e-3, least = b->request->speed_flops * 20e-6;

	for (uint32_t i = 0; i < N_ATTENTION; i++) {
		struct mq_kernel a;

		do {
			double seq = 16 * floor(log_uniform(&b->rng, 4, 128));
			double depth = 32 << mq_rng_below(&b->rng, 3);

			a = gemm_kernel(MQ_KERNEL_ATTENTION, b->request->dtype[0], seq, seq, depth,
					log_uniform(&b->rng, 1, 65));
			a.attention = MQ_ATTENTION_TE;
			a.phase = i % 2 ? MQ_BACKWARD : MQ_FORWARD;
			a.flop *= i % 2 ? 4 : 2; /* models count two GEMMs forward, four backward */
			a.bytes = (i % 2 ? 8 : 4) * seq * depth * a.count * mq_dtype_size(b->request->dtype[0]);
		} while (a.flop > most || a.flop < least);
		add_work(b, &a);
	}
	run_works_everywhere(b);
}

/* Many empty kernels: the overhead of a task. */
static void build_empty(struct builder *b)
{
	struct mq_kernel nothing = { .op = MQ_NONE, .kind = MQ_KERNEL_MEMORY, .dtype = MQ_FP32, .launches = 1 };

	add_work(b, &nothing);
	for (uint32_t d = 0; d < b->schedule->n_devices; d++)
		for (uint32_t i = 0; i < N_EMPTY; i++)
			add_task(b, d, MQ_TASK_COMPUTE, MQ_STREAM_COMPUTE)->work = 0;
}

/* ---- communication --------------------------------------------------------------------------- */

static void add_call(struct builder *b, uint32_t comm, enum mq_coll_kind kind, double bytes, enum mq_stream stream)
{
	for (uint32_t i = 0; i < b->schedule->comm[comm].n; i++) {
		struct mq_task *t = add_task(b, b->schedule->comm[comm].rank[i], MQ_TASK_COLLECTIVE, stream);

		t->comm = comm;
		t->coll = (uint8_t)kind;
		t->bytes = bytes;
	}
}

static void add_message(struct builder *b, uint32_t from, uint32_t to, double bytes)
{
	struct mq_task *t = add_task(b, from, MQ_TASK_SEND, MQ_STREAM_COMM);

	t->peer = to;
	t->bytes = bytes;
	t = add_task(b, to, MQ_TASK_RECV, MQ_STREAM_COMM);
	t->peer = from;
	t->bytes = bytes;
}

/* A random size, a multiple of 4 bytes times the ranks, so that every rank's part is whole. The first call of a kind is
 * the largest, up to the last size that is fitted: a few just above the last but one would be extrapolated from. */
static double call_size(struct builder *b, uint32_t n, uint32_t call)
{
	double unit = 4.0 * n, size = log_uniform(&b->rng, 4, b->request->largest_B);

	return unit * ceil((call ? size : fmin(b->request->largest_B, pow(8, MQ_CALL_KNOTS))) / unit);
}

/* A call to measure: a send (kind = MQ_N_COLL_KINDS) or a collective on a communicator. */
struct item {
	uint32_t kind, comm, from, to;
	double bytes;
};

/* All devices, the first half of them, the first quarter ... */
static uint32_t make_comms(struct builder *b)
{
	struct mq_schedule *s = b->schedule;
	uint32_t *all = mq_arena_count(b->arena, s->n_devices);

	for (uint32_t n = s->n_devices; n >= 2; n /= 2) {
		struct mq_comm comm = { .n = n, .rank = all, .purpose = "probe" };

		MQ_PUSH(b->arena, s->comm, s->n_comms, s->comm_room, comm);
	}
	return s->n_comms;
}

static void build_comm(struct builder *b)
{
	uint32_t n_comms = make_comms(b), n = b->schedule->n_devices, count = 0;
	uint32_t total = N_MESSAGES + n_comms * MQ_N_COLL_KINDS * N_CALLS;
	struct item *item = mq_arena_array(b->arena, total, struct item);

	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		uint32_t from = mq_rng_below(&b->rng, n), to = mq_rng_below(&b->rng, n - 1);

		item[count++] = (struct item){ MQ_N_COLL_KINDS, 0, from, to + (to >= from), call_size(b, 1, i) };
	}
	for (uint32_t c = 0; c < n_comms; c++)
		for (uint32_t k = 0; k < MQ_N_COLL_KINDS; k++)
			for (uint32_t i = 0; i < N_CALLS; i++)
				item[count++] = (struct item){ k, c, 0, 0, call_size(b, b->schedule->comm[c].n, i) };
	MQ_SHUFFLE(&b->rng, item, count)
	for (uint32_t i = 0; i < count; i++) {
		add_call(b, 0, MQ_COLL_ALL_REDUCE, 4, MQ_STREAM_COMM);
		if (item[i].kind == MQ_N_COLL_KINDS)
			add_message(b, item[i].from, item[i].to, item[i].bytes);
		else
			add_call(b, item[i].comm, (enum mq_coll_kind)item[i].kind, item[i].bytes, MQ_STREAM_COMM);
	}
}

static void depend_on(struct builder *b, uint32_t task, uint32_t on)
{
	struct mq_schedule *s = b->schedule;

	s->task[task].dep_first = s->n_deps;
	s->task[task].n_deps = 1;
	MQ_PUSH(b->arena, s->dep, s->n_deps, s->dep_room, on);
}

/* Rounds of a GEMM alone, a collective alone, and both at once, of equal shapes and sizes. */
static void build_overlap(struct builder *b)
{
	const struct mq_probe_request *r = b->request;
	uint32_t n = b->schedule->n_devices;
	double side = 64 * floor(cbrt(r->speed_flops * 4e-3 / 2) / 64);
	struct mq_kernel g = gemm_kernel(MQ_KERNEL_GEMM, r->dtype[0], side, side, side, 1);
	uint32_t *last = mq_arena_array(b->arena, n, uint32_t);
	double bytes = 4.0 * n * floor(r->largest_B / 8 / n);

	add_work(b, &g);
	make_comms(b);
	for (uint32_t round = 0; round < N_OVERLAP; round++)
		for (int together = 0; together < 2; together++) {
			uint32_t first = b->schedule->n_tasks;

			for (uint32_t d = 0; d < n; d++) {
				add_task(b, d, MQ_TASK_COMPUTE, MQ_STREAM_COMPUTE)->work = 0;
				if (round || together)
					depend_on(b, first + d, last[d]);
			}
			add_call(b, 0, MQ_COLL_ALL_REDUCE, bytes, MQ_STREAM_GRAD);
			for (uint32_t d = 0; d < n; d++) {
				depend_on(b, first + n + d, together ? last[d] : first + d);
				last[d] = first + n + d;
			}
		}
}

struct mq_schedule *mq_probe_build(const struct mq_probe_request *request, uint32_t probe, struct mq_arena *arena)
{
	static void (*const build[MQ_N_PROBES])(struct builder *) = { build_gemm, build_memory, build_attention,
								      build_comm, build_empty,  build_overlap };
	bool talks = probe == 3 || probe == 5;
	struct builder b = { .request = request, .arena = arena };

	mq_assert(probe < MQ_N_PROBES);
	if (talks && request->n_devices < 2)
		return NULL;
	mq_rng_seed(&b.rng, request->seed * MQ_N_PROBES + probe);
	b.schedule = new_schedule(request, probe, arena);
	build[probe](&b);
	return b.schedule;
}
