/* graph.c - draws a platform.
 *
 * A platform file has the links of routes, not the switches between them. If one link follows another on some route,
 * the end of the first is the start of the second; merging equal ends (union-find) recovers the switches. An end that a
 * single device uses is that device. The two directions of a full-duplex link are one edge. Large platforms show their
 * first machines and their last one. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maquette/spawn.h"
#include "hardware/platform/graph.h"

enum { MOST_DEVICES = 32, MOST_NODES = 2, MOST_LOCAL = 8 };

struct drawing {
	const struct mq_cluster *cluster;
	struct mq_arena *arena;
	FILE *file;
	uint32_t n_shown, *shown; /* devices */
	bool *used;               /* [n_links] used by a route between shown devices */
	uint32_t *parent;         /* [2 n_links]: start and end of each link, 2 LINK and 2 LINK + 1 */
	uint32_t *device_at;      /* [2 n_links] per root: MQ_NONE, the one device, or SHARED */
};

enum { SHARED = UINT32_MAX - 1 };

static const char *const colours[MQ_N_LINK_CLASSES] = {
	[MQ_LINK_NVLINK] = "#4c9a2a",   [MQ_LINK_XGMI] = "#4c9a2a",        [MQ_LINK_NVSWITCH] = "#4c9a2a",
	[MQ_LINK_PCIE] = "#8c6bb1",     [MQ_LINK_PCIE_SWITCH] = "#6a3d9a", [MQ_LINK_SOCKET] = "#b15928",
	[MQ_LINK_NIC] = "#1f78b4",      [MQ_LINK_FABRIC] = "#08306b",      [MQ_LINK_HOST] = "#b15928",
	[MQ_LINK_LOOPBACK] = "#999999", [MQ_LINK_OTHER] = "#666666",
};

static void join(struct drawing *d, uint32_t a, uint32_t b)
{
	uint32_t x = mq_root(d->parent, a), y = mq_root(d->parent, b);

	/* the smaller number is the root, so that the drawing depends on the platform alone */
	d->parent[x > y ? x : y] = x > y ? y : x;
}

/* Does a device's machine differ in type from all before it? */
static bool is_first_of_kind(const struct mq_cluster *c, uint32_t device)
{
	for (uint32_t i = 0; i < device && c->device[i].node != c->device[device].node; i++)
		if (!strcmp(c->device[i].type, c->device[device].type))
			return false;
	return true;
}

/* The devices to draw: all of a small platform; else some of each of the first machines and of the last; in a mix, half
 * as many of the first machine of each type. */
static void choose(struct drawing *d)
{
	const struct mq_cluster *c = d->cluster;
	uint32_t last = c->device[c->n_devices - 1].node;
	bool mix = false;

	for (uint32_t i = 1; i < c->n_devices; i++)
		mix |= strcmp(c->device[i].type, c->device[0].type) != 0;
	d->shown = mq_arena_array(d->arena, c->n_devices, uint32_t);
	for (uint32_t i = 0; i < c->n_devices; i++) {
		const struct mq_device *device = &c->device[i];

		bool near = mix ? is_first_of_kind(c, i) : device->node < MOST_NODES || device->node == last;

		if (c->n_devices <= MOST_DEVICES || (near && device->local < (mix ? MOST_LOCAL / 2 : MOST_LOCAL)))
			d->shown[d->n_shown++] = i;
	}
}

static bool is_other_way(const char *up, const char *down)
{
	size_t n = strlen(up), m = strlen(down);

	return n > 3 && m > 5 && n - 3 == m - 5 && !strcmp(up + n - 3, "_UP") && !strcmp(down + m - 5, "_DOWN") &&
	       !strncmp(up, down, n - 3);
}

/* The other direction of a duplex link; MQ_NONE: none. Links are sorted by name, so it is a neighbour. */
static uint32_t other_way(const struct mq_cluster *c, uint32_t link)
{
	for (uint32_t i = link ? link - 1 : 0; i <= link + 1 && i < c->n_links; i++)
		if (is_other_way(c->link[link].name, c->link[i].name) ||
		    is_other_way(c->link[i].name, c->link[link].name))
			return i;
	return MQ_NONE;
}

static enum mq_status find_ends(struct drawing *d, struct mq_err *err)
{
	const struct mq_cluster *c = d->cluster;
	const struct mq_route *r;

	for (uint32_t i = 0; i < c->n_links; i++) {
		uint32_t back = other_way(c, i);

		if (back != MQ_NONE) {
			join(d, 2 * i, 2 * back + 1);
			join(d, 2 * i + 1, 2 * back);
		}
	}
	for (uint32_t i = 0; i < d->n_shown; i++)
		for (uint32_t j = 0; j < d->n_shown; j++) {
			if (i == j)
				continue;
			MQ_TRY(mq_cluster_route(c, d->shown[i], d->shown[j], &r, err));
			for (uint32_t k = 0; k < r->n_links; k++) {
				d->used[r->link[k]] = true;
				if (k)
					join(d, 2 * r->link[k - 1] + 1, 2 * r->link[k]);
			}
		}
	return MQ_OK;
}

