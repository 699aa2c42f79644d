/* import_smi.c - the matrices of `nvidia-smi topo -m` and of `rocm-smi --showtopo`.
 *
 * NV# is the number of NVLinks of a pair. If every pair has the same number and a GPU would need more than 18 links,
 * the maximum of any GPU, the links go to NVSwitches and # is the number per GPU. Devices (GPUs and network cards) with
 * PIX between them share a PCIe switch; those with the same CPU affinity (or, without that column, without SYS between
 * them) share a socket. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

#include "base/text.h"
#include "hardware/platform/machine.h"

enum { MAX_COLUMNS = 2 * MQ_MACHINE_MAX, MOST_LINKS = 18 };

struct matrix {
	uint32_t n; /* rows and columns: devices and network cards */
	bool is_gpu[MAX_COLUMNS];
	uint32_t gpu[MAX_COLUMNS]; /* index of the device */
	char label[MAX_COLUMNS][24];
	bool seen[MAX_COLUMNS], more; /* rows present; columns of NUMA nodes present */
	char cell[MAX_COLUMNS][MAX_COLUMNS][8];
	const char *affinity[MAX_COLUMNS]; /* CPU affinity; NULL = none */
	uint32_t rows;
};

/* The words of a format's cells; the last is the diagonal. */
static const char nvidia_cells[] = "PIX PXB PHB NODE SYS SOC X";
static const char amd_links[] = "XGMI PCIE N/A 0";
static const char amd_numbers[] = "N/A 0"; /* and any number */

static bool is_cell(const char *word, const char *cells)
{
	const char *number = cells == amd_numbers ? word : strncmp(word, "NV", 2) ? "" : word + 2;

	return mq_text_has_word(cells, word) || (*number && !number[strspn(number, "0123456789")]);
}

/* Does a word begin here: at the start of the line or after a character of no name, as in "[1,0]<stdout>:GPU0"? */
static char *find_word(char *line, const char *word)
{
	for (char *at = line; (at = strstr(at, word)); at++)
		if (at == line || !(isalnum((unsigned char)at[-1]) || at[-1] == '_'))
			return at;
	return NULL;
}

/* Reads the header "GPU0 GPU1 ... mlx5_0 ... CPU Affinity ..."; false: the line is no header. */
static bool read_header(char *line, struct matrix *m)
{
	char *save = NULL, *from = find_word(line, "GPU");
	uint32_t gpus = 0;

	m->n = m->rows = 0;
	if (!from || !isdigit((unsigned char)from[3]))
		return false;
	m->more = strstr(from, "NUMA") != NULL;
	for (char *word = strtok_r(from, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (is_cell(word, "CPU NUMA GPU X"))
			break;
		if (m->n == MAX_COLUMNS || strlen(word) >= sizeof(m->label[0]))
			return false;
		m->is_gpu[m->n] = !strncmp(word, "GPU", 3) && isdigit((unsigned char)word[3]);
		m->gpu[m->n] = m->is_gpu[m->n] ? gpus++ : MQ_NONE;
		m->seen[m->n] = false;
		strcpy(m->label[m->n++], word);
	}
	return true;
}

/* The column of a row's name, and the text after the name; MQ_NONE: the line is no row. */
static uint32_t row_of(char *line, const struct matrix *m, char **rest)
{
	char *first = NULL;
	uint32_t row = MQ_NONE;

	for (uint32_t i = 0; i < m->n; i++) {
		char *at = find_word(line, m->label[i]);
		size_t length = strlen(m->label[i]);

		if (at && (!first || at < first) && (at[length] == ' ' || at[length] == '\t')) {
			first = at;
			row = i;
			*rest = at + length;
		}
	}
	return row;
}

static enum mq_status read_row(char *line, uint32_t number, const char *path, const char *cells, uint32_t row,
			       struct matrix *m, struct mq_err *err)
{
	char *save = NULL, *word;

	for (uint32_t column = 0; column < m->n; column++) {
		word = strtok_r(column ? NULL : line, " \t", &save);
		if (word && mq_text_has_word("OK CNS GNS TNS NS DR U", word))
			return mq_bad(err,
				      "%s:%u: '%s': this is `nvidia-smi topo -p2p`, which says who may reach whom, not "
				      "how; give the output of `nvidia-smi topo -m`",
				      path, number, word);
		if (!word || !is_cell(word, cells) || strlen(word) >= sizeof(m->cell[0][0]))
			return mq_bad(err,
				      cells == nvidia_cells ?
					      "%s:%u: '%s' in column %u is none of X, NV#, PIX, PXB, PHB, NODE, SYS" :
					      "%s:%u: '%s' in column %u is no cell of rocm-smi --showtopo",
				      path, number, word ? word : "nothing", column + 1);
		strcpy(m->cell[row][column], word);
	}
	word = strtok_r(NULL, " \t", &save);
	m->affinity[row] = word && isdigit((unsigned char)*word) ? word : NULL;
	m->rows += !m->seen[row];
	m->seen[row] = true;
	return MQ_OK;
}

static uint32_t links(const char *cell)
{
	return strncmp(cell, "NV", 2) ? 0 : (uint32_t)strtoul(cell + 2, NULL, 10);
}

static bool same_socket(const struct matrix *m, uint32_t a, uint32_t b)
{
	if (m->affinity[a] && m->affinity[b])
		return !strcmp(m->affinity[a], m->affinity[b]);
	return strcmp(m->cell[a][b], "SYS") != 0 && strcmp(m->cell[a][b], "SOC") != 0;
}

static void find_groups(const struct matrix *m, struct mq_machine *machine)
{
	uint32_t below[MAX_COLUMNS], socket[MAX_COLUMNS];

	for (uint32_t i = 0; i < m->n; i++)
		below[i] = socket[i] = i;
	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t j = 0; j < m->n; j++) {
			if (!strcmp(m->cell[i][j], "PIX"))
				below[mq_root(below, i)] = mq_root(below, j);
			if (m->is_gpu[i] && m->is_gpu[j] && same_socket(m, i, j))
				socket[mq_root(socket, i)] = mq_root(socket, j);
		}
	for (uint32_t i = 0; i < m->n; i++)
		if (m->is_gpu[i]) {
			machine->device[m->gpu[i]].pcie_switch = mq_root(below, i);
			machine->device[m->gpu[i]].socket = mq_root(socket, i);
		}
}

