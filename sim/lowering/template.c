/* template.c - tasks, compute runs and collectives of one micro-batch. See program.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include "lowering/program.h"

void mq_ids_add(struct mq_low *low, struct mq_ids *ids, uint32_t id)
{
	if (id == MQ_NONE)
		return;
	for (uint32_t i = 0; i < ids->n; i++)
		if (ids->id[i] == id)
			return;
	MQ_PUSH(&low->scratch, ids->id, ids->n, ids->room, id);
}

void mq_ids_join(struct mq_low *low, struct mq_ids *ids, const struct mq_ids *more)
{
	for (uint32_t i = 0; i < more->n; i++)
		mq_ids_add(low, ids, more->id[i]);
}

/* Does a pass wait for its device's earlier sends? */
static bool blocking_sends(const struct mq_low *low)
{
	uint32_t chunks = mq_pipeline_kind((enum mq_pipeline)low->plan->pipeline)->most_chunks;

	return low->software->blocking_sends == MQ_SENDS_ALL ||
	       (low->software->blocking_sends == MQ_SENDS_PLAIN && chunks == 1);
}

void mq_template_begin(struct mq_low *low, uint32_t stage, enum mq_pass pass)
{
	low->emit.t = &low->prog.pass[stage * MQ_N_PASSES + pass];
	memset(low->emit.t, 0, sizeof(*low->emit.t));
	low->emit.serial++;
	low->emit.n_pieces = 0;
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
		low->emit.open[d] = low->emit.last_compute[d] = low->emit.unit_end[d] = MQ_NONE;
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
		low->emit.owed_s[d] = 0;
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++) {
		low->emit.pending[d].n = low->emit.gathered[d].n = 0;
		if (pass < MQ_PASS_REDUCE && blocking_sends(low))
			mq_ids_add(low, &low->emit.pending[d], MQ_DEP_STREAM(MQ_STREAM_SEND));
	}
}

uint32_t mq_emit(struct mq_low *low, const struct mq_task *task, const struct mq_ids *deps)
{
	struct mq_template *t = low->emit.t;
	struct mq_ttask tt = { .task = *task };

	tt.task.dep_first = t->n_deps;
	for (uint32_t i = 0; deps && i < deps->n; i++)
		MQ_PUSH(&low->scratch, t->dep, t->n_deps, t->dep_room, deps->id[i]);
	tt.task.n_deps = t->n_deps - tt.task.dep_first;
	MQ_PUSH(&low->scratch, t->task, t->n_tasks, t->task_room, tt);
	return t->n_tasks - 1;
}

uint32_t mq_emit_seal(struct mq_low *low, uint32_t device)
{
	low->emit.open[device] = MQ_NONE;
	return low->emit.last_compute[device];
}

/* Gives a compute task the pending waits of its device. */
static void take_owed(struct mq_low *low, uint32_t device, uint32_t task)
{
	low->emit.t->task[task].wait_s += low->emit.owed_s[device];
	low->emit.owed_s[device] = 0;
}

/* Drops waits that an earlier compute task of the device already has. */
static void take_waits(struct mq_low *low, const struct mq_ids *deps, struct mq_ids *wait)
{
	for (uint32_t i = 0; deps && i < deps->n; i++) {
		bool *waited = deps->id[i] < low->emit.t->n_tasks ? &low->emit.t->task[deps->id[i]].waited : NULL;

		if (waited && *waited)
			continue;
		if (waited)
			*waited = true;
		mq_ids_add(low, wait, deps->id[i]);
	}
}

uint32_t mq_emit_compute(struct mq_low *low, uint32_t device, const struct mq_piece *piece, const struct mq_ids *deps)
{
	uint32_t id = low->emit.open[device];
	struct mq_ids wait = { 0 };

	take_waits(low, deps, &wait);
	take_waits(low, &low->emit.pending[device], &wait);
	low->emit.pending[device].n = 0;
	if (id == MQ_NONE || wait.n) {
		const struct mq_task task =
			mq_task_of(MQ_TASK_COMPUTE, device, MQ_STREAM_COMPUTE, piece->op, piece->phase);

		id = mq_emit(low, &task, &wait);
		low->emit.open[device] = low->emit.last_compute[device] = id;
	}
	take_owed(low, device, id);
	/* Several tasks may be open at a time: mq_template_end sorts the pieces by owner. */
	struct mq_owned_piece owned = { *piece, id };
	MQ_PUSH(&low->scratch, low->emit.piece, low->emit.n_pieces, low->emit.piece_room, owned);
	low->emit.t->task[id].n_pieces++;
	return id;
}

/* ---- works ---------------------------------------------------------------------------------------- */

