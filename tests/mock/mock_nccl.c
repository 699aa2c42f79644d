/*
 * mock_nccl.c - communicators whose calls last a + S/b from the arrival of the last rank: see
 * mock.h.
 *
 * Ranks meet in a file under /dev/shm that the unique id names: how many have joined, and for each
 * of the last calls of the communicator who has arrived, when, with what call, and its data.
 * Calls of a communicator run one after another, so a rank that arrives at call i has seen all ranks
 * arrive at i - 1 and leave i - 2: few places are enough.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "mock.h"

enum { MAX_RANKS = 16, PLACES = 4, DATA_B = 4096 };

enum what { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, MESSAGES, N_WHATS };
static const char *const what_name[N_WHATS] = { "all_reduce", "all_gather", "reduce_scatter",
						"broadcast",  "reduce",     "messages" };

/* What a rank calls; all ranks of a call say the same, except that one's sends are others' receives. */
struct terms {
	int what, type, root;
	size_t count;
	size_t sent_B[MAX_RANKS], received_B[MAX_RANKS];
};

struct meeting {
	atomic_ulong arrived; /* ever, at this place */
	double at_s[MAX_RANKS];
	struct terms terms[MAX_RANKS];
	char data[MAX_RANKS][DATA_B];
};

struct shared {
	atomic_uint joined, left;
	struct meeting place[PLACES];
};

struct ncclComm {
	struct shared *shared;
	char path[128], algo[32], proto[32];
	int n, rank;
	unsigned next, ended;
	int failed;
	atomic_int aborted;
};

struct call {
	struct ncclComm *comm;
	unsigned index;
	int posted, never, wrong;
	struct terms terms;
	const char *in;
	char *out;
	/* Messages: by peer. */
	const char *from[MAX_RANKS];
	char *to[MAX_RANKS];
};

static int n_calls, in_group, n_groups;
static char last_error[64];
enum { MAX_PENDING = 256 };
static struct {
	struct call *call;
	cudaStream_t stream;
} pending[MAX_PENDING];
static int n_pending;

/* ---- planted faults -------------------------------------------------------------------------- */

static int fault(const char *kind, int call)
{
	const char *text = getenv("MOCK_FAIL"), *rank = getenv("MAQUETTE_RANK");
	char wanted[32];
	int who, at;

	if (!text || sscanf(text, "%31[a-z-]:%d:%d", wanted, &who, &at) != 3 || strcmp(wanted, kind))
		return 0;
	return (who < 0 || atoi(rank ? rank : "0") == who) && (call < 0 || call == at);
}

static ncclResult_t refuse(int code, const char *why)
{
	snprintf(last_error, sizeof(last_error), "%s", why);
	return (ncclResult_t)code;
}

/* ---- data ------------------------------------------------------------------------------------ */

static double size_of(int type)
{
	switch (type) {
	case ncclFloat64:
		return 8;
	case ncclFloat32:
		return 4;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	default:
		return 1;
	}
}

/* Bytes that a rank brings, and gets. */
static double in_B(const struct call *c)
{
	double one = (double)c->terms.count * size_of(c->terms.type);

	return c->terms.what == REDUCE_SCATTER ? one * c->comm->n : one;
}

static double out_B(const struct call *c)
{
	double one = (double)c->terms.count * size_of(c->terms.type);

	return c->terms.what == ALL_GATHER ? one * c->comm->n : one;
}

static void bring(const struct call *c, char *data)
{
	const struct terms *t = &c->terms;
	size_t at = 0;

	if (t->what != MESSAGES) {
		if (in_B(c) <= DATA_B && mock_data(c->in, (size_t)in_B(c)))
			memcpy(data, c->in, (size_t)in_B(c));
		return;
	}
	for (int p = 0; p < c->comm->n; at += t->sent_B[p++])
		if (at + t->sent_B[p] <= DATA_B && mock_data(c->from[p], t->sent_B[p]))
			memcpy(data + at, c->from[p], t->sent_B[p]);
}

static void take_messages(const struct call *c, const struct meeting *m)
{
	for (int p = 0; p < c->comm->n; p++) {
		size_t at = 0, bytes = c->terms.received_B[p];

		for (int before = 0; before < c->comm->rank; before++)
			at += m->terms[p].sent_B[before];
		if (at + bytes <= DATA_B && mock_data(c->to[p], bytes))
			memcpy(c->to[p], m->data[p] + at, bytes);
	}
}

