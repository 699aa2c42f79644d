/* ideals.c - see ideals.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/place/ideals.h"

#include "maquette/types.h"

static uint64_t hash_bits(const uint64_t *bits, uint32_t words)
{
	uint64_t h = 0x9e3779b97f4a7c15u;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ bits[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

/* Number of an ideal, MQ_NONE = unknown; *slot: its place in the hash table. */
static uint32_t find_ideal(const struct mq_ideals *s, const uint64_t *bits, uint32_t *slot)
{
	uint32_t mask = s->table_size - 1;
	uint32_t i = (uint32_t)hash_bits(bits, s->words) & mask;

	for (; s->table[i]; i = (i + 1) & mask) {
		uint32_t id = s->table[i] - 1;

		if (!memcmp(s->bits + (size_t)id * s->words, bits, s->words * sizeof(*bits))) {
			*slot = i;
			return id;
		}
	}
	*slot = i;
	return MQ_NONE;
}

static bool add_ideal(struct mq_ideals *s, const uint64_t *bits)
{
	uint32_t slot;

	if (find_ideal(s, bits, &slot) != MQ_NONE)
		return true;
	if (s->n == s->room)
		return false;
	memcpy(s->bits + (size_t)s->n * s->words, bits, s->words * sizeof(*bits));
	s->table[slot] = ++s->n;
	return true;
}

static bool has(const uint64_t *bits, uint32_t unit)
{
	return bits[unit / 64] >> (unit % 64) & 1;
}

/* Are all of these units in the set (`all`), or none of them? */
static bool holds(const uint64_t *bits, const uint32_t *unit, uint32_t first, uint32_t end, bool all)
{
	for (uint32_t i = first; i < end; i++)
		if (has(bits, unit[i]) != all)
			return false;
	return true;
}

/* Extends each ideal by every node whose predecessors it contains, smaller ideals first. */
static enum mq_status grow(const struct mq_ideals_graph *g, struct mq_ideals *s, struct mq_arena *arena,
			   struct mq_err *err)
{
	uint64_t *bits = mq_arena_array(arena, s->words, uint64_t);

	add_ideal(s, bits);
	for (uint32_t id = 0; id < s->n; id++) {
		memcpy(bits, s->bits + (size_t)id * s->words, s->words * sizeof(*bits));
		for (uint32_t v = 0; v < g->n; v++) {
			if (has(bits, v) || !holds(bits, g->pred, g->pred_first[v], g->pred_first[v + 1], true))
				continue;
			bits[v / 64] |= (uint64_t)1 << (v % 64);
			if (!add_ideal(s, bits))
				return mq_bad(
					err,
					"the graph's %u units have more than %u ideals, the bound of this method: "
					"raise it with ideals=N, or use engine dpl",
					g->n, s->room);
			bits[v / 64] &= ~((uint64_t)1 << (v % 64));
		}
	}
	return MQ_OK;
}

static void link_ideals(const struct mq_ideals_graph *g, struct mq_ideals *s, struct mq_arena *arena)
{
	uint64_t *bits = mq_arena_array(arena, s->words, uint64_t);
	uint32_t n = 0;

	s->link_first = mq_arena_array(arena, s->n + 1, uint32_t);
	for (int pass = 0; pass < 2; pass++) { /* count, then fill */
		if (pass == 1) {
			s->link_unit = mq_arena_array(arena, n, uint32_t);
			s->link_to = mq_arena_array(arena, n, uint32_t);
			n = 0;
		}
		for (uint32_t id = 0; id < s->n; id++) {
			memcpy(bits, s->bits + (size_t)id * s->words, s->words * sizeof(*bits));
			s->link_first[id] = n;
			for (uint32_t v = 0; v < g->n; v++) {
				uint32_t slot;

				if (!has(bits, v) ||
				    !holds(bits, g->succ, g->succ_first[v], g->succ_first[v + 1], false))
					continue;
				if (pass == 1) {
					bits[v / 64] &= ~((uint64_t)1 << (v % 64));
					s->link_unit[n] = v;
					s->link_to[n] = find_ideal(s, bits, &slot);
					bits[v / 64] |= (uint64_t)1 << (v % 64);
				}
				n++;
			}
		}
	}
	s->link_first[s->n] = n;
}

enum mq_status mq_ideals_make(const struct mq_ideals_graph *g, uint32_t max_ideals, struct mq_arena *arena,
			      struct mq_ideals *s, struct mq_err *err)
{
	*s = (struct mq_ideals){ .room = max_ideals, .words = (g->n + 63) / 64 };
	for (s->table_size = 64; s->table_size < 2 * (max_ideals + 1); s->table_size *= 2)
		continue;
	s->table = mq_arena_array(arena, s->table_size, uint32_t);
	s->bits = mq_arena_array(arena, (size_t)max_ideals * s->words, uint64_t);
	MQ_TRY(grow(g, s, arena, err));
	for (uint32_t v = 0; v < g->n; v++)
		if (!mq_ideals_has(s, s->n - 1, v))
			return mq_bad(err, "the graph has a cycle through node %u", v);
	link_ideals(g, s, arena);
	return MQ_OK;
}

enum mq_status mq_ideals_of_edges(uint32_t n, uint32_t n_edges, const uint32_t *src, const uint32_t *dst, size_t stride,
				  uint32_t max_ideals, struct mq_arena *arena, struct mq_ideals *s, struct mq_err *err)
{
	uint32_t *pred_first, *pred, *succ_first, *succ;

	mq_csr_make(arena, n, n_edges, dst, src, stride, &pred_first, &pred);
	mq_csr_make(arena, n, n_edges, src, dst, stride, &succ_first, &succ);
	return mq_ideals_make(&(struct mq_ideals_graph){ n, pred_first, pred, succ_first, succ }, max_ideals, arena, s,
			      err);
}