static void touch(struct drawing *d, uint32_t end, uint32_t device)
{
	uint32_t *at = &d->device_at[mq_root(d->parent, end)];

	if (*at == MQ_NONE)
		*at = device;
	else if (*at != device)
		*at = SHARED;
}

static enum mq_status find_devices(struct drawing *d, struct mq_err *err)
{
	const struct mq_route *r;

	for (uint32_t i = 0; i < 2 * d->cluster->n_links; i++)
		d->device_at[i] = MQ_NONE;
	for (uint32_t i = 0; i < d->n_shown; i++)
		for (uint32_t j = 0; j < d->n_shown; j++) {
			if (i == j)
				continue;
			MQ_TRY(mq_cluster_route(d->cluster, d->shown[i], d->shown[j], &r, err));
			touch(d, 2 * r->link[0], d->shown[i]);
			touch(d, 2 * r->link[r->n_links - 1] + 1, d->shown[j]);
		}
	return MQ_OK;
}

/* The name of an end: a device or a switch. */
static void end_name(struct drawing *d, uint32_t end, char text[32])
{
	uint32_t root = mq_root(d->parent, end), device = d->device_at[root];

	if (device == MQ_NONE || device == SHARED)
		snprintf(text, 32, "j%u", root);
	else
		snprintf(text, 32, "d%u", device);
}

static const char *fill_of(const struct mq_cluster *c, uint32_t device)
{
	static const char *const fills[] = { "#cfe8c6", "#fde2b8", "#cfe0f3", "#f3cfd6", "#e3d4ef", "#f0eeb4" };
	uint32_t kinds = 0;

	for (uint32_t i = 0; i < c->n_devices; i++) {
		if (!strcmp(c->device[i].type, c->device[device].type))
			break;
		kinds += i + 1 == c->n_devices || strcmp(c->device[i].type, c->device[i + 1].type) != 0;
	}
	return fills[kinds % (sizeof(fills) / sizeof(*fills))];
}

static void put_text(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', file);
		fputc(*text, file);
	}
}

static void put_machines(struct drawing *d)
{
	const struct mq_cluster *c = d->cluster;
	uint32_t open = MQ_NONE;

	for (uint32_t i = 0; i < d->n_shown; i++) {
		const struct mq_device *device = &c->device[d->shown[i]];

		if (device->node != open) {
			fprintf(d->file,
				"%ssubgraph cluster_%u {\nlabel=\"machine %u\"; style=rounded; "
				"color=\"#999999\"; fontcolor=\"#555555\";\n",
				open == MQ_NONE ? "" : "}\n", device->node, device->node);
			open = device->node;
		}
		fprintf(d->file, "d%u [shape=box, style=\"rounded,filled\", fillcolor=\"%s\", label=\"", d->shown[i],
			fill_of(c, d->shown[i]));
		put_text(d->file, device->name);
		fprintf(d->file, "\\n");
		put_text(d->file, device->type);
		fprintf(d->file, "\"];\n");
	}
	fprintf(d->file, "}\n");
}

/* The kind of a switch, by the links that meet at it. */
static const char *junction_label(struct drawing *d, uint32_t root)
{
	const struct mq_cluster *c = d->cluster;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < c->n_links; i++)
		if (d->used[i] && (mq_root(d->parent, 2 * i) == root || mq_root(d->parent, 2 * i + 1) == root))
			seen |= 1U << c->link[i].class;
	if (seen >> MQ_LINK_FABRIC & 1 || seen == 1U << MQ_LINK_NIC)
		return "switch";
	if (seen >> MQ_LINK_NVSWITCH & 1)
		return "NVSwitch";
	if (seen >> MQ_LINK_HOST & 1)
		return "host memory";
	if (seen >> MQ_LINK_SOCKET & 1)
		return "CPU socket";
	if (seen >> MQ_LINK_PCIE_SWITCH & 1)
		return seen >> MQ_LINK_PCIE & 1 ? "PCIe switch" : "root complex";
	if (seen >> MQ_LINK_PCIE & 1)
		return seen >> MQ_LINK_NIC & 1 ? "port" : "PCIe";
	return "";
}

static void put_junctions(struct drawing *d)
{
	const struct mq_cluster *c = d->cluster;
	bool *done = mq_arena_array(d->arena, 2 * (size_t)c->n_links, bool);

	for (uint32_t i = 0; i < 2 * c->n_links; i++) {
		uint32_t root = mq_root(d->parent, i), at = d->device_at[root];

		if (!d->used[i / 2] || done[root] || (at != MQ_NONE && at != SHARED))
			continue;
		done[root] = true;
		fprintf(d->file,
			"j%u [shape=ellipse, style=filled, fillcolor=\"#eeeeee\", fontsize=9, label=\"%s\"];\n", root,
			junction_label(d, root));
	}
}

