/*
 * meet.c - ranks find each other and talk without MPI: a star of TCP connections around rank 0.
 *
 * "file:PATH": rank 0 listens on a port of its choice and writes "address port" to PATH (by rename,
 * so that nobody reads half of it); "tcp:HOST:PORT": a port agreed on (torchrun's MASTER_ADDR and
 * MASTER_PORT). Used for barriers, NCCL's ids, gathering times and noticing dead ranks; never for
 * the traffic that is measured. All waits end at the deadline and name the rank that is missing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/opt.h"
#include "replay/replay.h"

enum { MAX_RANKS = REPLAY_MEET_MAX, CLOCK_ROUNDS = 50 };

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double meet_now(void *state)
{
	const struct replay_meet *meet = state;

	return now_s() + meet->clock_offset_s;
}

/* ---- bytes under a deadline ------------------------------------------------------------------ */

static enum mq_status lost(uint32_t peer, const char *why, struct mq_err *err)
{
	return mq_fail(err, MQ_ETIME, "rank %u %s", peer, why);
}

static enum mq_status wait_for(int fd, short events, double until, uint32_t peer,
                               struct mq_err *err)
{
	struct pollfd p = {fd, events, 0};
	double left = until - now_s();

	if (left <= 0 || poll(&p, 1, (int)ceil(1e3 * left)) == 0)
		return lost(peer, "did not answer before the deadline", err);
	return MQ_OK;
}

static enum mq_status put(const struct replay_meet *m, uint32_t peer, const void *data, size_t size,
                          struct mq_err *err)
{
	const char *from = data;
	double until = now_s() + m->deadline_s;

	while (size) {
		ssize_t n = send(m->fd[peer], from, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return lost(peer, "died (its connection closed)", err);
		if (n > 0) {
			from += n;
			size -= (size_t)n;
		} else {
			MQ_TRY(wait_for(m->fd[peer], POLLOUT, until, peer, err));
		}
	}
	return MQ_OK;
}

static enum mq_status get(const struct replay_meet *m, uint32_t peer, void *data, size_t size,
                          struct mq_err *err)
{
	char *to = data;
	double until = now_s() + m->deadline_s;

	while (size) {
		ssize_t n = recv(m->fd[peer], to, size, MSG_DONTWAIT);

		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
			return lost(peer, "died (its connection closed)", err);
		if (n > 0) {
			to += n;
			size -= (size_t)n;
		} else {
			MQ_TRY(wait_for(m->fd[peer], POLLIN, until, peer, err));
		}
	}
	return MQ_OK;
}

/* ---- finding each other ---------------------------------------------------------------------- */

static enum mq_status listen_at(const char *port, int *fd, uint16_t *bound, struct mq_err *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_addr.s_addr = htonl(INADDR_ANY),
	                              .sin_port = htons((uint16_t)atoi(port))};
	socklen_t size = sizeof(address);
	int yes = 1;

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return mq_fail(err, MQ_ENODEV, "no socket for the ranks to meet: %s",
		               strerror(errno));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(*fd, (struct sockaddr *)&address, sizeof(address)) || listen(*fd, MAX_RANKS) ||
	    getsockname(*fd, (struct sockaddr *)&address, &size))
		return mq_fail(err, MQ_EINPUT, "the ranks cannot meet at port %s: %s", port,
		               strerror(errno));
	*bound = ntohs(address.sin_port);
	return MQ_OK;
}

static enum mq_status publish(const char *path, uint16_t port, struct mq_err *err)
{
	char draft[512], host[256] = "127.0.0.1";
	FILE *file;

	snprintf(draft, sizeof(draft), "%s.draft", path);
	gethostname(host, sizeof(host) - 1);
	file = fopen(draft, "w");
	if (!file || fprintf(file, "%s %u\n", host, port) < 0 || fclose(file) ||
	    rename(draft, path))
		return mq_fail(err, MQ_EINPUT, "--rendezvous file:%s cannot be written: %s", path,
		               strerror(errno));
	return MQ_OK;
}

/* Waits for rank 0's address. On one machine the loopback is used, whatever the host is called. */
static enum mq_status look_up(const char *path, double until, char host[256], char port[16],
                              struct mq_err *err)
{
	char here[256] = "";

