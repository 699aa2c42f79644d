/* allocator_replay.c - see allocator_replay.h. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/allocator_replay.h"

#include <math.h>

#include "maquette/map.h"

enum {
	DEEPEST = 8,  /* most pipeline ranks that are replayed */
	AHEAD = 1024, /* capacity of a stream's queue, in launches; when it is full, the host waits */
};

/* An input tensor of an op. */
struct input {
	uint32_t from;           /* op of the replay that made it, MQ_NONE = from outside */
	bool has_grad, spare[3]; /* no padding, here and below: replays are compared as bytes */
	uint64_t size;
};

struct replayed_op {
	struct mq_op_use use;
	uint32_t first_input, n_inputs; /* among the chunk's inputs */
	uint32_t readers, near_readers; /* ops of the chunk that read its output; recomputed ones in its unit */
	bool gemm, loss, spare[6];
};

struct chunk {
	struct replayed_op *op;
	uint32_t n, n_inputs;
	struct input *input;
	double kept_B; /* of one micro-batch */
};

struct mq_allocator_replay {
	struct chunk *chunk;
	struct mq_slot *slot;
	uint32_t n_chunks;
	uint32_t n_slots, n_micro_batches; /* as replayed */
	double apart_B, more_B;            /* more_B: saved by micro-batches that are not replayed */
	double moments;                    /* share of the optimizer state that the first step allocates */
	bool lazy, splits;
	double type_B;                                  /* of an element */
	uint32_t logits_buffers, allgather_flat_copies; /* fields of the software */
};

/* ---- what is replayed ------------------------------------------------------------------------------------- */

/* Peak of saved activations over an order of passes. */
static double most_kept(const struct mq_allocator_replay *t, const struct mq_slot *slot, uint32_t n)
{
	uint32_t release = t->splits ? MQ_PASS_W : MQ_PASS_B;
	double now = 0, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		double kept_B = t->chunk[slot[i].chunk].kept_B;

		now += slot[i].pass == MQ_PASS_F ? kept_B : slot[i].pass == release ? -kept_B : 0;
		most = fmax(most, now);
	}
	return most;
}

static struct mq_slot *order(struct mq_low *low, uint32_t micro_batches, uint32_t n_ranks, uint32_t rank, uint32_t *n)
{
	struct mq_plan plan = *low->plan;
	char message[256];

	*n = 0;
	plan.micro_batches = micro_batches;
	return mq_pipeline_order(&plan, n_ranks, rank, false, &low->scratch, n, message);
}

/* The passes to replay, and the saved bytes of the others. */
static void shorten(struct mq_low *low, struct mq_allocator_replay *t, uint32_t rank)
{
	uint32_t all = low->plan->micro_batches, n_ranks = low->num.n_ranks < DEEPEST ? low->num.n_ranks : DEEPEST, n;
	uint32_t behind = low->num.n_ranks - rank; /* this rank included */
	uint32_t rounds = mq_pipeline_kind(low->plan->pipeline)->most_chunks > 1 ? 3 : 1;
	uint32_t m = rounds * n_ranks + (rounds == 1);

	if (all <= m) {
		m = all;
		n_ranks = low->num.n_ranks;
	} else {
		rank = behind < n_ranks ? n_ranks - behind : 0;
	}
	t->slot = order(low, m, n_ranks, rank, &t->n_slots);
	t->n_micro_batches = m;
	if (m == all)
		return;
	const struct mq_slot *whole = order(low, all, low->num.n_ranks, low->num.n_ranks - behind, &n);
	t->more_B = fmax(most_kept(t, whole, n) - most_kept(t, t->slot, t->n_slots), 0);
}

static uint64_t bytes(double B)
{
	return B < 1 ? 0 : (uint64_t)B;
}

