/* machine.c - writes an imported machine as a platform: a Full zone with a route for each pair of devices, over
 * NVSwitch or a direct NVLink where there is one, else over PCIe and the sockets; without peer-to-peer transfers
 * (GeForce) through host memory. See import.h. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/machine.h"

static uint32_t renumber(uint32_t value, uint32_t *seen, uint32_t *n)
{
	uint32_t i = 0;

	while (i < *n && seen[i] != value)
		i++;
	if (i == *n)
		seen[(*n)++] = value;
	return i;
}

bool mq_machine_has_nvlink(const struct mq_machine *m)
{
	for (uint32_t i = 0; i < m->n_devices; i++)
		for (uint32_t j = i; j < m->n_devices; j++)
			if (m->nvlink_GBps[i][j] > 0)
				return true;
	return false;
}

void mq_machine_number(struct mq_machine *m)
{
	uint32_t sockets[MQ_MACHINE_MAX], switches[MQ_MACHINE_MAX];

	m->n_sockets = 0;
	m->n_switches = 0;
	for (uint32_t i = 0; i < m->n_devices; i++) {
		struct mq_machine_device *d = &m->device[i];
		uint32_t below = 0;

		d->socket = renumber(d->socket, sockets, &m->n_sockets);
		for (uint32_t j = 0; j < m->n_devices; j++)
			below += m->device[j].pcie_switch == d->pcie_switch;
		if (d->pcie_switch != MQ_NONE && below < 2)
			d->pcie_switch = MQ_NONE;
	}
	for (uint32_t i = 0; i < m->n_devices; i++)
		if (m->device[i].pcie_switch != MQ_NONE)
			m->device[i].pcie_switch = renumber(m->device[i].pcie_switch, switches, &m->n_switches);
}

void mq_machine_unused(struct mq_machine *m, struct mq_arena *arena, const char *name)
{
	if (!m->unused || !strstr(m->unused, name))
		m->unused = mq_arena_printf(arena, "%s%s%s", m->unused ? m->unused : "", m->unused ? ", " : "", name);
}

static double pcie_GBps(const struct mq_machine_device *d)
{
	return d->pcie_GBps > 0 ? d->pcie_GBps : d->type->pcie_Bps / 1e9;
}

/* A link "KINDi", or "KINDi_j" where j is a device too. */
static void put_link(FILE *f, const char *kind, uint32_t i, uint32_t j, double GBps, double us, const char *class)
{
	char other[16] = "";

	if (j != MQ_NONE)
		snprintf(other, sizeof(other), "_%u", j);
	fprintf(f,
		"\t<link id=\"%s%u%s\" bandwidth=\"%.9gGBps\" latency=\"%.9gus\" sharing_policy=\"%s\">"
		"<prop id=\"mq_class\" value=\"%s\"/></link>\n",
		kind, i, other, GBps, us, strcmp(class, "host") ? "SPLITDUPLEX" : "SHARED", class);
}

static bool all_p2p(const struct mq_machine *m)
{
	for (uint32_t i = 0; i < m->n_devices; i++)
		if (m->device[i].type->p2p <= 0 || m->device[i].indirect)
			return false;
	return true;
}

/* The type of the CPU devices; NULL: none. */
static const struct mq_device_calib *cpu_of(const struct mq_machine *m)
{
	for (uint32_t i = 0; i < m->n_devices; i++)
		if (m->device[i].type->kind == MQ_CPU)
			return m->device[i].type;
	return NULL;
}

enum mq_status mq_machine_add_cpus(struct mq_machine *m, uint32_t n, const struct mq_device_calib *type,
				   double memory_B, struct mq_err *err)
{
	if (m->n_devices + n > MQ_MACHINE_MAX)
		return mq_bad(err, "%u CPU devices beside %u GPUs: at most %d devices", n, m->n_devices,
			      MQ_MACHINE_MAX);
	for (uint32_t i = 0; i < n; i++)
		m->device[m->n_devices++] = (struct mq_machine_device){
			.type = type,
			.pcie_switch = MQ_NONE,
			.memory_B = memory_B,
			.socket = m->n_sockets ? i % m->n_sockets : 0,
		};
	return MQ_OK;
}

