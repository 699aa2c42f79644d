/* rendezvous.c - connects the ranks under any launcher: a star of TCP connections around rank 0.
 *
 * "file:PATH": rank 0 listens on a port of its choice and writes "address port token" to PATH (by rename, so that
 * nobody reads half of it); "memory:PATH": the same in a memory file of the launcher, listening on the loopback alone;
 * "tcp:HOST:PORT": a port agreed on (torchrun's MASTER_ADDR and MASTER_PORT). A connection without the run's token
 * (from the file; else a hash of the job's name, which only keeps out strays) is refused. Used for barriers, NCCL's
 * ids, gathering times and detecting dead ranks; never for measured traffic. All waits end at the deadline and name a
 * missing rank. SPDX-License-Identifier: Apache-2.0 */
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
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "maquette/rng.h"
#include "replay/replay.h"

enum { CLOCK_ROUNDS = 50, PLACE_B = 4352 /* a path and its prefix */ };

/* The first message of a rank. */
struct hello {
	uint64_t token;
	uint32_t rank, unused;
};

/* Seconds that a connection may take to send it, while others wait. */
#define HELLO_S 2.

static double rendezvous_now(void *state)
{
	const struct replay_rendezvous *m = state;

	return mq_seconds(CLOCK_MONOTONIC) + m->clock_offset_s;
}

/* ---- bytes under a deadline ------------------------------------------------------------------ */

static enum mq_status lost(uint32_t peer, const char *why, struct mq_err *err)
{
	return mq_fail(err, MQ_ETIME, "rank %u %s", peer, why);
}

enum moved { MOVED, LATE, CLOSED };

/* Sends `out`, or receives into `in`, until a deadline. */
static enum moved move_until(int fd, const char *out, char *in, size_t size, double until)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = out ? send(fd, out + at, size - at, MSG_NOSIGNAL | MSG_DONTWAIT) :
				  recv(fd, in + at, size - at, MSG_DONTWAIT);
		struct pollfd p = { fd, out ? POLLOUT : POLLIN, 0 };
		double left = until - mq_seconds(CLOCK_MONOTONIC);

		if ((!n && in) || (n < 0 && errno != EAGAIN && errno != EINTR))
			return CLOSED;
		if (n > 0)
			at += (size_t)n;
		else if (left <= 0 || poll(&p, 1, (int)ceil(1e3 * left)) == 0)
			return LATE;
	}
	return MOVED;
}

static enum mq_status move_bytes(const struct replay_rendezvous *m, uint32_t peer, const char *out, char *in,
				 size_t size, struct mq_err *err)
{
	enum moved moved = move_until(m->fd[peer], out, in, size, mq_seconds(CLOCK_MONOTONIC) + m->deadline_s);

	return moved == MOVED ?
		       MQ_OK :
		       lost(peer, moved == LATE ? "did not answer before the deadline" : "died (its connection closed)",
			    err);
}

static enum mq_status put(const struct replay_rendezvous *m, uint32_t peer, const void *data, size_t size,
			  struct mq_err *err)
{
	return move_bytes(m, peer, data, NULL, size, err);
}

static enum mq_status get(const struct replay_rendezvous *m, uint32_t peer, void *data, size_t size, struct mq_err *err)
{
	return move_bytes(m, peer, NULL, data, size, err);
}

/* ---- finding each other ---------------------------------------------------------------------- */

static enum mq_status listen_at(const char *port, bool local, int *fd, uint16_t *bound, struct mq_err *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(local ? INADDR_LOOPBACK : INADDR_ANY),
				       .sin_port = htons((uint16_t)atoi(port)) };
	socklen_t size = sizeof(address);
	int yes = 1;

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return mq_fail(err, MQ_ENODEV, "no socket for the ranks to meet: %s", strerror(errno));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(*fd, (struct sockaddr *)&address, sizeof(address)) || listen(*fd, SOMAXCONN) ||
	    getsockname(*fd, (struct sockaddr *)&address, &size))
		return mq_bad(err, "the ranks cannot meet at port %s: %s", port, strerror(errno));
	*bound = ntohs(address.sin_port);
	return MQ_OK;
}

/* Writes address and token, readable by this user alone; does not follow another user's link. */
static enum mq_status publish(const char *path, bool memory, uint16_t port, uint64_t token, struct mq_err *err)
{
	char draft[PLACE_B + 16], host[256] = "127.0.0.1";
	FILE *file;
	int fd;