/* Kernels of ops with weights: input gradient first, weight gradient second (model_kernels.c); only these ops can
 * separate the two. */
static bool left_out(const struct mq_low *low, const struct mq_piece *piece, const struct mq_kernel *kernel,
		     uint32_t count, uint32_t k)
{
	enum mq_op_kind kind = low->model->op[piece->op].kind;
	bool weights = kind == MQ_OP_GEMM || kind == MQ_OP_CONV || kind == MQ_OP_ROUTER;
	bool two = weights && count >= 2 && kernel[1].kind == kernel[0].kind;

	return (piece->only == 1 && two && k == 1) || (piece->only == 2 && !(two && k == 1));
}

/* One of several equal parts of the rows, launched by a library in one framework call for all parts. A weight gradient,
 * whose rows are its depth, is never split. host: host time of a framework launch / of a plain one. */
static void take_part(struct mq_kernel *k, double parts, double host)
{
	k->launches = fmin(k->launches, k->launches / parts + 1 / fmax(host, 1));
	if (k->kind == MQ_KERNEL_GEMM || k->kind == MQ_KERNEL_CONV)
		k->m /= parts;
	k->flop /= parts;
	k->bytes /= parts;
	k->reread_B /= parts;
	k->handed_B /= parts;
	k->reuse_B /= parts;
}

/* Does attention have more of the sequence and fewer heads than its inputs (Ulysses)? */
static bool exchanges_heads(const struct mq_low *low, uint32_t op)
{
	if (low->model->op[op].kind != MQ_OP_ATTENTION)
		return false;
	MQ_EACH_IN(low->model, op, e)
		if (mq_low_config(low, e->src)->split[MQ_DIM_SEQ] > mq_low_config(low, op)->split[MQ_DIM_SEQ])
			return true;
	return false;
}

/* Kernels of a device's pieces, and its waits. A piece's op may represent equal ops of other configs. */
static struct mq_work make_work(struct mq_low *low, const struct mq_piece *piece, uint32_t n, double wait_s,
				const char *type)
{
	const struct mq_kernel wait = { .op = MQ_NONE, .kind = MQ_KERNEL_WAIT, .time_s = wait_s };

	struct mq_work w = { .host = low->software->host, .waits = low->software->cuda_launch_blocking };
	struct mq_kernel buffer[MQ_MAX_KERNELS_PER_OP];
	uint32_t room = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct mq_config *c = &low->plan->config[piece[i].config];
		uint32_t replicas = mq_mesh_group_size(c, mq_grad_mask);
		struct mq_share share = {
			.samples = piece[i].samples,
			.accumulates = (low->plan->micro_batches > 1 || low->train->optimizer == MQ_OPTIMIZER_NONE) &&
				       !mq_reduces_always(low, c),
			.gathered = c->sync == MQ_SYNC_ZERO3 && mq_reduces_always(low, c),
			.reduced = replicas > 1,
			.shards = mq_gathers_new(c->sync) || mq_once(low) ? mq_shard_size(low, c->sync, replicas) : 0,
		};

		for (int d = 0; d < MQ_N_DIMS; d++)
			share.split[d] = c->split[d];
		share.exchanged = piece[i].exchanged;
		if (piece[i].ring) {
			share.keys = piece[i].scale;
			share.remote = piece[i].ring == 2;
		}
		double scale = piece[i].ring ? 1 : piece[i].scale;
		uint32_t count = mq_op_kernels(&low->q, piece[i].op, piece[i].phase, &share, type, buffer);
		for (uint32_t k = 0; k < count; k++) {
			if (left_out(low, &piece[i], buffer, count, k))
				continue;
			if (piece[i].host && buffer[k].kind == MQ_KERNEL_OPTIMIZER)
				buffer[k].kind = MQ_KERNEL_HOST_UPDATE;
			if (piece[i].parts > 1)
				take_part(&buffer[k], piece[i].parts, low->software->host);
			buffer[k].flop *= scale;
			buffer[k].bytes *= scale;
			w.flop += buffer[k].flop;
			w.bytes += buffer[k].bytes;
			if (!piece[i].again && piece[i].phase != MQ_UPDATE)
				w.model_flop += buffer[k].flop;
			MQ_PUSH(low->arena, w.kernel, w.n_kernels, room, buffer[k]);
		}
	}
	if (wait_s != 0)
		MQ_PUSH(low->arena, w.kernel, w.n_kernels, room, wait);
	return w;
}