/* Sums are of fp32. */
static void take(const struct call *c, const struct meeting *m)
{
	const struct terms *t = &c->terms;
	size_t bytes = (size_t)out_B(c), one = (size_t)((double)t->count * size_of(t->type));
	size_t first = t->what == REDUCE_SCATTER ? (size_t)c->comm->rank * t->count : 0;
	float *out = (float *)(void *)c->out;

	if (t->what == MESSAGES) {
		take_messages(c, m);
		return;
	}
	if (in_B(c) > DATA_B || !mock_data(c->out, bytes) || (t->what == REDUCE && t->root != c->comm->rank))
		return;
	if (t->what == BROADCAST)
		memcpy(out, m->data[t->root], one);
	for (int r = 0; t->what == ALL_GATHER && r < c->comm->n; r++)
		memcpy(c->out + (size_t)r * one, m->data[r], one);
	if (t->what == BROADCAST || t->what == ALL_GATHER)
		return;
	for (size_t i = 0; i < t->count; i++) {
		out[i] = 0;
		for (int r = 0; r < c->comm->n; r++)
			out[i] += ((const float *)(const void *)m->data[r])[first + i];
	}
}

/* ---- meeting --------------------------------------------------------------------------------- */

static void compare(const struct call *c, const struct meeting *m)
{
	const struct terms *mine = &c->terms;

	for (int r = 0; r < c->comm->n; r++) {
		const struct terms *theirs = &m->terms[r];

		if (theirs->what != mine->what || theirs->type != mine->type || theirs->root != mine->root ||
		    theirs->count != mine->count)
			mock_wrong("call %u of a communicator: member %d calls %s of %zu x type %d "
				   "root %d, member %d %s of %zu x type %d root %d",
				   c->index, c->comm->rank, what_name[mine->what], mine->count, mine->type, mine->root,
				   r, what_name[theirs->what], theirs->count, theirs->type, theirs->root);
		if (mine->received_B[r] != theirs->sent_B[c->comm->rank])
			mock_wrong("call %u of a communicator: member %d receives %zu B from "
				   "member %d, which sends %zu B",
				   c->index, c->comm->rank, mine->received_B[r], r, theirs->sent_B[c->comm->rank]);
	}
}

static int arrived(void *opaque, double own_s, double *last_s)
{
	struct call *c = opaque;
	struct ncclComm *comm = c->comm;
	struct meeting *m = &comm->shared->place[c->index % PLACES];
	unsigned long all = (unsigned long)comm->n * (c->index / PLACES + 1);

	if (c->never || c->index != comm->ended)
		return 0;
	if (!c->posted) {
		m->at_s[comm->rank] = own_s;
		m->terms[comm->rank] = c->terms;
		bring(c, m->data[comm->rank]);
		atomic_fetch_add(&m->arrived, 1);
		c->posted = 1;
	}
	if (atomic_load(&m->arrived) < all)
		return 0;
	*last_s = 0;
	for (int i = 0; i < comm->n; i++)
		*last_s = fmax(*last_s, m->at_s[i]);
	compare(c, m);
	take(c, m);
	if (c->wrong && mock_data(c->out, 4))
		*(float *)(void *)c->out += 1;
	comm->ended++;
	free(c);
	return 1;
}

