/* import_network.c - converts Slurm's topology.conf (trees and blocks) and InfiniBand's ibnetdiscover into keys of a
 * generated platform.
 *
 * Both become ports from a switch to a switch or host. Switches with hosts are leaves, switches above them are one
 * level up. Leaves that share hosts (rails) are one unit; with two levels of switches above, the units below one switch
 * of the first are a pod. Bandwidths give the oversubscription of each level. Not modelled: single switches and cables.
 * Refused: trees of more levels or unequal depth, meshes. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "hardware/platform/machine.h"
#include "maquette/map.h"
#include "maquette/rng.h"

enum { MAX_MACHINES = 65536, MAX_PORTS = 1 << 19, MAX_NAME = 255, MAX_NICS = 64, LEAF = 0, N_LEVELS = 3 };

struct vertex {
	const char *name;
	bool is_switch, named; /* named: a host with the name of its machine */
	uint32_t level;        /* of a switch; MQ_NONE = not reached from a leaf */
	uint32_t ports, links; /* ports of a host, or of a switch to hosts; of a switch to switches */
	uint32_t hosts;        /* of a leaf; at the root of a unit, of the unit */
};

struct port {
	uint32_t from, to;
	double GBps; /* 0 = not said */
};

struct graph {
	struct mq_arena *arena;
	const char *path;
	struct mq_map names;
	struct vertex *v;
	struct port *port;
	uint32_t n, room, n_ports, port_room;
	uint32_t *unit, *pod; /* union-find sets: leaves with their hosts; units below the same first-level switches */
	struct mq_machine *machine; /* its `unused` collects unused and missing facts */
	bool sharp;
};

static uint32_t vertex_of(struct graph *g, const char *name, size_t length, bool is_switch)
{
	uint32_t i = mq_map_add(&g->names, mq_hash(is_switch, name, length));

	if (i == g->n) {
		const struct vertex v = { .name = mq_arena_printf(g->arena, "%.*s", (int)length, name),
					  .is_switch = is_switch,
					  .named = !is_switch,
					  .level = MQ_NONE };
		MQ_PUSH(g->arena, g->v, g->n, g->room, v);
	}
	return i;
}

static enum mq_status add_port(struct graph *g, uint32_t from, uint32_t to, double GBps, struct mq_err *err)
{
	const struct port port = { from, to, GBps };

	if (g->n_ports == MAX_PORTS || g->n > 2 * MAX_MACHINES)
		return mq_bad(err, "%s: more than %d ports or %d machines", g->path, MAX_PORTS, MAX_MACHINES);
	MQ_PUSH(g->arena, g->port, g->n_ports, g->port_room, port);
	if (g->v[to].is_switch) {
		g->v[from].links++;
	} else {
		g->v[from].ports++;
		g->v[to].ports++;
	}
	return MQ_OK;
}

/* ---- topology.conf ------------------------------------------------------------------------------ */

/* Adds the names of a list item, "rack[1-2]n[01-16]", below a switch. */
static enum mq_status add_item(struct graph *g, uint32_t above, bool switches, const char *start, const char *item,
			       struct mq_err *err)
{
	const char *open = strchr(item, '['), *close = open ? strchr(open, ']') : NULL;

	if (!open) {
		const char *name = mq_arena_printf(g->arena, "%s%s", start, item);
		uint32_t to = vertex_of(g, name, strlen(name), switches);

		MQ_TRY(add_port(g, above, to, 0, err));
		return switches ? add_port(g, to, above, 0, err) : MQ_OK;
	}
	for (const char *at = open; at != close;) {
		const char *from = at + 1;
		char *end;
		unsigned long low = strtoul(from, &end, 10), high = low;
		int width = (int)(end - from);

		if (*end == '-')
			high = strtoul(end + 1, &end, 10);
		if (!close || !isdigit((unsigned char)*from) || high < low || high - low >= MAX_MACHINES ||
		    (*end != ',' && end != close))
			return mq_bad(err, "%s: '%s': write name[1-4,7]", g->path, item);
		at = end;
		for (unsigned long i = low; i <= high; i++)
			MQ_TRY(add_item(
				g, above, switches,
				mq_arena_printf(g->arena, "%s%.*s%0*lu", start, (int)(open - item), item, width, i),
				close + 1, err));
	}
	return MQ_OK;
}