static void add_inputs(struct mq_low *low, const uint32_t *local, uint32_t stage, struct chunk *c, uint32_t i)
{
	const struct mq_model *m = low->model;
	struct replayed_op *op = &c->op[i];
	uint32_t id = op->use.op;

	MQ_EACH_IN(m, id, e) {
		bool here = low->num.stage_of[e->src] == stage && local[e->src] != MQ_NONE;
		struct input *in = &c->input[op->first_input + op->n_inputs];

		if (m->op[e->src].kind == MQ_OP_INPUT)
			continue;
		*in = (struct input){ .from = here ? local[e->src] : MQ_NONE, .has_grad = !e->no_grad };
		if (here) {
			struct replayed_op *from = &c->op[in->from];

			in->size = bytes(from->use.output_B);
			from->readers++;
			from->near_readers += from->use.unit == op->use.unit && op->use.again;
		} else {
			in->size =
				bytes(fmin(op->use.output_B, e->elems * op->use.output_B / fmax(m->op[id].output, 1)));
		}
		op->n_inputs++;
	}
}

static void make_chunk(struct mq_low *low, uint32_t stage, uint32_t device, uint32_t *local, struct chunk *c)
{
	const struct mq_model *m = low->model;
	uint32_t room = low->num.stage_first[stage + 1] - low->num.stage_first[stage], edges = 0;
	struct mq_op_use *use = mq_arena_array(&low->scratch, room + 1, struct mq_op_use);

	mq_footprint_of(low, stage, device, use, &c->n);
	c->op = mq_arena_array(&low->scratch, c->n + 1, struct replayed_op);
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t id = use[i].op;

		c->op[i] = (struct replayed_op){ .use = use[i],
						 .gemm = m->op[id].kind == MQ_OP_GEMM,
						 .loss = m->op[id].kind == MQ_OP_LOSS,
						 .first_input = edges };
		c->kept_B += use[i].away ? 0 : use[i].kept_B + use[i].first_entry_B;
		local[id] = i;
		edges += m->in_first[id + 1] - m->in_first[id];
	}
	c->n_inputs = edges;
	c->input = mq_arena_array(&low->scratch, edges + 1, struct input);
	for (uint32_t i = 0; i < c->n; i++)
		add_inputs(low, local, stage, c, i);
}

struct mq_allocator_replay *mq_allocator_replay_new(struct mq_low *low, uint32_t rank, uint32_t device, double apart_B)
{
	struct mq_allocator_replay *t = mq_arena_array(&low->scratch, 1, struct mq_allocator_replay);
	uint32_t *local = mq_arena_none(&low->scratch, low->model->n_ops + 1);
	double master_B = mq_software_master_B(low->software, low->train);
	double state_B = mq_train_state_B(low->train, master_B, low->software->moment_B);

	t->n_chunks = low->num.n_stages / low->num.n_ranks;
	t->chunk = mq_arena_array(&low->scratch, t->n_chunks, struct chunk);
	for (uint32_t k = 0; k < t->n_chunks; k++)
		make_chunk(low, mq_low_stage(low, rank, k), device, local, &t->chunk[k]);
	t->apart_B = apart_B;
	t->moments = state_B > 0 ? 1 - master_B / state_B : 0;
	t->type_B = mq_dtype_size(low->train->dtype);
	t->logits_buffers = low->software->logits_buffers;
	t->allgather_flat_copies = low->software->allgather_flat_copies;
	t->lazy = low->software->zero_grad_set_to_none;
	t->splits = mq_pipeline_splits(low->plan->pipeline);
	shorten(low, t, rank);
	return t;
}

/* ---- the replay ------------------------------------------------------------------------------------ */

/* A tensor and its number of remaining uses. */
struct tensor {
	uint32_t block, wanted;
};

/* Lists of tensors that are freed together. */
struct node {
	uint32_t tensor, next;
};

/* Time of the host, in launches, and of the device that runs them. */
struct moment {
	double launches, device_s;
};

