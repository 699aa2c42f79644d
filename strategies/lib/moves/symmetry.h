/* symmetry.h - devices that may be exchanged without any answer changing: the two behind one PCIe switch, two whole
 * machines behind one network switch.
 *
 * Found are exchanges of two devices of a machine, of two such groups of devices, and of two machines, each in the
 * order of ranks; an exchange counts where it maps the routes between all devices onto routes over links alike, one to
 * one. Not found: turns of a ring or torus, exchanges that need another order. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LIB_MOVES_SYMMETRY_H
#define MQ_LIB_MOVES_SYMMETRY_H

#include "maquette/plan.h"
#include "lib/classes.h"

enum { MQ_SYMMETRY_MOST = 64 }; /* devices; all pairs of them are looked at */

struct mq_symmetry_part {
	uint32_t n, *child; /* parts, or ranks of devices */
	uint32_t *like;     /* [n] first child that it may be exchanged with */
	bool leaf;          /* its children are devices */
	uint32_t size;      /* devices below */
};

struct mq_symmetry {
	uint32_t n_devices;
	uint32_t n_parts; /* the last one is the whole; 0: nothing is known */
	struct mq_symmetry_part *part;
};

void mq_symmetry_make(const struct mq_cluster *cluster, const struct mq_classes *classes, struct mq_arena *arena,
		      struct mq_symmetry *out);

/* Gives every device of the plan the name that it has in all plans that differ by such exchanges alone. */
void mq_symmetry_canonical(const struct mq_symmetry *symmetry, struct mq_plan *plan, struct mq_arena *arena);

#endif