static void find_nvlinks(const struct matrix *m, struct mq_machine *machine)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t sum = 0;

		for (uint32_t j = 0; j < m->n; j++)
			sum += links(m->cell[i][j]);
		most = sum > most ? sum : most;
	}
	machine->nvswitch = most > MOST_LINKS;
	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t j = 0; j < m->n; j++) {
			uint32_t a = m->gpu[i], b = machine->nvswitch ? a : m->gpu[j];
			uint32_t count = links(m->cell[i][j]);

			if (m->is_gpu[i] && m->is_gpu[j] && count)
				machine->nvlink_GBps[a][b] = count * machine->device[a].type->nvlink_port_Bps / 1e9;
		}
}

static enum mq_status check(const struct matrix *m, const char *path, const char *self, struct mq_err *err)
{
	if (m->rows != m->n)
		return mq_bad(err, "%s: the matrix has %u columns and %u rows; is it cut?", path, m->n, m->rows);
	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t j = 0; j < m->n; j++)
			if (strcmp(m->cell[i][j], m->cell[j][i]) != 0 || (i == j) != !strcmp(m->cell[i][j], self))
				return mq_bad(err, "%s: row %s column %s says %s, the other way %s", path, m->label[i],
					      m->label[j], m->cell[i][j], m->cell[j][i]);
	return MQ_OK;
}

/* Reads the first matrix from *text on and moves *text past it. Rows are found by name, in any order. MQ_DONE: none. */
static enum mq_status read_matrix(char **text, const char *path, const char *cells, struct matrix *m,
				  struct mq_err *err)
{
	char *next = *text;

	m->n = 0;
	for (uint32_t number = 1; next && !(m->n && m->rows == m->n); number++) {
		char *line = next, *end = strchr(line, '\n'), *rest;

		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		uint32_t row = m->n ? row_of(line, m, &rest) : MQ_NONE;
		if (row != MQ_NONE)
			MQ_TRY(read_row(rest, number, path, cells, row, m, err));
		else if (!m->rows)
			read_header(line, m); /* the last header before the rows counts */
		else
			break; /* the legend */
	}
	*text = next;
	return m->n ? check(m, path, strrchr(cells, ' ') + 1, err) : MQ_DONE;
}

