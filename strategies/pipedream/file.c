/* file.c - PipeDream's profiles (graph.txt), as models read by sim/model/formats/pipedream.c; see dp.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "maquette/model.h"
#include "pipedream/dp.h"

bool mq_pipedream_probe(const char *path)
{
	char line[1024];
	FILE *f = fopen(path, "r");
	bool found =
		f && fgets(line, sizeof(line), f) && !strncmp(line, "node", 4) && strstr(line, "forward_compute_time=");

	if (f)
		fclose(f);
	return found;
}

/* An output named __getitem__ without consumer, which PipeDream's optimizer drops; the reader drops inputs. */
static bool is_unused(const struct mq_model *m, uint32_t op)
{
	return m->out_first[op] == m->out_first[op + 1] && strstr(m->op[op].name, ".__getitem__");
}

static void fill(const struct mq_model *m, struct mq_arena *arena, struct mq_pipedream *p)
{
	struct mq_pipedream_layer *layer = mq_arena_array(arena, m->n_ops, struct mq_pipedream_layer);
	uint32_t *number = mq_arena_none(arena, m->n_ops);
	uint32_t *src = mq_arena_array(arena, m->n_edges, uint32_t);
	uint32_t *dst = mq_arena_array(arena, m->n_edges, uint32_t);
	double size_B = mq_dtype_size(MQ_FP32);

	for (uint32_t op = 0; op < m->n_ops; op++) {
		const struct mq_op *o = &m->op[op];

		if (is_unused(m, op))
			continue;
		number[op] = p->n_layers;
		layer[p->n_layers++] =
			(struct mq_pipedream_layer){ o->name, m->profile.forward_s[op] + m->profile.backward_s[op],
						     o->output * size_B, o->param * size_B };
	}
	for (uint32_t e = 0; e < m->n_edges; e++) {
		src[p->n_edges] = number[m->edge[e].src];
		dst[p->n_edges] = number[m->edge[e].dst];
		p->n_edges += dst[p->n_edges] != MQ_NONE;
	}
	p->layer = layer;
	p->src = src;
	p->dst = dst;
}

enum mq_status mq_pipedream_load(const char *path, struct mq_arena *arena, struct mq_pipedream *p, struct mq_err *err)
{
	/* its minibatch is one sample, so that the file's numbers stay as they are */
	const struct mq_model_request request = { .spec = mq_arena_printf(arena, "%s:batch=1", path) };
	struct mq_model *model;

	*p = (struct mq_pipedream){ 0 };
	if (!mq_pipedream_probe(path))
		return mq_bad(err, "%s: not a profile of PipeDream's, whose first line is a node with its times", path);
	MQ_TRY(mq_model_load(&request, arena, &model, err));
	fill(model, arena, p);
	return MQ_OK;
}
