/* platform.c - see platform.h. SimGrid reads bandwidth, latency and sharing of a platform file; properties hold what
 * training needs (device type, rank, node, link class). Not modelled, ignored: SimGrid's traces of changing speed,
 * energy and disks. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/platform.h"

#include <math.h>
#include <stdlib.h>

#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/zone.h>

#include "base/quantity.h"
#include "base/text.h"
#include "hardware/platform/xml.h"
#include "hardware/platform/impl.h"
#include "hardware/platform/memory.h"

/* SimGrid takes some 3 kB for each host of a cluster tag. */
enum { MAX_CLUSTER_HOSTS = 200000 };
/* Its memory limit for a file: one that lists everything explicitly needs 20 to 40 times its size. */
static const double LOAD_B = 800e6, LOAD_PER_BYTE = 50;

void mq_platform_start(const char *program)
{
	/* simgrid_init removes the arguments it understands, so it gets its own array. */
	const char *argument[] = { program,
				   "--cfg=network/model:CM02",
				   "--cfg=network/TCP-gamma:0",
				   "--cfg=network/crosstraffic:0",
				   "--cfg=surf/precision:1e-12",
				   "--cfg=contexts/stack-size:64",
				   "--cfg=contexts/guard-size:0",
				   "--log=root.fmt:%m%n",
				   "--log=xbt_cfg.thres:warning",
				   NULL };
	int count = sizeof(argument) / sizeof(*argument) - 1;
	char *copy[sizeof(argument) / sizeof(*argument)];

	for (int i = 0; i < count; i++) {
		copy[i] = strdup(argument[i]);
		mq_assert(copy[i]);
	}
	copy[count] = NULL;
	simgrid_init(&count, copy);
}

const char *mq_platform_complaint(const char *line)
{
	static const char *const noise[] = { "Exiting now", "Backtrace", "Current backtrace", "  ->" };
	static const char uncaught[] = "Uncaught exception "; /* std::invalid_argument: No route from ... */

	for (uint32_t i = 0; i < sizeof(noise) / sizeof(*noise); i++)
		if (!strncmp(line, noise[i], strlen(noise[i])))
			return NULL;
	return !strncmp(line, uncaught, strlen(uncaught)) && strstr(line, ": ") ? strstr(line, ": ") + 2 : line;
}

struct found {
	sg_host_t host;
	const char *name;
	double rank; /* NaN = none given */
};