struct player {
	const struct mq_allocator_replay *replay;
	struct mq_arena *arena;
	struct mq_allocator *allocator;
	struct tensor *tensor;
	uint32_t n_tensors, tensor_room, spare_tensor; /* free entries are linked through `wanted` */
	struct node *node;
	uint32_t n_nodes, node_room, spare_node;
	uint32_t *kept;       /* [micro-batch][op of any chunk]: lists */
	uint32_t *output;     /* [op of the chunk]: tensor, in a forward pass */
	uint32_t *grad;       /* [op of the chunk]: gradient of its output, in a backward pass */
	bool *grad_late;      /* a collective reads that gradient */
	uint32_t *weight;     /* [op of any chunk]: gradient of its parameters, if the backward pass allocates it */
	uint32_t *first_op;   /* [chunk]: first index in the two above */
	uint32_t n_ops;       /* ops of all chunks */
	uint32_t passing;     /* list: freed at the end of the pass */
	uint32_t gathered[2]; /* ZeRO-3: parameters of this unit and of the next */
	uint32_t *logits, n_losses; /* [logits_buffers + 1]: tensors; losses so far */
	double launches;            /* so far */
	double host_s, device_s;    /* clocks; host_s only advances if hosts agree on collectives */
	struct moment *late;        /* [n_late] when a block was freed late */
	uint32_t first_late, n_late, late_room;
	bool failed;
	struct mq_allocation_log *log; /* NULL, or records the allocations */
	uint32_t op;                   /* the running op of the model; MQ_NONE = none */
};

static void fill(uint32_t *array, size_t n)
{
	for (size_t i = 0; i < n; i++)
		array[i] = MQ_NONE;
}

static uint32_t take_for(struct player *p, enum mq_pool_stream stream, uint64_t size, enum mq_purpose purpose,
			 const char *what)
{
	uint32_t block, id = p->spare_tensor;

	if (!size || p->failed)
		return MQ_NONE;
	if (p->log) {
		p->log->next.op = p->log->next.by = p->op;
		p->log->next.what = what;
		p->log->next.purpose = (uint8_t)purpose;
	}
	block = mq_allocator_take(p->allocator, stream, size);
	if (block == MQ_NONE) {
		p->failed = true;
		return MQ_NONE;
	}
	if (id == MQ_NONE) {
		id = p->n_tensors;
		MQ_PUSH(p->arena, p->tensor, p->n_tensors, p->tensor_room, ((struct tensor){ 0 }));
	} else {
		p->spare_tensor = p->tensor[id].wanted;
	}
	p->tensor[id] = (struct tensor){ block, 1 };
	return id;
}

static uint32_t take(struct player *p, double size_B, enum mq_purpose purpose, const char *what)
{
	return take_for(p, MQ_POOL_COMPUTE, bytes(size_B), purpose, what);
}

/* Launches the kernels of an op. Late-freed blocks become free once the device has passed their last use; the host
 * waits for the device when its queue is full, or when hosts agree on a collective. */
static void launch(struct player *p, const struct mq_op_use *use, int phase)
{
	p->launches += use->launches[phase];
	p->host_s += use->host_s[phase];
	p->device_s = fmax(p->device_s, p->host_s) + use->busy_s[phase];
	while (p->first_late < p->n_late &&
	       (p->late[p->first_late].launches + AHEAD < p->launches || p->late[p->first_late].device_s < p->host_s))
		p->first_late++;
	mq_allocator_pass(p->allocator, p->n_late - p->first_late);
}

static void give(struct player *p, uint32_t id, bool late)
{
	if (id == MQ_NONE || --p->tensor[id].wanted)
		return;
	if (p->log)
		p->log->next.by = p->op;
	mq_allocator_give(p->allocator, p->tensor[id].block, late);
	if (late)
		MQ_PUSH(p->arena, p->late, p->n_late, p->late_room, ((struct moment){ p->launches, p->device_s }));
	p->tensor[id].wanted = p->spare_tensor;
	p->spare_tensor = id;
}

static void want(struct player *p, uint32_t *list, uint32_t tensor)
{
	uint32_t id = p->spare_node;

	if (tensor == MQ_NONE)
		return;
	if (id == MQ_NONE) {
		id = p->n_nodes;
		MQ_PUSH(p->arena, p->node, p->n_nodes, p->node_room, ((struct node){ 0 }));
	} else {
		p->spare_node = p->node[id].next;
	}
	p->node[id] = (struct node){ tensor, *list };
	*list = id;
}

