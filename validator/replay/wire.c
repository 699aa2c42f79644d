/* wire.c - rings in shared memory between the ranks of one machine: see maquette/wire.h.
 *
 * Rank 0 makes an anonymous memory file (memfd), which the others open through /proc, so that no file is left behind.
 * Each ordered pair of ranks has a ring. The receiver announces the receives it has posted (tag and bytes); the sender
 * matches its posted sends with announcements in any order and streams one message after another, each a header and its
 * bytes. So a message whose receive is not posted never blocks another.
 *
 * Positions count bytes since the beginning and never wrap; the ring's offset is position modulo size. Each is written
 * by one side only. A frame starts at a multiple of LINE. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/replay.h"
#include "maquette/wire.h"

enum { RING_B = 4 << 20, LINE = 64, ASKS = 64, PAGE = 4096 };

struct announcement {
	uint64_t tag, bytes;
};

struct control {
	_Alignas(LINE) _Atomic uint64_t head;  /* sender: end of the bytes written */
	_Alignas(LINE) _Atomic uint64_t tail;  /* receiver: end of the bytes taken */
	_Alignas(LINE) _Atomic uint64_t asked; /* receiver: announcements made */
	_Alignas(LINE) _Atomic uint64_t heard; /* sender: announcements taken */
	_Alignas(LINE) struct announcement ask[ASKS];
};

/* This rank's end of the ring to or from a peer. */
struct lane {
	struct control *control;
	char *data;
	struct mq_transfer *first, *last; /* posted, in order, until done */
	uint64_t edge;                    /* start of the next frame; sender: end of the last one begun */
	struct announcement *heard;       /* sender: announcements whose send is not posted yet */
	uint32_t n_heard, heard_room;
	uint32_t n_silent; /* receiver: posted receives not announced yet */
};

struct mq_wire {
	struct mq_arena arena; /* separate: announcements arrive while the session runs */
	uint32_t rank, size;
	char *map;
	size_t map_B;
	struct lane *to, *from; /* [size] */
};

static size_t ring_B(void)
{
	return (sizeof(struct control) + PAGE - 1) / PAGE * PAGE + RING_B;
}

/* ---- opening --------------------------------------------------------------------------------- */

struct place {
	char host[256], path[64];
	uint64_t bytes;
};

static enum mq_status open_memory(const struct place *place, int *fd, struct mq_err *err)
{
	char here[256] = "";

	gethostname(here, sizeof(here) - 1);
	if (strcmp(here, place->host))
		return mq_bad(err, "ranks on %s and %s: CPUs and GPUs of one plan replay on one machine", place->host,
			      here);
	*fd = open(place->path, O_RDWR | O_CLOEXEC);
	return *fd < 0 ? mq_fail(err, MQ_ENODEV, "rank 0's shared memory %s cannot be opened: %s", place->path,
				 strerror(errno)) :
			 MQ_OK;
}

static struct lane lane_at(const struct mq_wire *w, uint32_t from, uint32_t to)
{
	char *at = w->map + ((size_t)from * w->size + to) * ring_B();

	return (struct lane){ .control = (struct control *)(void *)at, .data = at + ring_B() - RING_B };
}

enum mq_status replay_wire_open(const struct mq_ranks *ranks, struct mq_arena *arena, struct mq_wire **wire,
				struct mq_err *err)
{
	struct mq_wire *w = mq_arena_array(arena, 1, struct mq_wire);
	struct place place = { .bytes = (size_t)ranks->size * ranks->size * ring_B() };
	int fd = -1;

	*w = (struct mq_wire){ .arena = MQ_ARENA_INIT,
			       .rank = ranks->rank,
			       .size = ranks->size,
			       .map_B = place.bytes,
			       .to = mq_arena_array(arena, ranks->size, struct lane),
			       .from = mq_arena_array(arena, ranks->size, struct lane) };
	if (!ranks->rank) {
		fd = memfd_create("maquette-wire", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)place.bytes))
			return mq_fail(err, MQ_ENODEV, "no shared memory for the ranks' messages: %s", strerror(errno));
		snprintf(place.path, sizeof(place.path), "/proc/%d/fd/%d", (int)getpid(), fd);
		gethostname(place.host, sizeof(place.host) - 1);
	}
	MQ_TRY(ranks->broadcast(ranks->state, &place, sizeof(place), err));
	if (ranks->rank)
		MQ_TRY(open_memory(&place, &fd, err));
	w->map = mmap(NULL, w->map_B, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int why = errno;
	/* Rank 0 keeps the file open until all have it. */
	enum mq_status status = ranks->barrier(ranks->state, err);
	close(fd);
	if (w->map == MAP_FAILED)
		return mq_fail(err, MQ_ENODEV, "shared memory of the ranks cannot be mapped: %s", strerror(why));
	for (uint32_t i = 0; i < w->size; i++) {
		w->to[i] = lane_at(w, w->rank, i);
		w->from[i] = lane_at(w, i, w->rank);
	}
	*wire = w;
	return status;
}