/* Only profiled times differ by device type. */
static uint32_t work_of(struct mq_low *low, struct mq_piece *piece, uint32_t n, double wait_s, uint32_t device)
{
	struct mq_schedule *s = low->prog.schedule;
	const char *type = s->device_type[device];
	size_t tail = low->model->profile.n_types ? strlen(type) : 0, size = n * sizeof(*piece);
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	unsigned char *key = mq_arena_alloc(&low->scratch, size + sizeof(wait_s) + tail);
	bool found;

	for (uint32_t i = 0; i < n; i++) {
		piece[i].exchanged = piece[i].ring != 2 && exchanges_heads(low, piece[i].op);
		piece[i].op = low->rq.alike ? low->model->like[piece[i].op] : piece[i].op;
	}
	memcpy(key, piece, size);
	memcpy(key + size, &wait_s, sizeof(wait_s));
	if (tail)
		memcpy(key + size + sizeof(wait_s), type, tail);
	uint32_t id = mq_index_put(low->prog.work_index, key, size + sizeof(wait_s) + tail, s->n_works, &found);
	mq_arena_rewind(&low->scratch, mark);
	if (!found) {
		struct mq_work w = make_work(low, piece, n, wait_s, type);
		MQ_PUSH(low->arena, s->work, s->n_works, s->work_room, w);
	}
	return id;
}

void mq_template_end(struct mq_low *low)
{
	struct mq_template *t = low->emit.t;
	uint32_t first = 0;
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	struct mq_piece *sorted = mq_arena_array(&low->scratch, low->emit.n_pieces, struct mq_piece);

	for (uint32_t i = 0; i < t->n_tasks; i++) {
		t->task[i].piece_first = first;
		first += t->task[i].n_pieces;
		t->task[i].n_pieces = 0;
	}
	for (uint32_t i = 0; i < low->emit.n_pieces; i++) {
		struct mq_ttask *owner = &t->task[low->emit.piece[i].owner];

		sorted[owner->piece_first + owner->n_pieces++] = low->emit.piece[i].piece;
	}
	for (uint32_t d = 0; d < low->prog.schedule->n_devices; d++)
		if (low->emit.last_compute[d] != MQ_NONE)
			take_owed(low, d, low->emit.last_compute[d]);
	for (uint32_t i = 0; i < t->n_tasks; i++)
		if (t->task[i].task.kind == MQ_TASK_COMPUTE)
			t->task[i].task.work = work_of(low, sorted + t->task[i].piece_first, t->task[i].n_pieces,
						       t->task[i].wait_s, t->task[i].task.device);
	mq_arena_rewind(&low->scratch, mark);
	low->emit.n_pieces = 0;
}

/* ---- collectives ----------------------------------------------------------------------------------- */

uint32_t mq_comm_of(struct mq_low *low, const uint32_t *member, uint32_t n, const char *purpose, bool apart)
{
	struct mq_schedule *s = low->prog.schedule;
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	uint32_t *key = mq_arena_array(&low->scratch, n + 1, uint32_t);
	bool found;

	memcpy(key, member, n * sizeof(*key));
	key[n] = MQ_NONE; /* no rank: makes the key of a separate communicator */
	uint32_t id = mq_index_put(low->prog.comm_index, key, (n + apart) * sizeof(*key), s->n_comms, &found);
	mq_arena_rewind(&low->scratch, mark);
	if (found)
		return id;
	struct mq_comm comm = { .purpose = purpose };
	comm.rank = mq_arena_array(low->arena, n, uint32_t);
	for (uint32_t i = 0; i < n; i++)
		if (low->prog.index_of[member[i]] != MQ_NONE)
			comm.rank[comm.n++] = low->prog.index_of[member[i]];
	if (low->prog.active) { /* simulations need all members, for costs and actual neighbours */
		uint32_t *all = mq_arena_array(low->arena, n, uint32_t), known = s->n_comms;

		memcpy(all, member, n * sizeof(*all));
		MQ_PUSH(low->arena, low->prog.member, known, low->prog.member_room, ((struct mq_members){ n, all }));
	}
	MQ_PUSH(low->arena, s->comm, s->n_comms, s->comm_room, comm);
	return id;
}

void mq_emit_collective(struct mq_low *low, const struct mq_coll_call *call, const struct mq_group *group,
			const struct mq_ids *after, uint32_t *done)
{
	struct mq_task task = mq_task_of(MQ_TASK_COLLECTIVE, MQ_NONE, call->stream, call->op, call->phase);

	task.comm = group->comm;
	task.coll = (uint8_t)call->kind;
	task.algo = low->plan->algo;
	task.proto = low->plan->proto;
	task.dtype = (uint8_t)call->dtype;
	task.root = call->root;
	task.bytes = call->bytes;
	for (uint32_t i = 0; i < group->n_seats; i++) {
		task.device = call->seats->device[group->seat[i]];
		done[i] = mq_emit(low, &task, &after[i]);
	}
}