static void give_list(struct player *p, uint32_t *list)
{
	while (*list != MQ_NONE) {
		uint32_t id = *list;

		*list = p->node[id].next;
		give(p, p->node[id].tensor, false);
		p->node[id].next = p->spare_node;
		p->spare_node = id;
	}
}

static void share(struct player *p, uint32_t *list, uint32_t tensor)
{
	p->tensor[tensor].wanted++;
	want(p, list, tensor);
}

static uint32_t *kept_of(struct player *p, const struct mq_slot *s, uint32_t op)
{
	return &p->kept[(size_t)s->micro_batch * p->n_ops + p->first_op[s->chunk] + op];
}

/* Allocates `size_B` as tensors of at most `piece_B`. */
static void want_pieces(struct player *p, uint32_t *list, double size_B, double piece_B, const char *what)
{
	while (piece_B >= 1 && size_B > piece_B) {
		want(p, list, take(p, piece_B, MQ_FOR_ACTIVATIONS, what));
		size_B -= piece_B;
	}
	want(p, list, take(p, size_B, MQ_FOR_ACTIVATIONS, what));
}

/* Saves an op's tensors: its output, those inputs that are saved, and further tensors. */
static void keep(struct player *p, const struct chunk *c, uint32_t i, double kept_B, uint32_t *list)
{
	const struct replayed_op *op = &c->op[i];
	double output_B = op->use.output_B;

	if (p->output[i] != MQ_NONE && output_B >= 1 && kept_B >= .999 * output_B) {
		share(p, list, p->output[i]);
		kept_B -= output_B;
	}
	for (uint32_t k = 0; k < op->n_inputs && (!op->gemm || op->use.again); k++) {
		const struct input *in = &c->input[op->first_input + k];

		if (in->from == MQ_NONE || p->output[in->from] == MQ_NONE || kept_B < .999 * (double)in->size)
			continue;
		share(p, list, p->output[in->from]);
		kept_B -= (double)in->size;
	}
	if (kept_B >= 512)
		want_pieces(p, list, kept_B, op->use.scores_B, "kept for backward");
}

/* The loss saves its logits, unless they are in a buffer; everything else it holds, except the logits' gradient, is
 * separate tensors. */
static double loss_own_B(const struct mq_allocator_replay *t, const struct chunk *c, const struct replayed_op *op)
{
	double gradient_B = op->n_inputs ? (double)c->input[op->first_input].size : 0;
	double logits_B = t->logits_buffers ? t->type_B * op->use.logit_B : gradient_B;

	return fmax(op->use.loss_B - logits_B - gradient_B, 0);
}

/* The gathered logits of a micro-batch replace older ones, which are freed. */
static void buffer_logits(struct player *p, const struct replayed_op *op)
{
	uint32_t *place = &p->logits[p->n_losses++ % (p->replay->logits_buffers + 1)];
	uint32_t made = take(p, p->replay->type_B * op->use.logit_B, MQ_FOR_ACTIVATIONS, "logits");

	give(p, *place, false);
	*place = made;
}

static void keep_loss(struct player *p, const struct chunk *c, uint32_t i, uint32_t *list)
{
	const struct replayed_op *op = &c->op[i];
	uint32_t from = op->n_inputs ? c->input[op->first_input].from : MQ_NONE;

	if (p->replay->logits_buffers)
		buffer_logits(p, op);
	else if (from != MQ_NONE && p->output[from] != MQ_NONE)
		share(p, list, p->output[from]);
	want_pieces(p, list, fmin(op->use.kept_B, loss_own_B(p->replay, c, op)), 4 * op->use.logit_B,
		    "kept for backward");
}

/* The tensor from which recomputation of its unit starts: made in the stage, or received. */
static void keep_entry(struct player *p, const struct chunk *c, uint32_t i, uint32_t *list)
{
	const struct replayed_op *op = &c->op[i];

	for (uint32_t k = 0; k < op->n_inputs; k++) {
		uint32_t from = c->input[op->first_input + k].from;

		if (from != MQ_NONE && p->output[from] != MQ_NONE && c->op[from].use.unit != op->use.unit) {
			share(p, list, p->output[from]);
			return;
		}
	}
	want(p, list, take(p, op->use.first_entry_B, MQ_FOR_ACTIVATIONS, "input, kept to run again"));
}