/* A call ends on all its ranks at once, so its noise is one for all of them. */
static double lasts_s(const struct call *c)
{
	uint64_t key = (uint64_t)c->comm->n << 32 | c->index;
	double bytes = fmax(in_B(c), out_B(c)), sent = 0, received = 0;

	for (int p = 0; p < c->comm->n; p++) {
		sent += (double)c->terms.sent_B[p];
		received += (double)c->terms.received_B[p];
	}
	bytes += fmax(sent, received);
	return (MOCK_CALL_A_S + bytes / MOCK_CALL_BPS) * mock_noise(key);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What enqueuing costs the host. */
static void launch(void)
{
	const char *text = getenv("MOCK_LAUNCH_US");
	struct timespec t;
	double until, now;

	if (!text)
		return;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
	for (until = now + 1e-6 * atof(text); now < until;) {
		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
	}
}

static void write_log(const struct call *c, cudaStream_t stream, int group)
{
	const struct terms *t = &c->terms;

	if (t->what != MESSAGES) {
		mock_log(stream, "%s type %d count %zu root %d ranks %d algo %s proto %s group %d", what_name[t->what],
			 t->type, t->count, t->root, c->comm->n, c->comm->algo, c->comm->proto, group);
		return;
	}
	for (int p = 0; p < c->comm->n; p++) {
		if (c->from[p])
			mock_log(stream, "send %zu to %d ranks %d group %d", t->sent_B[p], p, c->comm->n, group);
		if (c->to[p])
			mock_log(stream, "recv %zu from %d ranks %d group %d", t->received_B[p], p, c->comm->n, group);
	}
}

static ncclResult_t issue(struct call *c, cudaStream_t stream, int group)
{
	struct ncclComm *comm = c->comm;
	int call = n_calls++;

	if (fault("die", call))
		raise(SIGKILL);
	if (fault("refuse", call))
		return refuse(5, "planted by the mock");
	if (fault("error", call))
		comm->failed = 1;
	while (fault("stuck", call) && !atomic_load(&comm->aborted))
		usleep(1000);
	if (atomic_load(&comm->aborted))
		return refuse(2, "aborted");
	launch();
	c->index = comm->next++;
	c->never = fault("hang", call) || comm->failed;
	c->wrong = fault("wrong", call);
	write_log(c, stream, group);
	mock_enqueue(stream,
		     (struct mock_op){ .kind = MOCK_CALL, .arrived = arrived, .call = c, .seconds = lasts_s(c) });
	return ncclSuccess;
}

/* Inside a group calls wait for its end; messages of one communicator are one call then. */
static ncclResult_t add(struct call *c, cudaStream_t stream)
{
	if (!in_group)
		return issue(c, stream, 0);
	if (n_pending == MAX_PENDING)
		return refuse(5, "more calls in a group than the mock has room for");
	pending[n_pending].call = c;
	pending[n_pending++].stream = stream;
	return ncclSuccess;
}

static struct call *new_call(struct ncclComm *comm, enum what what)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->comm = comm;
	c->terms.what = what;
	return c;
}

static ncclResult_t collective(ncclComm_t comm, enum what what, const void *in, void *out, size_t count,
			       ncclDataType_t type, int root, cudaStream_t stream)
{
	struct call *c = new_call(comm, what);

	if (root < 0 || root >= comm->n)
		return refuse(4, "the root is no member");
	c->in = in;
	c->out = out;
	c->terms.type = (int)type;
	c->terms.count = count;
	c->terms.root = root;
	mock_extent(in, in_B(c), what_name[what]);
	mock_extent(out, out_B(c), what_name[what]);
	return add(c, stream);
}

static struct call *messages_of(struct ncclComm *comm, cudaStream_t stream)
{
	for (int i = 0; in_group && i < n_pending; i++)
		if (pending[i].call->comm == comm && pending[i].stream == stream &&
		    pending[i].call->terms.what == MESSAGES)
			return pending[i].call;
	return NULL;
}

static ncclResult_t message(ncclComm_t comm, const void *from, void *to, double bytes, int peer, cudaStream_t stream)
{
	struct call *known = messages_of(comm, stream), *c = known;

	if (peer < 0 || peer >= comm->n)
		return refuse(4, "the peer is no member");
	mock_extent(from ? from : to, bytes, from ? "ncclSend" : "ncclRecv");
	if (!c)
		c = new_call(comm, MESSAGES);
	if (from ? c->from[peer] != NULL : c->to[peer] != NULL)
		return refuse(5, "two messages the same way in a group");
	if (from) {
		c->from[peer] = from;
		c->terms.sent_B[peer] = (size_t)bytes;
	} else {
		c->to[peer] = to;
		c->terms.received_B[peer] = (size_t)bytes;
	}
	return known ? ncclSuccess : add(c, stream);
}

/* ---- the interface --------------------------------------------------------------------------- */

MOCK_API ncclResult_t ncclGetVersion(int *version)
{
	const char *text = getenv("MOCK_NCCL_VERSION");

	*version = text ? atoi(text) : 22809;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	static int n;
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "/dev/shm/mock-nccl-%d-%ld-%d", (int)getpid(), (long)t.tv_nsec,
		 n++);
	return ncclSuccess;
}