	snprintf(draft, sizeof(draft), "%s.draft", path);
	gethostname(host, sizeof(host) - 1);
	if (!memory)
		unlink(draft);
	fd = memory ? open(path, O_WRONLY | O_CLOEXEC) :
		      open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!file || fprintf(file, "%s %u %016llx\n", host, port, (unsigned long long)token) < 0 || fclose(file) ||
	    (!memory && rename(draft, path)))
		return mq_bad(err, "--rendezvous %s cannot be written: %s", path, strerror(errno));
	return MQ_OK;
}

/* Does the run have several machines, which share no /tmp? */
static bool several_machines(void)
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES"), *ranks = getenv("OMPI_COMM_WORLD_SIZE"),
		   *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");

	if (!nodes)
		nodes = getenv("SLURM_NNODES");
	return (nodes && strtol(nodes, NULL, 10) > 1) || (ranks && here && strcmp(ranks, here));
}

/* Waits for rank 0's address; on one machine it is the loopback's, whatever the host name. */
static enum mq_status look_up(const char *path, bool memory, double until, char host[256], char port[16],
			      uint64_t *token, struct mq_err *err)
{
	unsigned long long word = 0;
	char here[256] = "";
	struct stat st;

	gethostname(here, sizeof(here) - 1);
	while (mq_seconds(CLOCK_MONOTONIC) < until) {
		int fd = open(path, O_RDONLY | O_CLOEXEC | (memory ? 0 : O_NOFOLLOW));
		bool own = fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid();
		FILE *file = own ? fdopen(fd, "r") : NULL;
		bool whole = file && fscanf(file, "%255s %15s %llx", host, port, &word) == 3 && getc(file) == '\n';

		if (file)
			fclose(file);
		else if (fd >= 0)
			close(fd);
		if (fd >= 0 && !own)
			return mq_bad(err, "--rendezvous %s is of another user; give another path", path);
		*token = word;
		if (whole) {
			if (!strcmp(host, here))
				strcpy(host, "127.0.0.1");
			return MQ_OK;
		}
		usleep(5000);
	}
	return mq_fail(
		err, MQ_ETIME, "rank 0 did not appear at %s before the deadline%s", path,
		several_machines() ?
			": it has to be where all machines see it (--rendezvous file:PATH), or give --rendezvous "
			"tcp:HOST:PORT of rank 0's machine" :
			"");
}

/* The rank that has just connected; 0 = not one of this run, or silent. */
static uint32_t take_hello(const struct replay_rendezvous *m, int fd)
{
	struct hello hello = { 0 };

	if (move_until(fd, NULL, (char *)&hello, sizeof(hello), mq_seconds(CLOCK_MONOTONIC) + HELLO_S) != MOVED)
		return 0;
	return hello.token == m->token && hello.rank < m->size ? hello.rank : 0;
}

static enum mq_status accept_all(struct replay_rendezvous *m, int fd, struct mq_err *err)
{
	double until = mq_seconds(CLOCK_MONOTONIC) + m->deadline_s;

	for (uint32_t n = 1; n < m->size;) {
		struct pollfd p = { fd, POLLIN, 0 };
		uint32_t missing = 1;
		int yes = 1;

		while (missing < m->size && m->fd[missing] >= 0)
			missing++;
		if (poll(&p, 1, (int)fmax(0, ceil(1e3 * (until - mq_seconds(CLOCK_MONOTONIC))))) != 1)
			return lost(missing, "did not come before the deadline", err);
		int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (one < 0)
			continue;
		setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		uint32_t who = take_hello(m, one);
		if (!who) {
			close(one);
			continue;
		}
		if (m->fd[who] >= 0) {
			close(one);
			return mq_bad(err, "rank %u came twice: is the rendezvous that of another run?", who);
		}
		m->fd[who] = one;
		n++;
	}
	return MQ_OK;
}