static void release_inputs(struct player *p, const struct chunk *c, uint32_t i, bool near)
{
	const struct replayed_op *op = &c->op[i];

	for (uint32_t k = 0; k < op->n_inputs; k++) {
		uint32_t from = c->input[op->first_input + k].from;

		if (from != MQ_NONE && p->output[from] != MQ_NONE && (!near || c->op[from].use.unit == op->use.unit)) {
			bool last = p->tensor[p->output[from]].wanted == 1;

			give(p, p->output[from], c->op[from].use.output_late);
			if (last)
				p->output[from] = MQ_NONE;
		}
	}
}

/* Gathers the parameters of a unit during the compute of the previous one. */
static void gather(struct player *p, const struct chunk *c, uint32_t first, uint32_t end, uint32_t k)
{
	double gathered_B = 0;

	for (uint32_t i = first; i < end; i++)
		gathered_B += c->op[i].use.root ? 0 : c->op[i].use.gathered_B;
	p->gathered[k] = take_for(p, MQ_POOL_GATHER, bytes(gathered_B), MQ_FOR_BUFFERS, "gathered weights");
}

static uint32_t unit_end(const struct chunk *c, uint32_t first)
{
	uint32_t end = first;

	while (end < c->n && c->op[end].use.unit == c->op[first].use.unit)
		end++;
	return end;
}

static uint32_t unit_first(const struct chunk *c, uint32_t end)
{
	uint32_t first = end;

	while (first > 0 && c->op[first - 1].use.unit == c->op[end - 1].use.unit)
		first--;
	return first;
}

/* The next unit's parameters have arrived; frees those of the last. */
static void move_on(struct player *p)
{
	give(p, p->gathered[0], false);
	p->gathered[0] = p->gathered[1];
	p->gathered[1] = MQ_NONE;
}

/* Forward of one op; near: recomputation before the backward of its unit. */
static void run_forward(struct player *p, const struct mq_slot *s, uint32_t i, bool near)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];
	const struct replayed_op *op = &c->op[i];
	uint32_t wanted = near ? op->near_readers : op->readers, scores;

	launch(p, &op->use, 0);
	p->op = op->use.op;
	p->output[i] = take(p, op->use.output_B, MQ_FOR_ACTIVATIONS, "output");
	if (p->output[i] != MQ_NONE)
		p->tensor[p->output[i]].wanted += wanted;
	scores = take(p, op->use.scores_B, MQ_FOR_ACTIVATIONS, "scores");
	if (!near && op->use.entry_B > 0)
		keep_entry(p, c, i, kept_of(p, s, i));
	if (op->loss)
		keep_loss(p, c, i, kept_of(p, s, i));
	else
		keep(p, c, i, near ? op->use.again_B : op->use.kept_B, kept_of(p, s, i));
	give(p, scores, false);
	release_inputs(p, c, i, near);
	uint32_t own = p->output[i];
	if (own != MQ_NONE && wanted == 0 && !near) {
		p->output[i] = MQ_NONE;
		want(p, &p->passing, own); /* an output of the stage: sent by the end of the pass */
	} else {
		give(p, own, false);
	}
}

static void forward(struct player *p, const struct mq_slot *s)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];

	gather(p, c, 0, unit_end(c, 0), 0);
	for (uint32_t first = 0, end; first < c->n; first = end) {
		end = unit_end(c, first);
		gather(p, c, end, end < c->n ? unit_end(c, end) : end, 1);
		for (uint32_t i = first; i < end; i++)
			run_forward(p, s, i, false);
		if (c->op[first].use.away)
			for (uint32_t i = first; i < end; i++)
				give_list(p, kept_of(p, s, i));
		move_on(p);
	}
	move_on(p);
	give_list(p, &p->passing);
	fill(p->output, c->n);
}

