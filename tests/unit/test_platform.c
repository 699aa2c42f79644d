/*
 * test_platform.c - every platform file of the project loads, has sound properties and a route between
 * any two devices, and survives the trip through a pipe.
 *
 * SimGrid takes one platform per process, so each file gets a child process.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>

#include "hardware/platform/platform.h"

enum { MAX_FILES = 256, FULL_PAIRS = 64 };

static bool said(bool sound, const char *path, const char *what)
{
	if (!sound)
		fprintf(stderr, "%s: %s\n", path, what);
	return sound;
}

static bool plausible_links(const struct mq_cluster *c, const char *path)
{
	for (uint32_t i = 0; i < c->n_links; i++) {
		const struct mq_link *l = &c->link[i];

		if (!said(l->bw_Bps >= 1e8 && l->bw_Bps <= 1e15, path, "bandwidth is implausible") ||
		    !said(l->lat_s >= 0 && l->lat_s <= 1e-3, path, "latency is implausible") ||
		    !said(l->class != MQ_LINK_OTHER, l->name, "has no class") ||
		    !said(sg_link_get_latency(mq_platform_link(c, i)) == 0, path, "SimGrid kept a latency"))
			return false;
	}
	return true;
}

static bool plausible_devices(const struct mq_cluster *c, const char *path)
{
	uint32_t nodes = 0;

	for (uint32_t i = 0; i < c->n_devices; i++) {
		const struct mq_device *d = &c->device[i];

		nodes += d->local == 0;
		if (!said(d->speed_flops >= 1e9 && d->speed_flops <= 1e17, path, "speed") ||
		    !said(d->memory_B == 0 || (d->memory_B >= 1e9 && d->memory_B <= 1e13), path, "memory") ||
		    !said(!strcmp(sg_host_get_name(mq_platform_host(c, i)), d->name), path,
			  "host and rank do not agree"))
			return false;
	}
	return said(nodes == c->n_nodes, path, "nodes");
}

/* What goes through host memory climbs and descends the same PCIe switch, both ways. */
static bool through_host(const struct mq_cluster *c, const struct mq_route *r)
{
	for (uint32_t i = 0; i < r->n_links; i++)
		if (c->link[r->link[i]].class == MQ_LINK_HOST)
			return true;
	return false;
}

static bool routes_exist(const struct mq_cluster *c, const char *path)
{
	uint32_t step = c->n_devices <= FULL_PAIRS ? 1 : 7;

	for (uint32_t a = 0; a < c->n_devices; a += step)
		for (uint32_t b = 0; b < c->n_devices; b += step) {
			const struct mq_route *r, *back;
			struct mq_err err = MQ_ERR_INIT;

			if (a == b)
				continue;
			if (mq_cluster_route(c, a, b, &r, &err) != MQ_OK ||
			    mq_cluster_route(c, b, a, &back, &err) != MQ_OK)
				return said(false, path, err.text);
			if (!said(r->bw_Bps == back->bw_Bps, path, "one way is faster") ||
			    !said(r->n_links <= 12, path, "a route is too long") ||
			    !said(r->lat_s > 0 && r->lat_s < 1e-3, path, "a route's latency"))
				return false;
			for (uint32_t i = 0; i < r->n_links; i++)
				for (uint32_t j = 0; j < back->n_links; j++)
					if (!said(r->link[i] != back->link[j] || through_host(c, r), path,
						  "both directions share a link"))
						return false;
		}
	return true;
}

static bool same_after_pipe(const struct mq_cluster *c, const char *path)
{
	struct mq_cluster *copy;
	size_t size;
	void *bytes = mq_platform_dump(c, c->arena, &size);

	if (mq_platform_restore(bytes, size - 1, c->arena, &copy, NULL) == MQ_OK)
		return said(false, path, "cut bytes were taken");
	if (mq_platform_restore(bytes, size, c->arena, &copy, NULL) != MQ_OK)
		return said(false, path, "bytes were refused");
	bool same = !strcmp(copy->name, c->name) && copy->n_devices == c->n_devices && copy->n_links == c->n_links &&
		    copy->n_nodes == c->n_nodes && copy->nics_per_node == c->nics_per_node && copy->nvls == c->nvls &&
		    !copy->resolve;
	for (uint32_t i = 0; same && i < c->n_devices; i++)
		same = !strcmp(copy->device[i].name, c->device[i].name) &&
		       !strcmp(copy->device[i].type, c->device[i].type) && copy->device[i].node == c->device[i].node &&
		       copy->device[i].speed_flops == c->device[i].speed_flops;
	for (uint32_t i = 0; same && i < c->n_links; i++)
		same = !strcmp(copy->link[i].name, c->link[i].name) && copy->link[i].class == c->link[i].class &&
		       copy->link[i].lat_s == c->link[i].lat_s;
	return said(same, path, "the copy differs");
}

struct job {
	const struct mq_cluster *cluster;
	const char *path;
	bool passed;
};

static void inspect(int argc, char **argv)
{
	struct job *job = sg_actor_get_data(sg_actor_self());

	job->passed = plausible_devices(job->cluster, job->path) && plausible_links(job->cluster, job->path) &&
		      routes_exist(job->cluster, job->path) && same_after_pipe(job->cluster, job->path);
}