static bool joined(const struct mq_machine *m, uint32_t a, uint32_t b)
{
	return m->nvswitch ? m->nvlink_GBps[a][a] > 0 && m->nvlink_GBps[b][b] > 0 : m->nvlink_GBps[a][b] > 0;
}

/* Does any pair have a route between sockets? */
static bool crosses_sockets(const struct mq_machine *m)
{
	for (uint32_t a = 0; a < m->n_devices; a++)
		for (uint32_t b = a + 1; b < m->n_devices; b++)
			if (m->device[a].socket != m->device[b].socket && !joined(m, a, b))
				return true;
	return false;
}

/* Of the links between device i and its peers. */
static const char *peer_class(const struct mq_machine *m, uint32_t i)
{
	return mq_calib_is_amd(m->device[i].type) ? "xgmi" : "nvlink";
}

static void put_links(const struct mq_machine *m, FILE *f)
{
	const struct mq_device_calib *cpu = cpu_of(m);
	double widest[MQ_MACHINE_MAX] = { 0 };

	for (uint32_t i = 0; i < m->n_devices; i++) {
		const struct mq_machine_device *d = &m->device[i];

		if (d->type->kind == MQ_CPU)
			continue;
		put_link(f, "pcie", i, MQ_NONE, pcie_GBps(d), 0.5, "pcie");
		if (d->pcie_switch != MQ_NONE && widest[d->pcie_switch] < pcie_GBps(d))
			widest[d->pcie_switch] = pcie_GBps(d);
		if (m->nvswitch && m->nvlink_GBps[i][i] > 0)
			put_link(f, "nvswitch", i, MQ_NONE, m->nvlink_GBps[i][i], 0.35, "nvswitch");
		for (uint32_t j = i + 1; j < m->n_devices && !m->nvswitch; j++)
			if (m->nvlink_GBps[i][j] > 0)
				put_link(f, peer_class(m, i), i, j, m->nvlink_GBps[i][j], 0.7, peer_class(m, i));
	}
	for (uint32_t i = 0; i < m->n_switches; i++)
		put_link(f, "pcie_switch", i, MQ_NONE, widest[i], 0.2, "pcie-switch");
	for (uint32_t i = 0; i + 1 < m->n_sockets && crosses_sockets(m); i++)
		put_link(f, "socket", i, MQ_NONE, 62.4, 0.2, "socket");
	for (uint32_t i = 0; i < m->n_sockets && cpu; i++)
		put_link(f, "host", i, MQ_NONE, cpu->pcie_Bps / 1e9, 0.2, "host");
	if (!cpu && !all_p2p(m))
		put_link(f, "host", 0, MQ_NONE, 102.4, 0.2, "host");
}

static void step(FILE *f, const char *kind, uint32_t i, bool up)
{
	fprintf(f, "<link_ctn id=\"%s%u\" direction=\"%s\"/>", kind, i, up ? "UP" : "DOWN");
}

static void cross_sockets(FILE *f, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		step(f, "socket", i, true);
	for (uint32_t i = from; i > to; i--)
		step(f, "socket", i - 1, false);
}