static enum mq_status add_list(struct graph *g, uint32_t above, bool switches, const char *list, struct mq_err *err)
{
	while (*list) {
		size_t n = 0;

		for (bool inside = false; list[n] && (inside || list[n] != ','); n++)
			inside = list[n] == '[' || (inside && list[n] != ']');
		if (n > MAX_NAME)
			return mq_bad(err, "%s: a name of more than %d characters: %.40s...", g->path, MAX_NAME, list);
		MQ_TRY(add_item(g, above, switches, "", mq_arena_printf(g->arena, "%.*s", (int)n, list), err));
		list += n + (list[n] == ',');
	}
	return MQ_OK;
}

static enum mq_status read_slurm_line(struct graph *g, char *line, struct mq_err *err)
{
	uint32_t at = MQ_NONE;
	char *save = NULL;

	line[strcspn(line, "#")] = '\0';
	/* `scontrol show topology` lists all nodes below an upper switch or an aggregated block as well */
	bool upper = strcasestr(line, " Switches=") || !strncasecmp(line, "AggregatedBlock=", 16);
	for (char *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save)) {
		char *value = strchr(word, '=');
		bool block = !strncasecmp(word, "BlockName=", 10), switches = !strncasecmp(word, "Switches=", 9);

		if (!value)
			return mq_bad(err, "%s: '%s' is no KEY=VALUE of a topology.conf", g->path, word);
		value++;
		if (block || !strncasecmp(word, "SwitchName=", 11)) {
			at = vertex_of(g, value, strlen(value), true);
		} else if (upper && !strncasecmp(word, "Nodes=", 6)) {
			continue;
		} else if (switches || !strncasecmp(word, "Nodes=", 6)) {
			if (at == MQ_NONE)
				return mq_bad(err, "%s: '%s' without SwitchName= before it", g->path, word);
			MQ_TRY(add_list(g, at, switches, value, err));
		} else {
			mq_machine_unused(g->machine, g->arena,
					  mq_arena_printf(g->arena, "%.*s", (int)(value - word - 1), word));
		}
		if (block) {
			uint32_t core = vertex_of(g, "", 0, true);

			MQ_TRY(add_port(g, at, core, 0, err));
			MQ_TRY(add_port(g, core, at, 0, err));
			mq_machine_unused(g->machine, g->arena, "what joins the blocks (one switch is taken)");
		}
	}
	return MQ_OK;
}

/* ---- ibnetdiscover ------------------------------------------------------------------------------ */

/* "4xNDR": GB/s one way, after line code; 0 = none. */
static double rate_of(const char *word)
{
	static const struct {
		const char *name;
		double GBps; /* of a lane */
	} lane[] = { { "SDR", .25 },   { "DDR", .5 },   { "QDR", 1 },    { "FDR10", 1.25 }, { "FDR", 1.7045 },
		     { "EDR", 3.125 }, { "HDR", 6.25 }, { "NDR", 12.5 }, { "XDR", 25 } };
	char *end;
	unsigned long lanes = strtoul(word, &end, 10);

	for (size_t i = 0; i < sizeof(lane) / sizeof(*lane) && lanes && lanes <= 12 && *end == 'x'; i++)
		if (!strcmp(end + 1, lane[i].name))
			return (double)lanes * lane[i].GBps;
	return 0;
}

/* at: the switch whose port the line is; MQ_NONE: a host's end of a cable, which the switch's line covers. */
static enum mq_status read_ib_line(struct graph *g, const char *line, uint32_t *at, struct mq_err *err)
{
	char id[64], what[MAX_NAME + 1] = "", kind[16];
	double GBps = 0;
	int end = 0;