void replay_wire_close(struct mq_wire *w)
{
	if (!w)
		return;
	if (w->map != MAP_FAILED)
		munmap(w->map, w->map_B);
	mq_arena_fini(&w->arena);
}

void *mq_wire_memory(struct mq_wire *w, uint32_t peer, bool to, size_t *bytes)
{
	*bytes = RING_B;
	return (to ? w->to : w->from)[peer].data;
}

/* ---- transfers ------------------------------------------------------------------------------- */

void mq_wire_post(struct mq_wire *w, struct mq_transfer *t)
{
	struct lane *lane = &(t->send ? w->to : w->from)[t->peer];

	t->done = t->active = false;
	t->moved = 0;
	t->next = NULL;
	if (lane->first)
		lane->last->next = t;
	else
		lane->first = t;
	lane->last = t;
	lane->n_silent += !t->send;
}

static void finish(struct lane *lane, struct mq_transfer *t)
{
	struct mq_transfer **at = &lane->first, *before = NULL;

	while (*at != t) {
		before = *at;
		at = &(*at)->next;
	}
	*at = t->next;
	if (lane->last == t)
		lane->last = before;
	t->active = false;
	t->done = true;
}

static struct mq_transfer *find(const struct lane *lane, uint64_t tag)
{
	struct mq_transfer *t = lane->first;

	while (t && (t->tag != tag || t->active))
		t = t->next;
	return t;
}

/* Announces receives in the order of posting; those without room in the list wait. */
static void announce(struct lane *lane)
{
	struct control *c = lane->control;
	const struct mq_transfer *t = lane->first;
	uint32_t skip = 0;

	if (!lane->n_silent)
		return;
	for (const struct mq_transfer *u = t; u; u = u->next)
		skip++;
	for (; skip > lane->n_silent; skip--)
		t = t->next;
	for (; t; t = t->next) {
		uint64_t n = atomic_load_explicit(&c->asked, memory_order_relaxed);

		if (n - atomic_load_explicit(&c->heard, memory_order_acquire) >= ASKS)
			return;
		c->ask[n % ASKS] = (struct announcement){ t->tag, t->bytes };
		atomic_store_explicit(&c->asked, n + 1, memory_order_release);
		lane->n_silent--;
	}
}

static void take_announcements(struct mq_wire *w, struct lane *lane)
{
	struct control *c = lane->control;
	uint64_t n = atomic_load_explicit(&c->heard, memory_order_relaxed);
	uint64_t asked = atomic_load_explicit(&c->asked, memory_order_acquire);

	for (; n < asked; n++)
		MQ_PUSH(&w->arena, lane->heard, lane->n_heard, lane->heard_room, c->ask[n % ASKS]);
	atomic_store_explicit(&c->heard, n, memory_order_release);
}

/* Makes `t` the transfer whose frame begins at the lane's edge. */
static void take_frame(struct lane *lane, struct mq_transfer *t)
{
	t->first = lane->edge + LINE;
	t->last = lane->edge = t->first + (t->bytes + LINE - 1) / LINE * LINE; /* whole lines */
	t->active = true;
}

/* Begins a frame if its header fits; the bytes follow when there is room. */
static bool begin_frame(struct lane *lane, struct mq_transfer *t)
{
	struct control *c = lane->control;
	uint64_t at = lane->edge;

	if (at + LINE - atomic_load_explicit(&c->tail, memory_order_acquire) > RING_B)
		return false;
	struct announcement header = { t->tag, t->bytes };
	memcpy(lane->data + at % RING_B, &header, sizeof(header));
	take_frame(lane, t);
	atomic_store_explicit(&c->head, at + LINE, memory_order_release);
	return true;
}

static void send_side(struct mq_wire *w, struct lane *lane)
{
	uint64_t tail = atomic_load_explicit(&lane->control->tail, memory_order_acquire);
	bool busy = false;

	for (struct mq_transfer *t = lane->first, *next; t; t = next) {
		next = t->next;
		if (t->active && t->moved == t->bytes && tail >= t->last)
			finish(lane, t);
		else if (t->active && t->moved < t->bytes)
			busy = true;
	}
	if (busy || !lane->first)
		return;
	take_announcements(w, lane);
	for (uint32_t i = 0; i < lane->n_heard; i++) {
		struct mq_transfer *t = find(lane, lane->heard[i].tag);

		if (!t)
			continue;
		mq_assert(t->bytes == lane->heard[i].bytes);
		if (!begin_frame(lane, t))
			return;
		memmove(&lane->heard[i], &lane->heard[i + 1], (--lane->n_heard - i) * sizeof(*lane->heard));
		i--;
		if (t->bytes)
			return; /* one message at a time */
	}
}

