/* import_smi.c - the matrix that `nvidia-smi topo -m` prints.
 *
 * NV# says how many NVLinks join a pair. Where every pair has the same number and a GPU would need more than the 18
 * links that any has, the links go to NVSwitches and # is the number per GPU. Devices (GPUs and network cards) joined
 * by PIX are below one PCIe switch; those with the same CPU affinity (or, where that column is absent, without SYS
 * between them) share a socket. SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>

#include "maquette/cluster.h"
#include "hardware/platform/machine.h"

enum { MAX_COLUMNS = 2 * MQ_MACHINE_MAX, MOST_LINKS = 18 };

struct matrix {
	uint32_t n; /* rows and columns: devices and network cards */
	bool is_gpu[MAX_COLUMNS];
	uint32_t gpu[MAX_COLUMNS]; /* index of the device */
	char cell[MAX_COLUMNS][MAX_COLUMNS][8];
	const char *affinity[MAX_COLUMNS]; /* CPU affinity; NULL = none */
	uint32_t rows;
};

/* Terminals get the header underlined: take escape sequences and carriage returns away. */
static void plain(char *text)
{
	char *to = text;

	for (char *from = text; *from; from++) {
		if (*from == 27 && from[1] == '[') {
			while (*from && !isalpha((unsigned char)*from))
				from++;
			if (!*from)
				break;
		} else if (*from != '\r') {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static bool names_column(const char *word)
{
	size_t letters = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");

	return (!strncmp(word, "GPU", 3) && letters == 3 && isdigit((unsigned char)word[3])) ||
	       (!strncmp(word, "NIC", 3) && isdigit((unsigned char)word[3])) || !strncmp(word, "mlx", 3) ||
	       !strncmp(word, "hfi", 3) || !strncmp(word, "bnxt", 4) || !strncmp(word, "efa", 3) ||
	       !strncmp(word, "rdma", 4);
}

static bool relation(const char *word)
{
	static const char *const words[] = { "X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC" };

	for (uint32_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i]))
			return true;
	return !strncmp(word, "NV", 2) && isdigit((unsigned char)word[2]) && !word[2 + strspn(word + 2, "0123456789")];
}

/* The header: "GPU0 GPU1 ... NIC0 ... CPU Affinity ...". */
static bool read_header(char *line, struct matrix *m)
{
	char *save = NULL;
	uint32_t gpus = 0;

	m->n = 0;
	for (char *word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (!names_column(word))
			break;
		if (m->n == MAX_COLUMNS)
			return false;
		m->is_gpu[m->n] = !strncmp(word, "GPU", 3);
		m->gpu[m->n] = m->is_gpu[m->n] ? gpus++ : MQ_NONE;
		m->n++;
	}
	return gpus > 0;
}

static enum mq_status read_row(char *line, uint32_t number, const char *path, struct matrix *m, struct mq_err *err)
{
	char *save = NULL, *word = strtok_r(line, " \t", &save);

	for (uint32_t column = 0; column < m->n; column++) {
		word = strtok_r(NULL, " \t", &save);
		if (!word || !relation(word) || strlen(word) >= sizeof(m->cell[0][0]))
			return mq_fail(err, MQ_EINPUT,
				       "%s:%u: '%s' in column %u is none of X, NV#, PIX, PXB, PHB, NODE, SYS", path,
				       number, word ? word : "nothing", column + 1);
		strcpy(m->cell[m->rows][column], word);
	}
	word = strtok_r(NULL, " \t", &save);
	m->affinity[m->rows] = word && isdigit((unsigned char)*word) ? word : NULL;
	m->rows++;
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

static enum mq_status check(const struct matrix *m, const char *path, struct mq_err *err)
{
	if (m->rows != m->n)
		return mq_fail(err, MQ_EINPUT, "%s: the matrix has %u columns and %u rows; is it cut?", path, m->n,
			       m->rows);
	for (uint32_t i = 0; i < m->n; i++)
		for (uint32_t j = 0; j < m->n; j++)
			if (strcmp(m->cell[i][j], m->cell[j][i]) != 0 || (i == j) != !strcmp(m->cell[i][j], "X"))
				return mq_fail(err, MQ_EINPUT, "%s: row %u column %u says %s, the other way %s", path,
					       i + 1, j + 1, m->cell[i][j], m->cell[j][i]);
	return MQ_OK;
}

static enum mq_status read_matrix(char *text, const char *path, struct matrix *m, struct mq_err *err)
{
	char *next = text;

	for (uint32_t number = 1; next; number++) {
		char *line = next, *end = strchr(line, '\n');
		char first[32] = "";

		next = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		sscanf(line, " %31s", first);
		if (!m->n && names_column(first) && strstr(line, " X "))
			return MQ_DONE; /* a row before any header */
		if (!m->n && names_column(first)) {
			if (!read_header(line, m))
				return mq_fail(err, MQ_EINPUT, "%s:%u: no GPU, or more than %d columns", path, number,
					       MAX_COLUMNS);
		} else if (m->n && m->rows < m->n && names_column(first)) {
			MQ_TRY(read_row(line, number, path, m, err));
		} else if (m->n && m->rows) {
			break; /* the legend */
		}
	}
	return m->n ? MQ_OK : MQ_DONE;
}

enum mq_status mq_machine_read_smi(char *text, const char *path, const struct mq_device_calib *type,
				   struct mq_machine *machine, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct matrix *m = mq_arena_array(&arena, 1, struct matrix);

	plain(text);
	MQ_TRY(read_matrix(text, path, m, err));
	MQ_TRY(check(m, path, err));
	for (uint32_t i = 0; i < m->n; i++)
		if (m->is_gpu[i])
			machine->n_devices++;
		else
			machine->n_nics++;
	if (machine->n_devices > MQ_MACHINE_MAX)
		return mq_fail(err, MQ_EINPUT, "%s: %u GPUs, at most %d", path, machine->n_devices, MQ_MACHINE_MAX);
	if (!type)
		return mq_fail(err, MQ_EINPUT, "%s: the matrix does not say which GPUs these are; give --gpu TYPE",
			       path);
	machine->format = "nvidia-smi topo -m";
	for (uint32_t i = 0; i < machine->n_devices; i++)
		machine->device[i].type = type;
	find_groups(m, machine);
	find_nvlinks(m, machine);
	return MQ_OK;
}