static enum mq_status add_devices(const struct matrix *m, const char *path, const struct mq_device_calib *type,
				  struct mq_machine *machine, struct mq_err *err)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (m->is_gpu[i])
			machine->n_devices++;
		else
			machine->n_nics++;
	if (!machine->n_devices || machine->n_devices > MQ_MACHINE_MAX)
		return mq_bad(err, "%s: %u GPUs, at most %d", path, machine->n_devices, MQ_MACHINE_MAX);
	if (!type)
		return mq_bad(err, "%s: the matrix does not say which GPUs these are; give --gpu TYPE", path);
	for (uint32_t i = 0; i < machine->n_devices; i++)
		machine->device[i] = (struct mq_machine_device){ .type = type, .pcie_switch = MQ_NONE };
	return MQ_OK;
}

/* "GPU[3] : (Topology) Numa Node: 1", in places "GPU 3" */
static void find_numa(const char *text, struct mq_machine *machine)
{
	static const char key[] = "(Topology) Numa Node:";

	for (const char *at = text; at && (at = strstr(at, "GPU")); at++) {
		unsigned long gpu = strtoul(at + 3 + (at[3] == '['), NULL, 10);
		const char *end = strchr(at, '\n'), *node = strstr(at, key);

		if (node && (!end || node < end) && gpu < machine->n_devices)
			machine->device[gpu].socket = (uint32_t)strtoul(node + strlen(key), NULL, 10);
	}
}

/* AMD's matrices: GPUs one xGMI hop apart have a direct link. Newer versions print 1 for any number of hops inside a
 * hive; there the weights, which grow with each hop, decide. */
static enum mq_status read_amd(char *text, const char *path, const struct mq_device_calib *type, struct matrix *m,
			       struct mq_machine *machine, struct mq_arena *arena, struct mq_err *err)
{
	struct matrix *hops = mq_arena_array(arena, 1, struct matrix),
		      *weights = mq_arena_array(arena, 1, struct matrix);
	char *hop_rows = strstr(text, "Hops between two GPUs"), *link_rows = strstr(text, "Link Type between two GPUs");
	char *weight_rows = strstr(text, "Weight between two GPUs");
	unsigned long weight, least = ULONG_MAX;
	const char *numa = mq_arena_strdup(arena, text);

	if (!hop_rows || !link_rows || hop_rows > link_rows)
		return mq_bad(err,
			      "%s: not all of rocm-smi's topology: the tables of hops and of link types are needed; "
			      "give the output of `rocm-smi --showtopo`",
			      path);
	if (weight_rows && weight_rows < hop_rows)
		MQ_TRY(read_matrix(&weight_rows, path, amd_numbers, weights, err));
	MQ_TRY(read_matrix(&hop_rows, path, amd_numbers, hops, err));
	MQ_TRY(read_matrix(&link_rows, path, amd_links, m, err));
	uint32_t other = weights->n && m->n != weights->n ? weights->n : hops->n;
	if (m->n != other)
		return mq_bad(err, "%s: the tables have %u and %u GPUs", path, other, m->n);
	MQ_TRY(add_devices(m, path, type, machine, err));
	machine->format = "rocm-smi topology"; /* part of an XML comment */
	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < m->n; i++)
			for (uint32_t j = 0; j < m->n; j++) {
				if (strcmp(m->cell[i][j], "XGMI") != 0 || strcmp(hops->cell[i][j], "1") != 0)
					continue;
				weight = strtoul(weights->cell[i][j], NULL, 10);
				least = weight < least ? weight : least;
				if (pass && weight == least)
					machine->nvlink_GBps[m->gpu[i]][m->gpu[j]] = type->nvlink_port_Bps / 1e9;
			}
	find_numa(numa, machine);
	mq_machine_unused(machine, arena, "how many xGMI links join a pair is not said (one each)");
	return MQ_OK;
}

enum mq_status mq_machine_read_smi(char *text, const char *path, const struct mq_device_calib *type,
				   struct mq_machine *machine, struct mq_arena *arena, struct mq_err *err)
{
	struct matrix *m = mq_arena_array(arena, 1, struct matrix);

	mq_text_strip_controls(text); /* the header is underlined on terminals */
	if (strstr(text, "between two GPUs"))
		return read_amd(text, path, type, m, machine, arena, err);
	MQ_TRY(read_matrix(&text, path, nvidia_cells, m, err));
	MQ_TRY(add_devices(m, path, type, machine, err));
	machine->format = "nvidia-smi topo -m";
	if (m->more)
		mq_machine_unused(machine, arena, "NUMA columns");
	find_groups(m, machine);
	find_nvlinks(m, machine);
	if (type->nvswitch && !machine->nvswitch && !mq_machine_has_nvlink(machine))
		mq_machine_unused(machine, arena,
				  "NVSwitches of this type: the matrix has no NV# (topo -mp leaves them out)");
	return MQ_OK;
}