/* In a child: never returns. */
static void check_file(const char *path)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *cluster;
	struct job job = { .path = path };

	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test_platform");
	if (mq_platform_load(path, &arena, &cluster, &err) != MQ_OK) {
		fprintf(stderr, "%s\n", err.text);
		_exit(2);
	}
	job.cluster = cluster;
	sg_actor_t actor = sg_actor_init("inspect", mq_platform_host(cluster, 0));
	sg_actor_set_data(actor, &job);
	sg_actor_start_(actor, inspect, 0, NULL);
	simgrid_run();
	_exit(job.passed ? 0 : 1);
}

static int outcome(const char *path)
{
	int status;
	pid_t child = fork();

	if (!child)
		check_file(path);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int is_xml(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return n > 4 && !strcmp(entry->d_name + n - 4, ".xml");
}

static void every_file_is_sound(void **state)
{
	struct dirent **list;
	int n = scandir("platforms", &list, is_xml, alphasort), bad = 0;

	assert_true(n > 0);
	for (int i = 0; i < n; i++) {
		char path[300];

		snprintf(path, sizeof(path), "platforms/%s", list[i]->d_name);
		bad += outcome(path) != 0;
		free(list[i]);
	}
	free(list);
	assert_int_equal(bad, 0);
}

/* ---- shared links ------------------------------------------------------------------------------ */

struct flow {
	const struct mq_cluster *cluster;
	uint32_t src, dst;
	double finish_s;
};

static void send(int argc, char **argv)
{
	struct flow *f = sg_actor_get_data(sg_actor_self());

	sg_host_sendto(mq_platform_host(f->cluster, f->src), mq_platform_host(f->cluster, f->dst), 1e9);
	f->finish_s = simgrid_get_clock();
}

/* In a child: two messages of 1 GB at once; both end after `seconds`. */
static void two_flows(const char *path, const uint32_t pair[4], double seconds)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct mq_cluster *cluster;
	struct flow flow[2];

	alarm(240); /* whoever waits for this process does so without a limit */
	mq_platform_start("test_platform");
	if (mq_platform_load(path, &arena, &cluster, &err) != MQ_OK)
		_exit(2);
	for (int i = 0; i < 2; i++) {
		flow[i] = (struct flow){ cluster, pair[2 * i], pair[2 * i + 1], 0 };
		sg_actor_t actor = sg_actor_init("send", mq_platform_host(cluster, 0));
		sg_actor_set_data(actor, &flow[i]);
		sg_actor_start_(actor, send, 0, NULL);
	}
	simgrid_run();
	for (int i = 0; i < 2; i++)
		if (fabs(flow[i].finish_s - seconds) > 1e-9 * seconds) {
			fprintf(stderr, "%s: %u->%u ends at %.12g, expected %.12g\n", path, flow[i].src, flow[i].dst,
				flow[i].finish_s, seconds);
			_exit(1);
		}
	_exit(0);
}

static void contention_shows(void **state)
{
	static const struct {
		const char *path;
		uint32_t pair[4];
		double seconds;
	} cases[] = {
		/* V100 machines have one port of 1.25 GB/s, T4 machines one of 6.25 */
		{ "platforms/cloud_v100_t4.xml", { 0, 4, 1, 5 }, 2 / 1.25 },
		{ "platforms/cloud_v100_t4.xml", { 8, 12, 9, 13 }, 2 / 6.25 },
		/* two T4 below one PCIe switch send to the two below the other */
		{ "platforms/cloud_v100_t4.xml", { 8, 10, 9, 11 }, 2 / 15.75 },
		/* opposite directions do not disturb each other, nor do NVLinks */
		{ "platforms/cloud_v100_t4.xml", { 0, 4, 4, 0 }, 1 / 1.25 },
		{ "platforms/dgx1_v100.xml", { 0, 1, 2, 6 }, 1 / 25.0 },
		{ "platforms/dgx1_v100.xml", { 0, 6, 1, 7 }, 2 / 15.75 },
		{ "platforms/hgx_h100_ib_2.xml", { 0, 8, 1, 9 }, 1 / 50.0 },
		/* one port shared by routes of different latency: evenly */
		{ "platforms/hgx_h100_ib_2.xml", { 0, 8, 0, 9 }, 2 / 50.0 },
		{ "platforms/tag_testbed.xml", { 0, 4, 1, 5 }, 2 / 2.81 },
		{ "platforms/ws_4x4090.xml", { 0, 1, 0, 2 }, 2 / 31.5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int status;
		pid_t child = fork();

		if (!child)
			two_flows(cases[i].path, cases[i].pair, cases[i].seconds);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static void absent_files_are_refused(void **state)
{
	assert_int_equal(outcome("platforms/nowhere.xml"), 2);
	assert_int_equal(outcome("/dev/null"), 2);
	assert_int_equal(outcome("platforms"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_file_is_sound),
		cmocka_unit_test(contention_shows),
		cmocka_unit_test(absent_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