	if (sscanf(line, " %15[A-Za-z] %*u \"%63[^\"]\"", kind, id) == 2)
		*at = *id == 'S' ? vertex_of(g, id, strlen(id), true) : MQ_NONE;
	if (*at == MQ_NONE || sscanf(line, " [%*[^\"]\"%63[^\"]\"%*[^\"]\"%255[^\"]\"%n", id, what, &end) < 1)
		return MQ_OK;
	for (const char *word = line + end; !GBps && *word; word += strcspn(word, " \t")) {
		word += strspn(word, " \t");
		GBps = rate_of(mq_arena_printf(g->arena, "%.*s", (int)strcspn(word, " \t\r"), word));
	}
	if (!GBps)
		return mq_bad(err, "%s: '%.60s': a port without its rate, as 4xHDR", g->path, line);
	if (*id == 'S')
		return add_port(g, *at, vertex_of(g, id, strlen(id), true), GBps, err);
	g->sharp = g->sharp || strstr(what, "Aggregation Node");
	if (*id != 'H')
		mq_machine_unused(g->machine, g->arena, "routers");
	if (*id != 'H' || strstr(what, "Aggregation Node"))
		return MQ_OK;
	/* a description begins with the machine's name, "n1 mlx5_0", or is the card's, "MT4129 ConnectX7" */
	size_t name = strcspn(what, " ");
	bool card = !strncmp(what, "Mellanox", 8) || (!strncmp(what, "MT", 2) && isdigit((unsigned char)what[2]));
	bool named = name && !card;
	uint32_t host = named ? vertex_of(g, what, name, false) : vertex_of(g, id, strlen(id), false);
	g->v[host].named = named;
	return add_port(g, *at, host, GBps, err);
}

/* ---- levels, units, pods ------------------------------------------------------------------------ */

/* Numbers the levels of switches from the leaves up. A switch with more than four times as many links to switches as to
 * hosts is no leaf. */
static enum mq_status find_levels(struct graph *g, uint32_t *levels, struct mq_err *err)
{
	bool more = true;

	for (uint32_t i = 0; i < g->n; i++) {
		if (!g->v[i].is_switch || !g->v[i].ports)
			continue;
		if (4 * g->v[i].ports < g->v[i].links)
			mq_machine_unused(g->machine, g->arena, "hosts on switches above others");
		else
			g->v[i].level = LEAF;
	}
	for (*levels = 0; more; ++*levels) {
		more = false;
		for (uint32_t i = 0; i < g->n_ports; i++) {
			struct vertex *from = &g->v[g->port[i].from], *to = &g->v[g->port[i].to];

			if (!to->is_switch || from->level != *levels || to->level < *levels)
				continue;
			if (to->level == *levels)
				return mq_bad(err,
					      "%s: switches '%s' and '%s' are both %u above the hosts and joined: no "
					      "tree of equal depth; describe it by `maquette platform generate` "
					      "(fabric=dragonfly, torus)",
					      g->path, from->name, to->name, *levels);
			more = more || to->level == MQ_NONE;
			to->level = *levels + 1;
		}
	}
	if (*levels > N_LEVELS)
		return mq_bad(err, "%s: %u levels of switches, at most %d are modelled", g->path, *levels, N_LEVELS);
	return MQ_OK;
}

/* Finds units and pods; checks that all is connected. */
static enum mq_status find_sets(struct graph *g, struct mq_err *err)
{
	uint32_t *all = mq_arena_count(g->arena, g->n), leaf = MQ_NONE;