/* As NCCL_TOPO_DUMP_FILE has it: all devices behind one socket, joined by an NVSwitch. */
static void dump_topology(void)
{
	const char *path = getenv("NCCL_TOPO_DUMP_FILE"), *devices = getenv("MOCK_DEVICES");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	fputs("<system version=\"1\">\n  <cpu numaid=\"0\">\n", file);
	for (int i = 0; i < (devices ? atoi(devices) : 2); i++)
		fprintf(file,
			"    <pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"32.0 "
			"GT/s "
			"PCIe\" link_width=\"16\">\n      <gpu dev=\"%d\" sm=\"90\" rank=\"%d\" "
			"gdr=\"1\"><nvlink target=\"0000:f0:00.0\" count=\"18\" "
			"tclass=\"0x068000\"/></gpu>\n    </pci>\n",
			16 + i, i, i);
	fputs("  </cpu>\n</system>\n", file);
	fclose(file);
}

static const char *setting(const char *variable)
{
	const char *text = getenv(variable);

	return text ? text : "-";
}

/* Blocks until all ranks are there. */
MOCK_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
	struct ncclComm *c = calloc(1, sizeof(*c));
	int fd = open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (!c || fd < 0 || n > MAX_RANKS || rank < 0 || rank >= n)
		return refuse(5, "no such member"); /* invalid usage */
	if (ftruncate(fd, sizeof(struct shared)))
		return refuse(2, "no room");
	c->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	snprintf(c->path, sizeof(c->path), "%.127s", id.internal);
	snprintf(c->algo, sizeof(c->algo), "%.31s", setting("NCCL_ALGO"));
	snprintf(c->proto, sizeof(c->proto), "%.31s", setting("NCCL_PROTO"));
	c->n = n;
	c->rank = rank;
	if (fault("init-error", -1))
		return refuse(2, "planted by the mock");
	if (!rank)
		dump_topology();
	if (!fault("init-hang", -1))
		atomic_fetch_add(&c->shared->joined, 1);
	while (atomic_load(&c->shared->joined) < (unsigned)n)
		usleep(100);
	*comm = c;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	*error = comm->failed ? (ncclResult_t)2 : ncclSuccess; /* system error */
	if (comm->failed)
		refuse(2, "planted by the mock");
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return in_group ? refuse(5, "a group was not ended") : ncclSuccess;
}

MOCK_API ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (atomic_fetch_add(&comm->shared->left, 1) + 1 == (unsigned)comm->n)
		unlink(comm->path);
	munmap(comm->shared, sizeof(struct shared));
	free(comm);
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	atomic_store(&comm->aborted, 1);
	unlink(comm->path); /* the mapping stays: queues may still look at it */
	return ncclSuccess;
}

MOCK_API const char *ncclGetErrorString(ncclResult_t result)
{
	return (int)result == 2 ? "unhandled system error" :
	       (int)result == 4 ? "invalid argument" :
	       (int)result == 5 ? "invalid usage" :
				  "a mock's error";
}

MOCK_API const char *ncclGetLastError(ncclComm_t comm)
{
	return last_error;
}

/* NVIDIA's header declares these two without saying (void). */
MOCK_API ncclResult_t ncclGroupStart(void);
MOCK_API ncclResult_t ncclGroupEnd(void);

MOCK_API ncclResult_t ncclGroupStart(void)
{
	if (!in_group++)
		n_groups++;
	return ncclSuccess;
}

MOCK_API ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t result = ncclSuccess;

	if (!in_group)
		return refuse(5, "a group was ended that was not begun");
	if (--in_group)
		return ncclSuccess;
	for (int i = 0; i < n_pending && result == ncclSuccess; i++)
		result = issue(pending[i].call, pending[i].stream, n_groups);
	n_pending = 0;
	return result;
}

MOCK_API ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
			       cudaStream_t stream)
{
	return message(comm, data, NULL, (double)count * size_of((int)type), peer, stream);
}

MOCK_API ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
			       cudaStream_t stream)
{
	return message(comm, NULL, data, (double)count * size_of((int)type), peer, stream);
}

MOCK_API ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
				    ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, ALL_REDUCE, in, out, count, type, 0, stream);
}

MOCK_API ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
				    cudaStream_t stream)
{
	return collective(comm, ALL_GATHER, in, out, count, type, 0, stream);
}

MOCK_API ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
					ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, REDUCE_SCATTER, in, out, count, type, 0, stream);
}

MOCK_API ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
				    ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, BROADCAST, in, out, count, type, root, stream);
}

MOCK_API ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
				 ncclComm_t comm, cudaStream_t stream)
{
	return collective(comm, REDUCE, in, out, count, type, root, stream);
}
