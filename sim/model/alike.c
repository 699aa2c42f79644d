/* alike.c - finds equal layers: the same op of equal layers costs the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/model.h"

#include <string.h>

static uint32_t relative(uint32_t other, uint32_t op)
{
	return other == MQ_NONE ? MQ_NONE : other - op;
}

/* Are both ops and their neighbours equal except for the layer index? */
static bool same_op(const struct mq_model *m, uint32_t a, uint32_t b)
{
	struct mq_op x, y;
	uint32_t in = m->in_first[a], out = m->out_first[a], n_in = m->in_first[a + 1] - in;

	memcpy(&x, &m->op[a], sizeof(x));
	memcpy(&y, &m->op[b], sizeof(y));
	x.name = y.name = NULL;
	x.layer = y.layer = 0;
	x.mate = relative(x.mate, a), y.mate = relative(y.mate, b);
	x.tied = relative(x.tied, a), y.tied = relative(y.tied, b);
	if (memcmp(&x, &y, sizeof(x)) || m->in_first[b + 1] - m->in_first[b] != n_in ||
	    m->out_first[b + 1] - m->out_first[b] != m->out_first[a + 1] - out)
		return false;
	for (uint32_t i = 0; i < n_in; i++) {
		const struct mq_edge *e = &m->edge[m->in_edge[in + i]], *f = &m->edge[m->in_edge[m->in_first[b] + i]];

		if (a - e->src != b - f->src || e->elems != f->elems || e->no_grad != f->no_grad)
			return false;
	}
	for (uint32_t i = 0; i < m->out_first[a + 1] - out; i++)
		if (m->edge[out + i].dst - a != m->edge[m->out_first[b] + i].dst - b)
			return false;
	return true;
}

/* An op is fused with ops of its own or the next layer only. Profiles time each op separately. */
void mq_model_find_alike(struct mq_model *m, struct mq_arena *arena)
{
	uint32_t *like = m->like = mq_arena_array(arena, m->n_ops, uint32_t);
	bool *same = mq_arena_array(arena, m->n_layers + 2, bool);
	uint32_t *first = mq_arena_none(arena, m->n_layers + 1),
		 *end = mq_arena_array(arena, m->n_layers + 1, uint32_t);

	for (uint32_t op = 0; op < m->n_ops; op++) {
		uint32_t layer = m->op[op].layer;

		like[op] = op;
		if (layer == MQ_NONE)
			continue;
		if (first[layer] == MQ_NONE)
			first[layer] = op;
		else if (end[layer] != op) /* the ops of the layer are not contiguous */
			end[layer] = MQ_NONE;
		end[layer] = end[layer] == MQ_NONE ? MQ_NONE : op + 1;
	}
	for (uint32_t l = 1; l < m->n_layers && !m->profile.n_types; l++) {
		same[l] = first[l] == end[l - 1] && end[l] - first[l] == end[l - 1] - first[l - 1];
		for (uint32_t op = first[l]; same[l] && op < end[l]; op++)
			same[l] = same_op(m, op, op - first[l] + first[l - 1]);
	}
	for (uint32_t l = 2; l + 1 < m->n_layers; l++)
		for (uint32_t op = first[l]; same[l - 1] && same[l] && same[l + 1] && op < end[l]; op++)
			like[op] = like[op - first[l] + first[l - 1]];
}