static int by_rank(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (!isnan(x->rank) && !isnan(y->rank) && x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (isnan(x->rank) != isnan(y->rank))
		return isnan(x->rank) ? 1 : -1;
	return strverscmp(x->name, y->name); /* gpu2 before gpu10 */
}

MQ_COMPARE(by_link_name, sg_link_t, strverscmp(sg_link_get_name(*a), sg_link_get_name(*b)))

/* A numeric property; `absent` if missing. */
static enum mq_status number(sg_host_t host, const char *name, double absent, double *value, struct mq_err *err)
{
	const char *text = sg_host_get_property_value(host, name);

	*value = absent;
	if (text && (!mq_parse_f64(text, value) || *value < 0))
		return mq_bad(err, "host '%s': property %s='%s' is not a number >= 0; correct it",
			      sg_host_get_name(host), name, text);
	return MQ_OK;
}

static enum mq_status is_device(sg_host_t host, bool *yes, enum mq_device_kind *kind, struct mq_err *err)
{
	const char *type = sg_host_get_property_value(host, "mq_type");
	const char *text = sg_host_get_property_value(host, "mq_kind");

	*yes = type && *type;
	*kind = MQ_GPU;
	if (!text)
		*kind = *yes ? mq_platform_kind(type) : MQ_GPU;
	else if (!strcmp(text, "cpu"))
		*kind = MQ_CPU;
	else if (!strcmp(text, "switch"))
		*yes = false;
	else if (strcmp(text, "gpu") != 0)
		return mq_bad(err, "host '%s': mq_kind='%s' is none of gpu, cpu, switch", sg_host_get_name(host), text);
	return MQ_OK;
}

static enum mq_status find_devices(struct mq_arena *arena, struct found **list, uint32_t *n, struct mq_err *err)
{
	size_t n_hosts = sg_host_count();
	sg_host_t *all = sg_host_list(), *host = mq_arena_array(arena, n_hosts, sg_host_t);
	enum mq_device_kind kind;

	memcpy(host, all, n_hosts * sizeof(*host));
	free(all);
	*list = mq_arena_array(arena, n_hosts, struct found);
	*n = 0;
	for (size_t i = 0; i < n_hosts; i++) {
		struct found f = { .host = host[i], .name = sg_host_get_name(host[i]) };
		bool yes;

		MQ_TRY(is_device(host[i], &yes, &kind, err));
		MQ_TRY(number(host[i], "mq_rank", NAN, &f.rank, err));
		if (yes)
			(*list)[(*n)++] = f;
	}
	qsort(*list, *n, sizeof(**list), by_rank);
	for (uint32_t i = 1; i < *n; i++)
		if ((*list)[i].rank == (*list)[i - 1].rank)
			return mq_bad(err, "hosts '%s' and '%s' both have mq_rank=%g; number them 0, 1, 2 ...",
				      (*list)[i - 1].name, (*list)[i].name, (*list)[i].rank);
	return MQ_OK;
}

static enum mq_status fill_device(struct mq_cluster *cluster, uint32_t rank, sg_host_t host, struct mq_err *err)
{
	struct mq_device *d = &cluster->device[rank];
	double socket, nics;
	bool yes;

	d->name = mq_arena_strdup(cluster->arena, sg_host_get_name(host));
	d->type = mq_arena_strdup(cluster->arena, sg_host_get_property_value(host, "mq_type"));
	d->calib = MQ_NONE;
	d->speed_flops = sg_host_get_speed(host);
	MQ_TRY(is_device(host, &yes, &d->kind, err));
	MQ_TRY(number(host, "mq_memory_B", 0, &d->memory_B, err));
	MQ_TRY(number(host, "mq_host_memory_B", 0, &d->host_B, err));
	MQ_TRY(number(host, "mq_mem_bw_Bps", 0, &d->mem_bw_Bps, err));
	MQ_TRY(number(host, "mq_price_per_h", NAN, &d->price_per_h, err));
	MQ_TRY(number(host, "mq_power_W", NAN, &d->power_W, err));
	MQ_TRY(number(host, "mq_socket", 0, &socket, err));
	MQ_TRY(number(host, "mq_nics", 0, &nics, err));
	if (socket > 1e6 || nics > 1e6)
		return mq_bad(err, "host '%s': mq_socket or mq_nics is above 1e6", d->name);
	d->socket = (uint32_t)socket;
	if (nics > cluster->nics_per_node)
		cluster->nics_per_node = (uint32_t)nics;
	return MQ_OK;
}

struct member {
	const char *node;
	uint32_t rank;
};

MQ_COMPARE(by_node, struct member, strcmp(a->node, b->node) ?: MQ_ORDER(a->rank, b->rank))

/* Machines are numbered by their first device; a host without mq_node is a separate machine. */
static void number_nodes(struct mq_cluster *cluster, const sg_host_t *host)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	uint32_t n = cluster->n_devices;
	struct member *m = mq_arena_array(&scratch, n, struct member);
	uint32_t *first = mq_arena_array(&scratch, n, uint32_t);
	uint32_t *node_of = mq_arena_array(&scratch, n, uint32_t);

	for (uint32_t i = 0; i < n; i++) {
		m[i].rank = i;
		m[i].node = sg_host_get_property_value(host[i], "mq_node");
		if (!m[i].node)
			m[i].node = mq_arena_printf(&scratch, "\n%s", cluster->device[i].name);
	}
	qsort(m, n, sizeof(*m), by_node);
	for (uint32_t i = 0; i < n; i++) {
		bool same = i && !strcmp(m[i].node, m[i - 1].node);

		first[m[i].rank] = same ? first[m[i - 1].rank] : m[i].rank;
		cluster->device[m[i].rank].local = same ? cluster->device[m[i - 1].rank].local + 1 : 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (first[i] == i)
			node_of[i] = cluster->n_nodes++;
		cluster->device[i].node = node_of[first[i]];
	}
}