	gethostname(here, sizeof(here) - 1);
	while (now_s() < until) {
		FILE *file = fopen(path, "r");
		int n = file ? fscanf(file, "%255s %15s", host, port) : 0;

		if (file)
			fclose(file);
		if (n == 2) {
			if (!strcmp(host, here))
				strcpy(host, "127.0.0.1");
			return MQ_OK;
		}
		usleep(5000);
	}
	return mq_fail(err, MQ_ETIME, "rank 0 did not appear at %s before the deadline", path);
}

static enum mq_status accept_all(struct replay_meet *m, int fd, struct mq_err *err)
{
	double until = now_s() + m->deadline_s;

	for (uint32_t n = 1; n < m->size; n++) {
		struct pollfd p = {fd, POLLIN, 0};
		uint32_t who = 0, missing = 1;
		int one, yes = 1;

		while (missing < m->size && m->fd[missing] >= 0)
			missing++;
		if (poll(&p, 1, (int)fmax(0, ceil(1e3 * (until - now_s())))) != 1)
			return lost(missing, "did not come before the deadline", err);
		one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		m->fd[0] = one; /* for get */
		MQ_TRY(get(m, 0, &who, sizeof(who), err));
		m->fd[0] = -1;
		if (who < 1 || who >= m->size || m->fd[who] >= 0)
			return mq_fail(err, MQ_EINPUT,
			               "rank %u came twice or is none of %u: is the "
			               "rendezvous left from another run?",
			               who, m->size);
		m->fd[who] = one;
	}
	return MQ_OK;
}