static void form_weight(struct player *p, const struct replayed_op *op, uint32_t *weight)
{
	const struct mq_op_use *use = &op->use;

	if (p->replay->lazy && use->gathered_B < 1) {
		if (*weight == MQ_NONE)
			*weight = take(p, use->gradient_B, MQ_FOR_GRADIENTS, "gradient of weights");
		else
			give(p, take(p, use->formed_B, MQ_FOR_BUFFERS, "gradient of weights, formed"), false);
		return;
	}
	if (use->waiting_B >= 1)
		want(p, &p->passing, take(p, use->waiting_B, MQ_FOR_BUFFERS, "gradient of weights, waiting"));
	else
		give(p, take(p, use->formed_B, MQ_FOR_BUFFERS, "gradient of weights, formed"), false);
}

static void make_gradients(struct player *p, const struct chunk *c, uint32_t i)
{
	const struct replayed_op *op = &c->op[i];

	for (uint32_t k = 0; k < op->n_inputs; k++) {
		const struct input *in = &c->input[op->first_input + k];
		uint32_t made;

		if (!in->has_grad)
			continue;
		made = take_for(p, MQ_POOL_COMPUTE, in->size, MQ_FOR_ACTIVATIONS, "gradient of input");
		if (in->from == MQ_NONE)
			want(p, &p->passing, made); /* sent to another stage */
		else if (p->grad[in->from] == MQ_NONE)
			p->grad[in->from] = made;
		else
			give(p, made, op->use.gradient_late); /* added to the gradients of other consumers */
		if (in->from != MQ_NONE)
			p->grad_late[in->from] |= op->use.gradient_late;
	}
}

static void run_backward(struct player *p, const struct mq_slot *s, uint32_t i)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];
	const struct replayed_op *op = &c->op[i];
	uint32_t passing = MQ_NONE;

	launch(p, &op->use, 1);
	p->op = op->use.op;
	if (!op->use.again && op->use.again_B >= 512)
		want_pieces(p, &passing, op->use.again_B, op->use.scores_B, "made again");
	want(p, &passing, take(p, op->use.scores_B, MQ_FOR_ACTIVATIONS, "gradient of scores"));
	want(p, &passing, take(p, op->use.scores_B, MQ_FOR_ACTIVATIONS, "gradient of scores"));
	if (op->loss)
		want_pieces(p, &passing,
			    loss_own_B(p->replay, c, op) - fmin(op->use.kept_B, loss_own_B(p->replay, c, op)),
			    4 * op->use.logit_B, "gradient of logits");
	make_gradients(p, c, i);
	if (!p->replay->splits)
		form_weight(p, op, &p->weight[p->first_op[s->chunk] + i]);
	give_list(p, &passing);
	give(p, p->grad[i], p->grad_late[i]);
	p->grad_late[i] = false;
	p->grad[i] = MQ_NONE;
	if (!p->replay->splits)
		give_list(p, kept_of(p, s, i));
}

/* Offloaded activations return from the host. */
static void bring_back(struct player *p, const struct mq_slot *s, uint32_t first, uint32_t end)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];

	for (uint32_t i = first; i < end; i++)
		if (c->op[i].use.away)
			want(p, kept_of(p, s, i),
			     take(p, c->op[i].use.kept_B + c->op[i].use.first_entry_B, MQ_FOR_ACTIVATIONS,
				  "back from the host"));
}

/* Reduces a unit's gradients, as computed and as sent, during the compute of the next unit; last[]: this unit's. */
static void reduce(struct player *p, double computed_B, double sent_B, uint32_t last[2])
{
	const uint32_t now[2] = {
		take(p, computed_B, MQ_FOR_BUFFERS, "gradients, as computed"),
		take_for(p, MQ_POOL_REDUCE, bytes(sent_B), MQ_FOR_BUFFERS, "gradients on their way"),
	};

	for (int i = 0; i < 2; i++) {
		give(p, last[i], false);
		last[i] = now[i];
	}
}