static enum mq_status read_links(struct mq_cluster *cluster, struct platform *platform, enum mq_fabric usual,
				 struct mq_err *err)
{
	sg_link_t *all = sg_link_list();
	size_t n_all = sg_link_count();
	uint32_t n = 0;
	enum mq_status status = MQ_OK;

	for (size_t i = 0; i < n_all; i++) /* SimGrid's loopback is on none of our routes */
		if (strcmp(sg_link_get_name(all[i]), "__loopback__") != 0)
			all[n++] = all[i];
	qsort(all, n, sizeof(*all), by_link_name);
	cluster->n_links = n;
	cluster->link = mq_arena_array(cluster->arena, n, struct mq_link);
	platform->link = mq_arena_array(cluster->arena, n, sg_link_t);
	for (uint32_t i = 0; i < n && status == MQ_OK; i++) {
		struct mq_link *l = &cluster->link[i];

		platform->link[i] = all[i];
		l->name = mq_arena_strdup(cluster->arena, sg_link_get_name(all[i]));
		l->bw_Bps = sg_link_get_bandwidth(all[i]);
		l->lat_s = sg_link_get_latency(all[i]);
		l->fatpipe = !sg_link_is_shared(all[i]);
		status = mq_platform_class(l, mq_platform_link_property(all[i], "mq_class"),
					   mq_platform_link_property(all[i], "mq_fabric"), usual, err);
		sg_link_set_data(all[i], (void *)(uintptr_t)i);
		if (l->lat_s > 0)
			sg_link_set_latency(all[i], 0);
	}
	free(all);
	return status;
}

static enum mq_status read_zone(struct mq_cluster *cluster, const char *path, enum mq_fabric *usual, struct mq_err *err)
{
	const_sg_netzone_t root = sg_zone_get_root();
	const char *name = sg_zone_get_property_value(root, "mq_name");
	const char *fabric = sg_zone_get_property_value(root, "mq_fabric");
	const char *nvls = sg_zone_get_property_value(root, "mq_nvls");
	const char *sharp = sg_zone_get_property_value(root, "mq_sharp");

	cluster->name = name ? mq_arena_strdup(cluster->arena, name) : mq_file_stem(path, cluster->arena);
	cluster->nvls = nvls && !strcmp(nvls, "1");
	cluster->sharp = sharp && !strcmp(sharp, "1");
	*usual = MQ_FABRIC_ETHERNET;
	if (fabric) {
		int f = MQ_ENUM_FIND(mq_fabric_name, MQ_N_FABRICS, fabric);

		if (f == MQ_N_FABRICS)
			return mq_bad(err, "%s: mq_fabric='%s' is none of ib roce eth efa omnipath tcpxo gib tcpx",
				      path, fabric);
		*usual = (enum mq_fabric)f;
	}
	return MQ_OK;
}

static enum mq_status resolve(void *context, uint32_t src, uint32_t dst, struct mq_route *route, struct mq_err *err)
{
	struct platform *p = context;
	uint32_t n, *link;

	xbt_dynar_reset(p->scratch);
	sg_host_get_route(p->host[src], p->host[dst], p->scratch);
	n = (uint32_t)xbt_dynar_length(p->scratch);
	link = mq_arena_array(p->cluster->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++) {
		sg_link_t l;

		xbt_dynar_get_cpy(p->scratch, i, &l);
		link[i] = (uint32_t)(uintptr_t)sg_link_get_data(l);
	}
	route->n_links = n;
	route->link = link;
	return MQ_OK;
}

/* ---- checks of a file before SimGrid reads it --------------------------------------------------------- */

/* Number of hosts in a list as "0-3,8". */
static double count_radical(const char *list)
{
	double sum = 0;

	while (*list) {
		char *after;
		double first = strtod(list, &after), last = first;

		if (after == list)
			return sum; /* SimGrid reports the error */
		if (*after == '-')
			last = strtod(after + 1, &after);
		sum += last >= first ? last - first + 1 : 0;
		list = after + strspn(after, ", ");
	}
	return sum;
}

