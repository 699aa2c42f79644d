/*
 * simulated.h - run a test inside a SimGrid actor: SimGrid takes one platform per process, so each case
 * gets a child process, whose failures are printed and make its exit status.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SIMULATED_H
#define MQ_TESTS_SIMULATED_H

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maquette/calib.h"
#include "executors/simgrid/conductor.h"
#include "executors/execute.h"
#include "hardware/platform/platform.h"
#include "libraries.h"

struct simulated {
	struct mq_arena arena;
	struct mq_cluster *cluster;
	struct mq_calib *calib;
	void (*body)(struct simulated *s);
	int failures;
	bool finished; /* the body came to its end */
};

/* n devices of type T, each with its own full-duplex link; all routes through one shared backbone if
 * it has a bandwidth. */
struct simulated_platform {
	uint32_t n;
	double bw_Bps, lat_s, backbone_Bps;
};

#define EXPECT(s, condition)     \
	((condition) ? (void)0 : \
		       (void)((s)->failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition)))
#define EXPECT_NEAR(s, got, want, relative)                                                                       \
	do {                                                                                                      \
		double got_ = (got), want_ = (want);                                                              \
		if (!(fabs(got_ - want_) <= (relative)*fabs(want_) + 1e-300)) {                                   \
			(s)->failures++;                                                                          \
			fprintf(stderr, "%s:%d: %s = %.17g, not %.17g\n", __FILE__, __LINE__, #got, got_, want_); \
		}                                                                                                 \
	} while (0)

static inline void simulated_write(const struct simulated_platform *p, const char *path)
{
	FILE *f = fopen(path, "w");

	fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
	      "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
	      "<zone id=\"z\" routing=\"Full\">\n",
	      f);
	for (uint32_t i = 0; i < p->n; i++)
		fprintf(f,
			"<host id=\"d%u\" speed=\"1Tf\"><prop id=\"mq_type\" value=\"T\"/>"
			"<prop id=\"mq_rank\" value=\"%u\"/><prop id=\"mq_node\" value=\"0\"/>"
			"</host>\n",
			i, i);
	for (uint32_t i = 0; i < p->n; i++)
		fprintf(f,
			"<link id=\"nvlink%u\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" "
			"sharing_policy=\"SPLITDUPLEX\"/>\n",
			i, p->bw_Bps, p->lat_s);
	if (p->backbone_Bps > 0)
		fprintf(f, "<link id=\"nvswitch\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", p->backbone_Bps);
	for (uint32_t i = 0; i < p->n; i++)
		for (uint32_t j = 0; j < p->n; j++)
			if (i != j)
				fprintf(f,
					"<route src=\"d%u\" dst=\"d%u\" symmetrical=\"NO\">"
					"<link_ctn id=\"nvlink%u\" direction=\"UP\"/>%s"
					"<link_ctn id=\"nvlink%u\" direction=\"DOWN\"/></route>\n",
					i, j, i, p->backbone_Bps > 0 ? "<link_ctn id=\"nvswitch\"/>" : "", j);
	fputs("</zone>\n</platform>\n", f);
	fclose(f);
}

static inline void simulated_body(void *data)
{
	struct simulated *s = data;

	mq_conduct_bind(s->cluster);
	s->body(s);
	s->finished = true;
}

static inline void simulated_child(struct simulated *s, const char *path)
{
	struct mq_err err = MQ_ERR_INIT;

	for (int sig = 1; sig < 32; sig++) /* cmocka would run on after a crash */
		signal(sig, SIG_DFL);
	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test");
	s->calib = bare_calib(&s->arena);
	mq_calib_add_ideal(s->calib, "T", 1e12, 1e12, 16e9);
	if (mq_platform_load(path, &s->arena, &s->cluster, &err) || mq_calib_bind(s->calib, s->cluster, &err)) {
		fprintf(stderr, "%s\n", err.text);
		_exit(99);
	}
	mq_conduct(s->cluster, simulated_body, s);
	_exit(s->failures || !s->finished ? 1 : 0);
}

/* True if the body ran without failures. */
static inline bool simulated_run(const struct simulated_platform *platform, void (*body)(struct simulated *))
{
	char path[] = "/tmp/mq-test-XXXXXX.xml";
	int status = -1, fd = mkstemps(path, 4);
	struct simulated s = { .body = body };

	close(fd);
	simulated_write(platform, path);
	fflush(NULL);
	pid_t child = fork();
	if (!child)
		simulated_child(&s, path);
	waitpid(child, &status, 0);
	unlink(path);
	if (WIFSIGNALED(status))
		fprintf(stderr, "killed by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static inline double simulated_request(struct simulated *s, struct mq_exec_request request, mq_execute_fn *execute)
{
	const struct mq_schedule *schedule = request.view.schedule;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_timeline timeline;
	enum mq_verdict verdict = MQ_VERDICT_CRASH;

	if (mq_schedule_check(schedule, NULL, &err) || execute(&request, &s->arena, &timeline, &verdict, &err) ||
	    verdict != MQ_VERDICT_OK) {
		s->failures++;
		fprintf(stderr, "verdict %s: %s\n", mq_verdict_name(verdict), err.text);
		return NAN;
	}
	return timeline.step_time_s;
}

static inline double simulated_step(struct simulated *s, const struct mq_schedule *schedule, mq_execute_fn *execute,
				    bool interference)
{
	struct mq_exec_request request = { .view.schedule = schedule,
					   .cluster = s->cluster,
					   .calib = s->calib,
					   .timeout_s = INFINITY,
					   .interference = interference };

	return simulated_request(s, request, execute);
}

/* SimGrid with every flow, as if none could be known beforehand. */
static inline double simulated_all(struct simulated *s, const struct mq_schedule *schedule, bool interference)
{
	struct mq_exec_request request = { .view.schedule = schedule,
					   .cluster = s->cluster,
					   .calib = s->calib,
					   .timeout_s = INFINITY,
					   .interference = interference,
					   .all_flows = true };

	return simulated_request(s, request, mq_execute_simgrid);
}

#endif