static void backward(struct player *p, const struct mq_slot *s)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];
	uint32_t last[2] = { MQ_NONE, MQ_NONE };

	gather(p, c, unit_first(c, c->n), c->n, 0);
	for (uint32_t end = c->n, first; end > 0; end = first) {
		double computed_B = 0, sent_B = 0;

		first = unit_first(c, end);
		gather(p, c, first ? unit_first(c, first) : 0, first, 1);
		bring_back(p, s, first, end);
		for (uint32_t i = first; i < end; i++)
			if (c->op[i].use.again)
				run_forward(p, s, i, true);
		fill(p->output + first, end - first);
		for (uint32_t i = end; i-- > first;) {
			run_backward(p, s, i);
			const struct mq_op_use *use = &c->op[i].use;

			computed_B += use->computed_B;
			sent_B += use->sent_B;
		}
		p->op = MQ_NONE;
		reduce(p, computed_B, sent_B, last);
		move_on(p);
	}
	move_on(p);
	give(p, last[0], false);
	give(p, last[1], false);
	give_list(p, &p->passing);
}

static void weights(struct player *p, const struct mq_slot *s)
{
	const struct chunk *c = &p->replay->chunk[s->chunk];

	for (uint32_t i = c->n; i-- > 0;) {
		p->op = c->op[i].use.op;
		form_weight(p, &c->op[i], &p->weight[p->first_op[s->chunk] + i]);
		give_list(p, kept_of(p, s, i));
	}
	give_list(p, &p->passing);
}

/* Allocations before the first step. */
static void start(struct player *p)
{
	const struct mq_allocator_replay *t = p->replay;
	double root_B = 0;

	for (uint32_t k = 0; k < t->n_chunks; k++)
		for (uint32_t i = 0; i < t->chunk[k].n; i++) {
			const struct mq_op_use *use = &t->chunk[k].op[i].use;

			p->op = use->op;
			take(p, use->parameter_B, MQ_FOR_PARAMETERS, "weights");
			take(p, use->optimizer_B * (1 - t->moments), MQ_FOR_OPTIMIZER, "master weights");
			if (!t->lazy || use->gathered_B >= 1)
				take(p, use->gradient_B, MQ_FOR_GRADIENTS, "gradient of weights");
			root_B += use->root ? use->gathered_B : 0;
			if (use->root)
				take(p, use->gathered_B, MQ_FOR_BUFFERS, "gathered weights");
		}
	p->op = MQ_NONE;
	/* Gathered parameters arrive in one buffer and are copied out of it, as in FSDP2; layers reuse its block. */
	give(p, take_for(p, MQ_POOL_GATHER, bytes(root_B), MQ_FOR_BUFFERS, "gathered weights"), false);
	take(p, t->apart_B, MQ_FOR_BUFFERS, "receive and reduction buffers");
	take(p, t->more_B, MQ_FOR_ACTIVATIONS, "micro-batches that are not shown");
}

/* New parameters arrive flat, in one piece per rank, except in the last copy. */
static void gather_new(struct player *p, double fresh_B, uint32_t shards)
{
	uint32_t list = MQ_NONE;

	for (uint32_t copy = 0; fresh_B > 0 && copy < p->replay->allgather_flat_copies; copy++) {
		uint32_t pieces = copy + 1 < p->replay->allgather_flat_copies ? shards : 1;

		for (uint32_t i = 0; i < pieces; i++)
			want(p, &list, take(p, fresh_B / pieces, MQ_FOR_BUFFERS, "gathered new weights"));
	}
	give_list(p, &list);
}

/* The end of a step. */
static void update(struct player *p, bool first)
{
	const struct mq_allocator_replay *t = p->replay;
	double step_B = 0, fresh_B = 0;
	uint32_t shards = 1, list = MQ_NONE;

	for (uint32_t k = 0; k < t->n_chunks; k++)
		for (uint32_t i = 0; i < t->chunk[k].n; i++) {
			const struct mq_op_use *use = &t->chunk[k].op[i].use;
			uint32_t *weight = &p->weight[p->first_op[k] + i];

			give(p, *weight, false);
			*weight = MQ_NONE;
			step_B += use->step_B;
			fresh_B += use->fresh_B;
			shards = use->fresh_B > 0 && use->shards > shards ? use->shards : shards;
			p->op = use->op;
			if (first)
				take(p, use->optimizer_B * t->moments, MQ_FOR_OPTIMIZER, "moments");
		}
	for (uint32_t k = 0; k < t->n_chunks; k++)
		for (uint32_t i = 0; i < t->chunk[k].n; i++) {
			p->op = t->chunk[k].op[i].use.op;
			want(p, &list, take(p, t->chunk[k].op[i].use.list_B, MQ_FOR_OPTIMIZER, "list of the step"));
		}
	p->op = MQ_NONE;
	give(p, take(p, step_B, MQ_FOR_OPTIMIZER, "fp32 gradients of the step"), false);
	give_list(p, &list);
	gather_new(p, fresh_B, shards);
}