static void put_links(struct drawing *d)
{
	const struct mq_cluster *c = d->cluster;
	char from[32], to[32];

	for (uint32_t i = 0; i < c->n_links; i++) {
		const struct mq_link *l = &c->link[i];
		uint32_t back = other_way(c, i);

		if (!d->used[i] || (back != MQ_NONE && d->used[back] && back < i))
			continue;
		end_name(d, 2 * i, from);
		end_name(d, 2 * i + 1, to);
		if (!strcmp(from, to))
			continue; /* the switch is memory that messages are written to and read from */
		fprintf(d->file, "%s -- %s [color=\"%s\", penwidth=%.2f, label=\"%.4g\", tooltip=\"%s\"%s];\n", from,
			to, colours[l->class], 0.6 + fmax(0, log10(l->bw_Bps / 1e9)), l->bw_Bps / 1e9,
			mq_link_class_name(l->class),
			l->class == MQ_LINK_FABRIC || l->class == MQ_LINK_NIC ? ", minlen=2" : "");
	}
}

/* Devices that share an end are connected to it by a line without bandwidth. */
static enum mq_status put_shared(struct drawing *d, struct mq_err *err)
{
	const struct mq_route *r;

	for (uint32_t i = 0; i < d->n_shown; i++) {
		uint32_t last = MQ_NONE;

		for (uint32_t j = 0; j < d->n_shown; j++) {
			if (i == j)
				continue;
			MQ_TRY(mq_cluster_route(d->cluster, d->shown[i], d->shown[j], &r, err));
			uint32_t root = mq_root(d->parent, 2 * r->link[0]);

			if (d->device_at[root] == SHARED && root != last)
				fprintf(d->file, "d%u -- j%u [style=dotted];\n", d->shown[i], root);
			last = root;
		}
	}
	return MQ_OK;
}

enum mq_status mq_platform_graph(const struct mq_cluster *cluster, FILE *file, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct drawing d = { .cluster = cluster, .file = file, .arena = &arena };

	d.used = mq_arena_array(&arena, cluster->n_links, bool);
	d.parent = mq_arena_count(&arena, 2 * cluster->n_links);
	d.device_at = mq_arena_array(&arena, 2 * (size_t)cluster->n_links, uint32_t);
	choose(&d);
	fprintf(file, "strict graph platform {\ngraph [fontname=\"Helvetica\", label=\"");
	put_text(file, cluster->name);
	fprintf(file,
		": %u devices on %u machine%s%s; GB/s one way\", labelloc=t, nodesep=0.3, "
		"ranksep=0.6, splines=true];\nnode [fontname=\"Helvetica\", fontsize=10];\n"
		"edge [fontname=\"Helvetica\", fontsize=8];\n",
		cluster->n_devices, cluster->n_nodes, cluster->n_nodes > 1 ? "s" : "",
		d.n_shown < cluster->n_devices ? " (a few of each kind shown)" : "");
	MQ_TRY(find_ends(&d, err));
	MQ_TRY(find_devices(&d, err));
	put_machines(&d);
	put_junctions(&d);
	put_links(&d);
	MQ_TRY(put_shared(&d, err));
	fprintf(file, "}\n");
	return MQ_OK;
}

static enum mq_status run_dot(const char *graph, const char *type, const char *output, struct mq_err *err)
{
	char flag[16];
	const char *argv[] = { "dot", flag, "-o", output, graph, NULL };
	pid_t child;

	snprintf(flag, sizeof(flag), "-T%s", type);
	const struct mq_spawn program = { .path = "dot", .argv = (char *const *)(uintptr_t)argv, .on_death = SIGTERM };
	int bad = mq_spawn(&program, &child);
	if (bad)
		return mq_fail(err, MQ_ENODEV, "dot cannot be started: %s; install graphviz", strerror(bad));
	int status = mq_wait(child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return mq_fail(err, MQ_ENODEV, "there is no program 'dot'; install graphviz");
	if (status)
		return mq_bad(err, "dot could not write %s", output);
	return MQ_OK;
}

static enum mq_status draw_with_dot(const char *graph, const char *output, struct mq_err *err)
{
	static const char *const known[] = { "svg", "png", "pdf" };
	const char *dot = strrchr(output, '.');

	for (uint32_t i = 0; i < 3; i++)
		if (dot && !strcmp(dot + 1, known[i]))
			return run_dot(graph, known[i], output, err);
	for (uint32_t i = 0; i < 2; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s.%s", output, known[i]);
		MQ_TRY(run_dot(graph, known[i], path, err));
	}
	return MQ_OK;
}

enum mq_status mq_platform_draw(const struct mq_cluster *cluster, const char *output, struct mq_err *err)
{
	const char *dot = strrchr(output, '.');
	bool text_only = dot && !strcmp(dot, ".dot");
	char graph[] = "/tmp/maquette-graph-XXXXXX";
	int fd = text_only ? -1 : mkstemp(graph);
	FILE *file = text_only ? fopen(output, "w") : fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!file)
		return mq_bad(err, "%s: cannot write: %m", text_only ? output : graph);
	enum mq_status status = mq_platform_graph(cluster, file, err);
	if (fclose(file) && status == MQ_OK)
		status = mq_bad(err, "%s: cannot write: %m; is the disk full?", text_only ? output : graph);
	if (status == MQ_OK && !text_only)
		status = draw_with_dot(graph, output, err);
	if (!text_only)
		unlink(graph);
	return status;
}