static void pcie_route(const struct mq_machine *m, FILE *f, uint32_t a, uint32_t b)
{
	const struct mq_machine_device *x = &m->device[a], *y = &m->device[b];
	bool direct = x->type->p2p > 0 && y->type->p2p > 0 && !x->indirect && !y->indirect;

	if (x->type->kind == MQ_CPU && y->type->kind == MQ_CPU) {
		fprintf(f, "<link_ctn id=\"host%u\"/>", x->socket);
		cross_sockets(f, x->socket, y->socket);
		if (x->socket != y->socket)
			fprintf(f, "<link_ctn id=\"host%u\"/>", y->socket);
		return;
	}
	step(f, "pcie", a, true);
	if (y->type->kind == MQ_CPU) { /* CPUs come last: the first end is a GPU */
		if (x->pcie_switch != MQ_NONE)
			step(f, "pcie_switch", x->pcie_switch, true);
		cross_sockets(f, x->socket, y->socket);
		return;
	}
	if (!direct || x->pcie_switch != y->pcie_switch || x->pcie_switch == MQ_NONE) {
		if (x->pcie_switch != MQ_NONE)
			step(f, "pcie_switch", x->pcie_switch, true);
		if (!direct)
			fprintf(f, "<link_ctn id=\"host0\"/>");
		cross_sockets(f, x->socket, y->socket);
		if (y->pcie_switch != MQ_NONE)
			step(f, "pcie_switch", y->pcie_switch, false);
	}
	step(f, "pcie", b, false);
}

static void put_routes(const struct mq_machine *m, FILE *f)
{
	for (uint32_t a = 0; a < m->n_devices; a++)
		for (uint32_t b = a + 1; b < m->n_devices; b++) {
			fprintf(f, "\t<route src=\"dev%u\" dst=\"dev%u\">", a, b);
			if (m->nvswitch && joined(m, a, b)) {
				step(f, "nvswitch", a, true);
				step(f, "nvswitch", b, false);
			} else if (joined(m, a, b)) {
				fprintf(f, "<link_ctn id=\"%s%u_%u\" direction=\"UP\"/>", peer_class(m, a), a, b);
			} else {
				pcie_route(m, f, a, b);
			}
			fprintf(f, "</route>\n");
		}
}

static bool reduces(const struct mq_machine *m)
{
	for (uint32_t i = 0; i < m->n_devices; i++)
		if (m->device[i].type->nvls <= 0 && m->device[i].type->kind != MQ_CPU)
			return false;
	return m->nvswitch;
}

void mq_machine_write(const struct mq_machine *m, const char *name, const char *source, FILE *f)
{
	fprintf(f,
		"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
		"<!--\n  Imported from %s (%s).\n"
		"  Nominal: bandwidths that the file did not give, and every latency.\n-->\n"
		"<platform version=\"4.1\">\n<zone id=\"platform\" routing=\"Full\">\n"
		"\t<prop id=\"mq_name\" value=\"%s\"/>\n",
		source, m->format, name);
	if (reduces(m))
		fprintf(f, "\t<prop id=\"mq_nvls\" value=\"1\"/>\n");
	for (uint32_t i = 0; i < m->n_devices; i++) {
		const struct mq_machine_device *d = &m->device[i];

		fprintf(f,
			"\t<host id=\"dev%u\" speed=\"%.9gTf\"><prop id=\"mq_type\" value=\"%s\"/>"
			"<prop id=\"mq_rank\" value=\"%u\"/><prop id=\"mq_node\" value=\"0\"/>"
			"<prop id=\"mq_socket\" value=\"%u\"/><prop id=\"mq_nics\" value=\"%u\"/>",
			i, mq_calib_peak_flops(d->type) / 1e12, d->type->name, i, d->socket, m->n_nics);
		double memory_B = d->memory_B > 0 ? d->memory_B : m->memory_B;
		if (memory_B > 0)
			fprintf(f, "<prop id=\"mq_memory_B\" value=\"%.0f\"/>", memory_B);
		if (d->type->kind == MQ_CPU && m->device[0].type->kind != MQ_CPU)
			fprintf(f, "<prop id=\"mq_kind\" value=\"cpu\"/>");
		fprintf(f, "</host>\n");
	}
	put_links(m, f);
	put_routes(m, f);
	fprintf(f, "</zone>\n</platform>\n");
}