static struct player player_new(struct mq_low *low, const struct mq_allocator_replay *t, double limit_B)
{
	struct mq_arena *arena = &low->scratch;
	uint32_t n = 0;
	struct player p = { .replay = t,
			    .arena = arena,
			    .spare_tensor = MQ_NONE,
			    .spare_node = MQ_NONE,
			    .passing = MQ_NONE,
			    .gathered = { MQ_NONE, MQ_NONE },
			    .first_op = mq_arena_array(arena, t->n_chunks + 1, uint32_t) };

	for (uint32_t k = 0; k < t->n_chunks; k++) {
		p.first_op[k] = n;
		n += t->chunk[k].n;
	}
	p.n_ops = n;
	p.kept = mq_arena_none(arena, (size_t)n * t->n_micro_batches + 1);
	p.output = mq_arena_none(arena, n + 1);
	p.grad = mq_arena_none(arena, n + 1);
	p.grad_late = mq_arena_array(arena, n + 1, bool);
	p.weight = mq_arena_none(arena, n + 1);
	p.logits = mq_arena_none(arena, t->logits_buffers + 1);
	p.allocator = mq_allocator_new(arena, isinf(limit_B) ? UINT64_MAX : limit_B > 0 ? (uint64_t)limit_B : 0);
	return p;
}

/* Replays two steps, since the first may allocate the optimizer state. */
static void play(struct player *p)
{
	const struct mq_allocator_replay *t = p->replay;

	start(p);
	for (int step = 0; step < 2; step++) {
		if (p->log)
			p->log->next.step = (uint8_t)step;
		for (uint32_t i = 0; i < t->n_slots && !p->failed; i++) {
			if (t->slot[i].pass == MQ_PASS_F)
				forward(p, &t->slot[i]);
			else if (t->slot[i].pass == MQ_PASS_B)
				backward(p, &t->slot[i]);
			else
				weights(p, &t->slot[i]);
		}
		update(p, step == 0);
	}
}

uint64_t mq_allocator_replay_hash(const struct mq_allocator_replay *t, uint64_t seed)
{
	for (uint32_t k = 0; k < t->n_chunks; k++) {
		const struct chunk *c = &t->chunk[k];

		seed = mq_index_hash(mq_map_mix(seed, c->n), c->op, c->n * sizeof(*c->op));
		seed = mq_index_hash(seed, c->input, c->n_inputs * sizeof(*c->input));
	}
	for (uint32_t i = 0; i < t->n_slots; i++)
		seed = mq_map_mix(seed,
				  (uint64_t)t->slot[i].micro_batch << 32 | t->slot[i].chunk << 8 | t->slot[i].pass);
	return mq_index_hash(seed, &t->n_chunks, sizeof(*t) - offsetof(struct mq_allocator_replay, n_chunks));
}

bool mq_allocator_replay_run(struct mq_low *low, const struct mq_allocator_replay *t, double limit_B,
			     struct mq_allocator_use *use)
{
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	struct player p = player_new(low, t, limit_B);

	play(&p);
	*use = mq_allocator_used(p.allocator);
	mq_arena_rewind(&low->scratch, mark);
	return !p.failed;
}

void mq_allocator_replay_log(struct mq_low *low, const struct mq_allocator_replay *t, struct mq_allocation_log *log)
{
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	struct player p = player_new(low, t, INFINITY);

	p.log = log;
	mq_allocator_watched(p.allocator, mq_allocation_log_add, log);
	play(&p);
	log->played = true;
	mq_arena_rewind(&low->scratch, mark);
}
