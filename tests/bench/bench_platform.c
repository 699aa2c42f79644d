/*
 * bench_platform.c - generated clusters of 16,384 GPUs: seconds to write and load them, microseconds to
 * ask a route for the first time and to start a flow between machines. CPU time of one core; each
 * fabric in a process of its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>

#include "hardware/platform/platform.h"
#include "hardware/platform/generate.h"
#include "../unit/libraries.h"

static double clock_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct figures {
	const struct mq_cluster *cluster;
	const char *options;
	double write_s, load_s, route_s, start_s;
};

struct sender {
	sg_host_t from, to;
};

static void send(int argc, char **argv)
{
	struct sender *s = sg_actor_get_data(sg_actor_self());

	sg_host_sendto(s->from, s->to, 1e6);
}

/* Every device sends to the one 64 further; all flows start in the same instant, while the
 * conductor sleeps. */
static void measure(int argc, char **argv)
{
	struct figures *f = sg_actor_get_data(sg_actor_self());
	const struct mq_cluster *c = f->cluster;
	uint32_t n = c->n_devices, far = 64;
	struct sender *sender = calloc(n, sizeof(*sender));
	const struct mq_route *route;

	f->route_s = clock_s();
	for (uint32_t i = 0; i < n; i++)
		if (mq_cluster_route(c, i, (i + far) % n, &route, NULL) != MQ_OK)
			exit(1);
	f->route_s = (clock_s() - f->route_s) / n;
	for (uint32_t i = 0; i < n; i++) {
		sender[i] = (struct sender){ mq_platform_host(c, i), mq_platform_host(c, (i + far) % n) };
		sg_actor_t actor = sg_actor_init("send", sender[i].from);
		sg_actor_set_data(actor, &sender[i]);
		sg_actor_start_(actor, send, 0, NULL);
	}
	f->start_s = clock_s();
	sg_actor_sleep_for(1e-9);
	f->start_s = (clock_s() - f->start_s) / n;
	printf("%-52s %8u %8.2f %8.2f %10.2f %10.2f\n", f->options, n, f->write_s, f->load_s, f->route_s * 1e6,
	       f->start_s * 1e6);
	fflush(stdout);
	_exit(0); /* how long the flows last is not the question */
}

static void in_child(const char *options)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_platform_spec spec;
	struct mq_cluster *cluster;
	char path[] = "/tmp/mq-bench-XXXXXX";

	mq_platform_spec_init(&spec);
	int file = mkstemp(path);
	double t0 = clock_s();
	if (file < 0 || close(file) ||
	    mq_opt_parse(mq_platform_opts, &spec, "platform", options, &arena, &err) != MQ_OK ||
	    mq_calib_load_dir(calib, "platforms/calib", &err) != MQ_OK ||
	    mq_platform_generate(&spec, calib, NULL, path, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	double t1 = clock_s();
	mq_platform_start("bench");
	if (mq_platform_load(path, &arena, &cluster, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	unlink(path);
	struct figures f = { .cluster = cluster, .options = options, .write_s = t1 - t0, .load_s = clock_s() - t1 };
	sg_actor_t actor = sg_actor_init("measure", mq_platform_host(cluster, 0));
	sg_actor_set_data(actor, &f);
	sg_actor_start_(actor, measure, 0, NULL);
	simgrid_run();
	_exit(1);
}

int main(void)
{
	static const char *const options[] = {
		"nodes=2048,fabric=switch",
		"nodes=2048,fabric=rail",
		"nodes=2048,fabric=fat-tree,oversub=2",
		"nodes=2048,fabric=fat-tree,leaf=8,pod=16",
		"nodes=2048,fabric=ethernet,oversub=2",
		"nodes=2048,fabric=dragonfly,routers=16,leaf=8",
		"nodes=4104,gpus=4,gpu=GB200,fabric=nvl72",
		"nodes=2048,gpu=L4,fabric=fat-tree,leaf=32",
		"nodes=512,gpus=8,fabric=torus,dims=8x8x8",
	};
	int bad = 0, status;

	printf("%-52s %8s %8s %8s %10s %10s\n", "options", "devices", "write_s", "load_s", "route_us", "start_us");
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		fflush(stdout);
		pid_t child = fork();

		if (!child)
			in_child(options[i]);
		bad += waitpid(child, &status, 0) != child || status != 0;
	}
	return bad != 0;
}
