/* tables.h - explicit cost tables of a PaSE problem (*.tables.json).
 *
 * {"vertices": [{"id", "type", "configs": [[degrees]...], "cost": [FLOP...]}...], "edges": [{"src", "dst", "cost":
 * [[FLOP...]...]}...], ...}: one cost per configuration of a layer and one matrix per edge (rows: configurations of
 * src). Other members are ignored. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_PASE_TABLES_H
#define MQ_PASE_TABLES_H

#include <stdbool.h>

#include "maquette/arena.h"
#include "maquette/err.h"
#include "lib/elim.h"

struct mq_pase_tables {
	struct mq_elim_problem problem;
	uint32_t *data_parallel; /* [n_vars] the configuration that splits only the batch, into most parts */
};

enum mq_status mq_pase_tables_load(const char *path, struct mq_arena *arena, struct mq_pase_tables *tables,
				   struct mq_err *err);
/* Does the file look like such tables? */
bool mq_pase_tables_probe(const char *path);

#endif
