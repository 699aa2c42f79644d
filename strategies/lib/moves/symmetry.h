/* symmetry.h - interchangeable devices: exchanging them changes no result (two behind one PCIe switch, two whole
 * machines behind one network switch).
 *
 * Found: exchanges of two devices of a machine, of two such groups of devices, and of two machines, each in rank order;
 * an exchange counts if it maps all routes onto routes over equal links, one to one. Not found: rotations of a ring or
 * torus, exchanges that need another order. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_SYMMETRY_H
#define MQ_LIB_MOVES_SYMMETRY_H

#include "maquette/plan.h"
#include "lib/classes.h"

enum { MQ_SYMMETRY_MOST = 64 }; /* devices; larger clusters have no symmetry, as all pairs are tested */

struct mq_symmetry_part {
	uint32_t n, *child; /* children: indices of parts or, in a leaf, ranks */
	uint32_t *like;     /* [n] first child that it can be exchanged with */
	bool leaf;          /* children are devices */
	uint32_t size;      /* number of devices */
};

struct mq_symmetry {
	uint32_t n_devices;
	uint32_t n_parts; /* the last is the whole cluster; 0: symmetry unknown */
	struct mq_symmetry_part *part;
};

void mq_symmetry_make(const struct mq_cluster *cluster, const struct mq_classes *classes, struct mq_arena *arena,
		      struct mq_symmetry *out);

/* Renames the plan's devices to the canonical representative among all plans that differ by such exchanges alone. */
void mq_symmetry_canonical(const struct mq_symmetry *symmetry, struct mq_plan *plan, struct mq_arena *arena);

#endif