static enum mq_status connect_to(struct replay_rendezvous *m, const char *host, const char *port, double until,
				 struct mq_err *err)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	int yes = 1;

	if (getaddrinfo(host, port, &hints, &found))
		return mq_bad(err, "rank 0's machine '%s' is not known here", host);
	for (;;) {
		m->fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (m->fd[0] >= 0 && !connect(m->fd[0], found->ai_addr, found->ai_addrlen))
			break;
		close(m->fd[0]);
		m->fd[0] = -1;
		if (mq_seconds(CLOCK_MONOTONIC) > until) {
			freeaddrinfo(found);
			return mq_fail(err, MQ_ETIME, "rank 0 did not answer at %s:%s before the deadline", host, port);
		}
		usleep(5000);
	}
	freeaddrinfo(found);
	setsockopt(m->fd[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	const struct hello hello = { m->token, m->rank, 0 };
	return put(m, 0, &hello, sizeof(hello), err);
}

static const char *job_name(void)
{
	const char *job = getenv("PMIX_NAMESPACE");

	return job ? job : getenv("SLURM_JOB_ID");
}

/* Makes a folder that only this user can write to, so that names in it may be predictable. */
static enum mq_status own_folder(char folder[64], struct mq_err *err)
{
	struct stat st;

	snprintf(folder, 64, "/tmp/maquette-%u", (unsigned)geteuid());
	if (mkdir(folder, 0700) && errno != EEXIST)
		return mq_bad(err, "%s: cannot make it: %s; give --rendezvous", folder, strerror(errno));
	if (lstat(folder, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return mq_bad(err, "%s: others can write there; remove it, or give --rendezvous", folder);
	return MQ_OK;
}

/* The meeting point if no option gives it: from the environment of torchrun, PMIx or Slurm. Ranks of several machines
 * use a file in the working directory, which launchers have them share. */
static enum mq_status place_of(const struct mq_replay_options *o, char place[PLACE_B], struct mq_err *err)
{
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT"), *job = job_name();
	char folder[64];

	if (o->rendezvous && strlen(o->rendezvous) >= PLACE_B)
		return mq_bad(err, "--rendezvous %.40s...: longer than %d bytes", o->rendezvous, PLACE_B - 1);
	if (o->rendezvous && o->rendezvous[0]) {
		snprintf(place, PLACE_B, "%s", o->rendezvous);
	} else if (host && port) {
		/* torchrun's agent listens on that port itself: take the next one. */
		bool taken = getenv("TORCHELASTIC_RUN_ID") != NULL;

		snprintf(place, PLACE_B, "tcp:%s:%ld", host, strtol(port, NULL, 10) + taken);
	} else if (job) {
		bool far = several_machines();

		if (!far)
			MQ_TRY(own_folder(folder, err));
		int at = snprintf(place, PLACE_B, far ? "file:.maquette-" : "file:%s/", folder);
		for (int i = 0; i < 200 && job[i]; i++) /* make it a file name */
			place[at++] = job[i] == '/' ? '_' : job[i];
		place[at] = '\0';
	} else {
		return mq_bad(err, "where do the ranks meet? Give --rendezvous file:PATH or tcp:HOST:PORT");
	}
	return MQ_OK;
}

/* Rank 0: accepts all other ranks at an agreed port, or at one that it writes to a file. */
static enum mq_status host_ranks(struct replay_rendezvous *m, const char *path, const char *port, bool local,
				 struct mq_err *err)
{
	uint16_t bound = 0;
	int fd;

	if (path && getrandom(&m->token, sizeof(m->token), 0) != sizeof(m->token))
		return mq_bad(err, "no random numbers for the ranks' token: %s", strerror(errno));
	MQ_TRY(listen_at(port, local, &fd, &bound, err));
	enum mq_status status = path ? publish(path, local, bound, m->token, err) : MQ_OK;
	if (status == MQ_OK)
		status = accept_all(m, fd, err);
	close(fd);
	if (path && !local)
		unlink(path);
	return status;
}

static enum mq_status rendezvous_at(struct replay_rendezvous *m, char *place, struct mq_err *err)
{
	char host[256] = "", port[16] = "0", *colon = NULL;
	double until = mq_seconds(CLOCK_MONOTONIC) + m->deadline_s;
	bool local = !strncmp(place, "memory:", 7);
	const char *job = job_name();
	char *path = local ? place + 7 : !strncmp(place, "file:", 5) ? place + 5 : NULL;

	if (!path && (strncmp(place, "tcp:", 4) || !(colon = strrchr(place + 4, ':'))))
		return mq_bad(err, "--rendezvous %s: neither file:PATH nor tcp:HOST:PORT", place);
	if (!path) {
		snprintf(port, sizeof(port), "%s", colon + 1);
		*colon = '\0';
		snprintf(host, sizeof(host), "%.255s", place + 4);
		local = !strcmp(host, "localhost") || !strncmp(host, "127.", 4);
		m->token = mq_hash(MQ_HASH_INIT, job ? job : "", job ? strlen(job) : 0);
	}
	if (!m->rank)
		return host_ranks(m, path, port, local, err);
	if (path)
		MQ_TRY(look_up(path, local, until, host, port, &m->token, err));
	return connect_to(m, host, port, until, err);
}

/* Offset by the midpoint of the fastest of many round trips with rank 0 (Cristian, 1989). */
enum mq_status replay_rendezvous_align(struct replay_rendezvous *m, struct mq_err *err)
{
	double best = INFINITY, sent, theirs, back;

	m->clock_offset_s = 0;

	for (uint32_t peer = 1; peer < m->size; peer++)
		for (int i = 0; i < CLOCK_ROUNDS; i++) {
			if (!m->rank) {
				MQ_TRY(get(m, peer, &sent, sizeof(sent), err));
				theirs = mq_seconds(CLOCK_MONOTONIC);
				MQ_TRY(put(m, peer, &theirs, sizeof(theirs), err));
			} else if (m->rank == peer) {
				sent = mq_seconds(CLOCK_MONOTONIC);
				MQ_TRY(put(m, 0, &sent, sizeof(sent), err));
				MQ_TRY(get(m, 0, &theirs, sizeof(theirs), err));
				back = mq_seconds(CLOCK_MONOTONIC);
				if (back - sent < best) {
					best = back - sent;
					m->clock_offset_s = theirs - (sent + back) / 2;
				}
			}
		}
	/* Smaller than the measurement's uncertainty: the ranks share a clock. */
	if (fabs(m->clock_offset_s) < 2 * best && best < 1e-3)
		m->clock_offset_s = 0;
	return MQ_OK;
}

enum mq_status replay_rendezvous_open(struct replay_rendezvous *m, const struct mq_replay_options *o,
				      struct mq_arena *arena, struct mq_err *err)
{
	char place[PLACE_B];

	*m = (struct replay_rendezvous){ .rank = o->rank, .size = o->size ? o->size : 1, .deadline_s = o->deadline_s };
	m->fd = mq_arena_array(arena, m->size, int);
	for (uint32_t i = 0; i < m->size; i++)
		m->fd[i] = -1;
	if (m->size == 1)
		return MQ_OK;
	MQ_TRY(place_of(o, place, err));
	MQ_TRY(rendezvous_at(m, place, err));
	return replay_rendezvous_align(m, err);
}

void replay_rendezvous_close(struct replay_rendezvous *m)
{
	for (uint32_t i = 0; i < m->size; i++) /* 0: never connected */
		if (m->fd[i] >= 0)
			close(m->fd[i]);
	m->size = 0;
}

/* ---- barrier, broadcast, gather --------------------------------------------------------------------------------- */

static enum mq_status rendezvous_broadcast(void *state, void *data, size_t size, struct mq_err *err)
{
	const struct replay_rendezvous *m = state;

	if (m->rank)
		return get(m, 0, data, size, err);
	for (uint32_t i = 1; i < m->size; i++)
		MQ_TRY(put(m, i, data, size, err));
	return MQ_OK;
}

static enum mq_status rendezvous_barrier(void *state, struct mq_err *err)
{
	const struct replay_rendezvous *m = state;
	char token = 1;

	if (m->rank)
		MQ_TRY(put(m, 0, &token, 1, err));
	for (uint32_t i = 1; i < m->size && !m->rank; i++)
		MQ_TRY(get(m, i, &token, 1, err));
	return rendezvous_broadcast(state, &token, 1, err);
}

static enum mq_status rendezvous_gather(void *state, const void *mine, void *all, const uint32_t *bytes,
					struct mq_err *err)
{
	const struct replay_rendezvous *m = state;
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

static enum mq_status rendezvous_alive(void *state, struct mq_err *err)
{
	const struct replay_rendezvous *m = state;
	char byte;

	for (uint32_t i = 0; i < m->size; i++)
		if (m->fd[i] >= 0 && recv(m->fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
			return lost(i, "died (its connection closed)", err);
	return MQ_OK;
}

struct mq_ranks replay_rendezvous_ranks(struct replay_rendezvous *m)
{
	return (struct mq_ranks){ .rank = m->rank,
				  .size = m->size,
				  .state = m,
				  .now = rendezvous_now,
				  .barrier = rendezvous_barrier,
				  .broadcast = rendezvous_broadcast,
				  .gather = rendezvous_gather,
				  .alive = rendezvous_alive };
}