/* Refuses what is no description of hardware: a <config> writes files and changes SimGrid's engine, an <include> and
 * names of profiles read files, an <actor> starts a function; and cluster tags with too many hosts, all of which
 * SimGrid would create before it reads on. */
static enum mq_status take_tag(void *context, const struct mq_xml_tag *tag, struct mq_err *err)
{
	static const char hardware[] =
		"platform zone AS host link link_ctn route zoneRoute ASroute bypassRoute bypassASroute bypassZoneRoute "
		"cluster cabinet peer router host_link backbone prop disk storage storage_type mount model_prop";
	double *hosts = context;

	if (!mq_text_has_word(hardware, tag->name))
		return mq_bad(err,
			      "%s:%u: <%.40s> describes no hardware: a platform may not configure, include, trace or "
			      "start anything; take it out",
			      tag->path, tag->line, tag->name);
	for (const char *const *a = tag->attribute; *a; a += 2) {
		size_t length = strlen(*a);

		if (length > 5 && !strcmp(*a + length - 5, "_file"))
			return mq_bad(err,
				      "%s:%u: %.40s of a <%s>: speeds that change are not read from files; take it out",
				      tag->path, tag->line, *a, tag->name);
	}
	*hosts += count_radical(mq_xml_attribute(tag, "radical"));
	return *hosts <= MAX_CLUSTER_HOSTS ? MQ_OK :
					     mq_bad(err, "%s: its clusters have %.0f hosts; at most %d", tag->path,
						    *hosts, MAX_CLUSTER_HOSTS);
}

static enum mq_status check_file(const char *path, size_t *size, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	double hosts = 0;
	const struct mq_xml_reader reader = { .open = take_tag, .context = &hosts };
	char *text;

	MQ_TRY(mq_text_read(path, 512, &arena, &text, size, err));
	if (!*size)
		return mq_bad(err, "%s: is empty; give a SimGrid platform file", path);
	return mq_xml_read(text, *size, path, &reader, err);
}

enum mq_status mq_platform_load(const char *path, struct mq_arena *arena, struct mq_cluster **result,
				struct mq_err *err)
{
	struct platform *platform = mq_arena_array(arena, 1, struct platform);
	struct mq_cluster *cluster = mq_cluster_new(arena);
	struct found *found;
	struct mq_memory_limit limit;
	enum mq_fabric usual;
	size_t size;

	MQ_TRY(check_file(path, &size, err));
	mq_memory_limit_set(&limit, path, LOAD_B + LOAD_PER_BYTE * (double)size);
	simgrid_load_platform(path);
	mq_memory_limit_restore(&limit);
	MQ_TRY(read_zone(cluster, path, &usual, err));
	if (find_devices(arena, &found, &cluster->n_devices, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	cluster->device = mq_arena_array(arena, cluster->n_devices, struct mq_device);
	platform->host = mq_arena_array(arena, cluster->n_devices, sg_host_t);
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		platform->host[i] = found[i].host;
		if (fill_device(cluster, i, found[i].host, err) != MQ_OK)
			return mq_wrap(err, "%s", path);
	}
	number_nodes(cluster, platform->host);
	if (read_links(cluster, platform, usual, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	platform->scratch = xbt_dynar_new(sizeof(sg_link_t), NULL);
	platform->cluster = cluster;
	cluster->resolve = resolve;
	cluster->context = platform;
	if (mq_cluster_check(cluster, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	*result = cluster;
	return MQ_OK;
}

sg_host_t mq_platform_host(const struct mq_cluster *cluster, uint32_t rank)
{
	if (cluster->whole)
		return mq_platform_host(cluster->whole, cluster->rank[rank]);

	struct platform *platform = cluster->context;

	mq_assert(platform->cluster == cluster && rank < cluster->n_devices);
	return platform->gen ? mq_platform_built_host(platform, rank) : platform->host[rank];
}

sg_link_t mq_platform_link(const struct mq_cluster *cluster, uint32_t link)
{
	const struct platform *platform = cluster->context;

	mq_assert(platform->cluster == cluster && link < cluster->n_links);
	return platform->link[link];
}