static void receive_side(struct lane *lane)
{
	struct control *c = lane->control;

	announce(lane);
	for (;;) {
		uint64_t head = atomic_load_explicit(&c->head, memory_order_acquire);
		struct announcement header;

		for (const struct mq_transfer *t = lane->first; t; t = t->next)
			if (t->active)
				return;
		if (!lane->first || head < lane->edge + LINE)
			return;
		memcpy(&header, lane->data + lane->edge % RING_B, sizeof(header));
		struct mq_transfer *t = find(lane, header.tag);
		mq_assert(t && t->bytes == header.bytes);
		take_frame(lane, t);
		atomic_store_explicit(&c->tail, t->first, memory_order_release);
		if (t->bytes)
			return;
		finish(lane, t);
	}
}

void mq_wire_progress(struct mq_wire *w)
{
	for (uint32_t i = 0; i < w->size; i++) {
		if (w->to[i].first)
			send_side(w, &w->to[i]);
		if (w->from[i].first)
			receive_side(&w->from[i]);
	}
}

void *mq_wire_span(struct mq_wire *w, const struct mq_transfer *t, size_t ahead, size_t *bytes)
{
	struct lane *lane = &(t->send ? w->to : w->from)[t->peer];
	uint64_t at = t->first + t->moved + ahead, limit;

	*bytes = 0;
	if (!t->active || t->moved + ahead >= t->bytes)
		return NULL;
	limit = t->send ? atomic_load_explicit(&lane->control->tail, memory_order_acquire) + RING_B :
			  atomic_load_explicit(&lane->control->head, memory_order_acquire);
	if (limit <= at)
		return NULL;
	uint64_t n = t->bytes - t->moved - ahead, to_end = RING_B - at % RING_B;
	n = n < limit - at ? n : limit - at;
	n = n < to_end ? n : to_end;
	*bytes = n < MQ_WIRE_PART_B ? (size_t)n : MQ_WIRE_PART_B;
	return lane->data + at % RING_B;
}

void mq_wire_advance(struct mq_wire *w, struct mq_transfer *t, size_t bytes)
{
	struct lane *lane = &(t->send ? w->to : w->from)[t->peer];

	t->moved += bytes;
	uint64_t at = t->moved == t->bytes ? t->last : t->first + t->moved;
	atomic_store_explicit(t->send ? &lane->control->head : &lane->control->tail, at, memory_order_release);
	if (!t->send && t->moved == t->bytes)
		finish(lane, t);
}

void mq_wire_move(struct mq_wire *w, struct mq_transfer *t, void *data)
{
	size_t n;
	void *at;

	mq_wire_progress(w);
	while ((at = mq_wire_span(w, t, 0, &n))) {
		if (t->send)
			memcpy(at, (const char *)data + t->moved, n);
		else
			memcpy((char *)data + t->moved, at, n);
		mq_wire_advance(w, t, n);
	}
}

/* ---- sharing --------------------------------------------------------------------------------- */

enum { SHARE_TAG_BIT = 62 };

static enum mq_status finish_all(const struct mq_replay_session *session, struct mq_transfer *t, uint32_t n, void *data,
				 struct mq_err *err)
{
	const struct mq_ranks *r = session->ranks;
	double until = r->now(r->state) + session->options->deadline_s;

	for (uint32_t i = 0; i < n;) {
		mq_wire_move(session->wire, &t[i], data);
		if (t[i].done) {
			i++;
			continue;
		}
		MQ_TRY(r->alive(r->state, err));
		if (r->now(r->state) > until)
			return mq_fail(err, MQ_ETIME, "rank %u did not open before the deadline", t[i].peer);
		usleep(100);
	}
	return MQ_OK;
}

enum mq_status mq_wire_share(const struct mq_replay_session *session, void *data, size_t size, struct mq_err *err)
{
	const struct mq_ranks *r = session->ranks;
	struct mq_transfer *t;
	uint32_t first = 0, n = 0;

	if (!session->wire)
		return r->broadcast(r->state, data, size, err);
	t = mq_arena_array(session->arena, r->size, struct mq_transfer);
	while (session->owner[first] != session->owner[r->rank])
		first++;
	for (uint32_t i = first + 1; i < session->n_devices; i++)
		if (session->owner[i] == session->owner[first] && (r->rank == first || r->rank == i))
			t[n++] = (struct mq_transfer){ .peer = r->rank == first ? i : first,
						       .send = r->rank == first,
						       .tag = 1ull << SHARE_TAG_BIT,
						       .bytes = size };
	for (uint32_t i = 0; i < n; i++)
		mq_wire_post(session->wire, &t[i]);
	return finish_all(session, t, n, data, err);
}