static enum mq_status connect_to(struct replay_meet *m, const char *host, const char *port,
                                 double until, struct mq_err *err)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	int yes = 1;

	if (getaddrinfo(host, port, &hints, &found))
		return mq_fail(err, MQ_EINPUT, "rank 0's machine '%s' is not known here", host);
	for (;;) {
		m->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (m->fd[0] >= 0 && !connect(m->fd[0], found->ai_addr, found->ai_addrlen))
			break;
		close(m->fd[0]);
		m->fd[0] = -1;
		if (now_s() > until) {
			freeaddrinfo(found);
			return mq_fail(err, MQ_ETIME,
			               "rank 0 did not answer at %s:%s before the deadline", host,
			               port);
		}
		usleep(5000);
	}
	freeaddrinfo(found);
	setsockopt(m->fd[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return put(m, 0, &m->rank, sizeof(m->rank), err);
}

/* Where to meet, when no option says: what torchrun, PMIx and Slurm leave in the environment. */
static enum mq_status place_of(const struct mq_replay_options *o, char place[320],
                               struct mq_err *err)
{
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
	const char *job = getenv("PMIX_NAMESPACE");

	if (!job)
		job = getenv("SLURM_JOB_ID");
	if (o->rendezvous && o->rendezvous[0])
		snprintf(place, 320, "%s", o->rendezvous);
	else if (host && port)
		snprintf(place, 320, "tcp:%s:%s", host, port);
	else if (job)
		snprintf(place, 320, "file:/tmp/maquette-%.200s", job);
	else
		return mq_fail(err, MQ_EINPUT,
		               "where do the ranks meet? Give --rendezvous file:PATH or "
		               "tcp:HOST:PORT");
	return MQ_OK;
}

static enum mq_status meet_at(struct replay_meet *m, char *place, struct mq_err *err)
{
	char host[256] = "", port[16] = "0", *colon;
	double until = now_s() + m->deadline_s;
	bool file = !strncmp(place, "file:", 5);
	uint16_t bound = 0;
	int fd;

	if (!file && (strncmp(place, "tcp:", 4) || !(colon = strrchr(place + 4, ':'))))
		return mq_fail(err, MQ_EINPUT,
		               "--rendezvous %s: neither file:PATH nor tcp:HOST:PORT", place);
	if (!file) {
		snprintf(port, sizeof(port), "%s", colon + 1);
		*colon = '\0';
		snprintf(host, sizeof(host), "%.255s", place + 4);
	}
	if (m->rank) {
		if (file)
			MQ_TRY(look_up(place + 5, until, host, port, err));
		return connect_to(m, host, port, until, err);
	}
	MQ_TRY(listen_at(port, &fd, &bound, err));
	enum mq_status status = file ? publish(place + 5, bound, err) : MQ_OK;
	if (status == MQ_OK)
		status = accept_all(m, fd, err);
	close(fd);
	if (file)
		unlink(place + 5);
	return status;
}

/* Half way through the fastest of many round trips with rank 0 (Cristian, 1989). */
static enum mq_status align_clock(struct replay_meet *m, struct mq_err *err)
{
	double best = INFINITY, sent, theirs, back;

	for (uint32_t peer = 1; peer < m->size; peer++)
		for (int i = 0; i < CLOCK_ROUNDS; i++) {
			if (!m->rank) {
				MQ_TRY(get(m, peer, &sent, sizeof(sent), err));
				theirs = now_s();
				MQ_TRY(put(m, peer, &theirs, sizeof(theirs), err));
			} else if (m->rank == peer) {
				sent = now_s();
				MQ_TRY(put(m, 0, &sent, sizeof(sent), err));
				MQ_TRY(get(m, 0, &theirs, sizeof(theirs), err));
				back = now_s();
				if (back - sent < best) {
					best = back - sent;
					m->clock_offset_s = theirs - (sent + back) / 2;
				}
			}
		}
	/* Within the uncertainty of a machine's own clock there is nothing to correct. */
	if (fabs(m->clock_offset_s) < 2 * best && best < 1e-3)
		m->clock_offset_s = 0;
	return MQ_OK;
}

enum mq_status replay_meet_open(struct replay_meet *m, const struct mq_replay_options *o,
                                struct mq_err *err)
{
	char place[320];

	*m = (struct replay_meet){
	        .rank = o->rank, .size = o->size ? o->size : 1, .deadline_s = o->deadline_s};
	for (int i = 0; i < MAX_RANKS; i++)
		m->fd[i] = -1;
	if (m->size > MAX_RANKS)
		return mq_fail(err, MQ_EINPUT, "%u ranks: at most %d can meet", m->size, MAX_RANKS);
	if (m->size == 1)
		return MQ_OK;
	MQ_TRY(place_of(o, place, err));
	MQ_TRY(meet_at(m, place, err));
	return align_clock(m, err);
}

void replay_meet_close(struct replay_meet *m)
{
	for (uint32_t i = 0; i < m->size && i < MAX_RANKS; i++)
		if (m->fd[i] >= 0) /* size 0: never opened */
			close(m->fd[i]);
	m->size = 0;
}

/* ---- talking --------------------------------------------------------------------------------- */

static enum mq_status meet_barrier(void *state, struct mq_err *err)
{
	const struct replay_meet *m = state;
	char token = 1;

	if (m->rank) {
		MQ_TRY(put(m, 0, &token, 1, err));
		return get(m, 0, &token, 1, err);
	}
	for (uint32_t i = 1; i < m->size; i++)
		MQ_TRY(get(m, i, &token, 1, err));
	for (uint32_t i = 1; i < m->size; i++)
		MQ_TRY(put(m, i, &token, 1, err));
	return MQ_OK;
}

static enum mq_status meet_broadcast(void *state, void *data, size_t size, struct mq_err *err)
{
	const struct replay_meet *m = state;

	if (m->rank)
		return get(m, 0, data, size, err);
	for (uint32_t i = 1; i < m->size; i++)
		MQ_TRY(put(m, i, data, size, err));
	return MQ_OK;
}

static enum mq_status meet_gather(void *state, const void *mine, void *all, const uint32_t *bytes,
                                  struct mq_err *err)
{
	const struct replay_meet *m = state;
	char *to = all;

	if (m->rank)
		return put(m, 0, mine, bytes[m->rank], err);
	memcpy(to, mine, bytes[0]);
	for (uint32_t i = 1; i < m->size; i++) {
		to += bytes[i - 1];
		MQ_TRY(get(m, i, to, bytes[i], err));
	}
	return MQ_OK;
}

static enum mq_status meet_alive(void *state, struct mq_err *err)
{
	const struct replay_meet *m = state;
	char byte;

	for (uint32_t i = 0; i < m->size; i++)
		if (m->fd[i] >= 0 && recv(m->fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
			return lost(i, "died (its connection closed)", err);
	return MQ_OK;
}

struct mq_ranks replay_meet_ranks(struct replay_meet *meet)
{
	return (struct mq_ranks){.rank = meet->rank,
	                         .size = meet->size,
	                         .state = meet,
	                         .now = meet_now,
	                         .barrier = meet_barrier,
	                         .broadcast = meet_broadcast,
	                         .gather = meet_gather,
	                         .alive = meet_alive};
}