	g->unit = mq_arena_count(g->arena, g->n);
	g->pod = mq_arena_count(g->arena, g->n);
	for (uint32_t i = 0; i < g->n_ports; i++) {
		uint32_t from = g->port[i].from, to = g->port[i].to;

		all[mq_root(all, from)] = mq_root(all, to);
		if (g->v[from].level > 1 || (g->v[to].is_switch && g->v[to].level > 1))
			continue;
		g->pod[mq_root(g->pod, from)] = mq_root(g->pod, to);
		if (!g->v[to].is_switch)
			g->unit[mq_root(g->unit, from)] = mq_root(g->unit, to);
	}
	for (uint32_t i = 0; i < g->n; i++) {
		if (g->v[i].level != LEAF)
			continue;
		if (leaf != MQ_NONE && mq_root(all, i) != mq_root(all, leaf))
			return mq_bad(err,
				      "%s: nothing joins switches '%s' and '%s'; where a network does, add a switch "
				      "above them",
				      g->path, g->v[leaf].name, g->v[i].name);
		leaf = i;
	}
	return leaf == MQ_NONE ? mq_bad(err, "%s: no switch has machines", g->path) : MQ_OK;
}

/* Ports per machine: the most common number among named machines. */
static uint32_t usual_ports(const struct graph *g)
{
	uint32_t count[MAX_NICS + 1] = { 0 }, best = 1;

	for (uint32_t i = 0; i < g->n; i++)
		if (!g->v[i].is_switch && g->v[i].named && g->v[i].ports <= MAX_NICS)
			count[g->v[i].ports]++;
	for (uint32_t n = 2; n <= MAX_NICS; n++)
		best = count[n] > count[best] ? n : best;
	return best;
}

/* Machines of each unit, at its root: the number of named ones or that of its largest leaf, whichever is larger. Hosts
 * with at most half the usual ports do not count: they are storage and management nodes. */
static void count_hosts(struct graph *g)
{
	uint32_t *named = mq_arena_array(g->arena, g->n, uint32_t), *most = mq_arena_array(g->arena, g->n, uint32_t);
	uint32_t usual = usual_ports(g);
	struct mq_map pairs;

	mq_map_init(&pairs, g->arena, g->n_ports);
	for (uint32_t i = 0; i < g->n_ports; i++) {
		uint32_t leaf = g->port[i].from, to = g->port[i].to, before = pairs.n;

		if (g->v[to].is_switch || g->v[leaf].level != LEAF)
			continue;
		if (g->v[to].named && 2 * g->v[to].ports <= usual) {
			mq_machine_unused(g->machine, g->arena, "hosts with half the ports of others");
			continue;
		}
		mq_map_add(&pairs, mq_map_mix(leaf + 1, to + 1));
		g->v[leaf].hosts += pairs.n - before;
	}
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t root = mq_root(g->unit, i);

		named[root] += !g->v[i].is_switch && g->v[i].named && 2 * g->v[i].ports > usual;
		if (g->v[i].level == LEAF && g->v[i].hosts > most[root])
			most[root] = g->v[i].hosts;
	}
	for (uint32_t i = 0; i < g->n; i++)
		g->v[i].hosts = named[i] > most[i] ? named[i] : most[i];
}

/* "16x4+8/16x3": the units in order, grouped by pod. */
static const char *leaves_of(struct graph *g, bool pods, uint32_t *machines)
{
	bool *done = mq_arena_array(g->arena, g->n, bool);
	char *text = mq_arena_array(g->arena, 16 * (size_t)g->n + 1, char), *at = text, *last = NULL;
	uint32_t hosts = 0, count = 0;

	*machines = 0;
	for (uint32_t i = 0; i < g->n; i++) {
		char before = '/';

		if (g->v[i].level != LEAF || done[mq_root(g->unit, i)])
			continue;
		for (uint32_t j = i; j < g->n; j++) {
			uint32_t unit = mq_root(g->unit, j);
			bool other = pods && mq_root(g->pod, j) != mq_root(g->pod, i);

			if (g->v[j].level != LEAF || other || done[unit])
				continue;
			bool again = before == '+' && g->v[unit].hosts == hosts;
			done[unit] = true;
			if (!g->v[unit].hosts)
				continue;
			hosts = g->v[unit].hosts;
			*machines += hosts;
			count = again ? count + 1 : 1;
			if (!again) {
				last = at;
				*last = before;
			}
			at = last + 1 + sprintf(last + 1, count > 1 ? "%ux%u" : "%u", hosts, count);
			before = '+';
		}
	}
	return *text ? text + 1 : text;
}

/* Bandwidth into a level / bandwidth out of it, at least 1. */
static double oversubscription(const struct graph *g, uint32_t level)
{
	double down = 0, up = 0;

	for (uint32_t i = 0; i < g->n_ports; i++) {
		const struct port *p = &g->port[i];
		bool is_up = g->v[p->to].is_switch && g->v[p->to].level == level + 1;

		if (g->v[p->from].level == level)
			*(is_up ? &up : &down) += p->GBps;
	}
	return up > 0 ? fmax(down / up, 1) : 1;
}

/* The keys of the network, from the rates of ports. */
static const char *speeds_of(struct graph *g, uint32_t levels)
{
	double sum = 0, least = (double)INFINITY, most = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_ports; i++)
		if (!g->v[g->port[i].to].is_switch) {
			sum += g->port[i].GBps;
			least = fmin(least, g->port[i].GBps);
			most = fmax(most, g->port[i].GBps);
			n++;
		}
	if (!(sum > 0)) {
		mq_machine_unused(g->machine, g->arena, "ports (usual ones are taken), oversubscription (none)");
		return "";
	}
	if (most > least)
		mq_machine_unused(
			g->machine, g->arena,
			mq_arena_printf(g->arena, "ports of %.4g to %.4g GB/s (their mean is taken)", least, most));
	const char *text = mq_arena_printf(g->arena, " network=ib nics=%u nic_GBps=%.6g", usual_ports(g), sum / n);
	if (levels > 1)
		text = mq_arena_printf(g->arena, "%s oversub=%.4g", text, oversubscription(g, LEAF));
	if (levels > 2)
		text = mq_arena_printf(g->arena, "%s pod_oversub=%.4g", text, oversubscription(g, 1));
	return g->sharp ? mq_arena_printf(g->arena, "%s sharp=1", text) : text;
}

bool mq_network_probe(const char *text)
{
	return strstr(text, "SwitchName=") || strstr(text, "BlockName=") || strstr(text, "switchguid=");
}

enum mq_status mq_network_read(char *text, const char *path, const char *gpu, struct mq_machine *machine,
			       const char **keys, uint32_t *machines, struct mq_arena *arena, struct mq_err *err)
{
	struct graph *g = mq_arena_array(arena, 1, struct graph);
	bool slurm = !strstr(text, "switchguid=");
	uint32_t at = MQ_NONE, levels;
	char *save = NULL;

	*g = (struct graph){ .arena = arena, .path = path, .machine = machine };
	mq_map_init(&g->names, arena, 64);
	if (!gpu)
		return mq_bad(err,
			      "%s: it says how machines are joined, not what they are; give --gpu TYPE (TYPExN: "
			      "of N devices each)",
			      path);
	char *to = text;
	for (const char *from = text; *from;)
		if (slurm && from[0] == '\\' && from[1] == '\n')
			from += 2; /* a continued line */
		else
			*to++ = *from++;
	*to = '\0';
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		MQ_TRY(slurm ? read_slurm_line(g, line, err) : read_ib_line(g, line, &at, err));
	MQ_TRY(find_levels(g, &levels, err));
	MQ_TRY(find_sets(g, err));
	count_hosts(g);
	machine->format = slurm ? "topology.conf" : "ibnetdiscover";
	const char *leaves = leaves_of(g, levels > 2, machines);
	*keys = mq_arena_printf(arena, "gpu=%s nodes=%u fabric=%s leaves=%s%s", gpu, *machines,
				usual_ports(g) > 1 ? "rail" : "fat-tree", leaves, speeds_of(g, levels));
	return MQ_OK;
}
