/* mesh.c - see mesh.h. SPDX-License-Identifier: Apache-2.0 */
#include "lowering/mesh.h"

static bool follows_features(enum mq_op_kind kind)
{
	switch (kind) {
	case MQ_OP_GEMM:
	case MQ_OP_CONV:
	case MQ_OP_EMBEDDING:
	case MQ_OP_RECURRENT:
	case MQ_OP_ROUTER:
		return false; /* OUT is a new dimension: the input is not split */
	default:
		return true; /* element-wise ops: output features as input features */
	}
}

static enum mq_role role_of(const struct mq_op *op, enum mq_dim dim, enum mq_tensor tensor)
{
	switch (dim) {
	case MQ_DIM_BATCH:
		return MQ_ROLE_BATCH;
	case MQ_DIM_EXPERT:
		return MQ_ROLE_EXPERT;
	case MQ_DIM_SEQ:
	case MQ_DIM_SPATIAL:
		return MQ_ROLE_SEQ;
	case MQ_DIM_HEAD: /* of a GEMM: columns, counted in heads */
	case MQ_DIM_OUT:
		if (tensor == MQ_TENSOR_OUT || tensor == MQ_TENSOR_DY || follows_features(op->kind))
			return MQ_ROLE_FEATURE;
		return tensor == MQ_TENSOR_IN ? MQ_ROLE_REPLICA : MQ_ROLE_PARTIAL;
	case MQ_DIM_IN:
		if (tensor == MQ_TENSOR_IN || tensor == MQ_TENSOR_DX)
			return MQ_ROLE_FEATURE;
		return tensor == MQ_TENSOR_OUT ? MQ_ROLE_PARTIAL : MQ_ROLE_REPLICA;
	default:
		return MQ_ROLE_REPLICA;
	}
}

struct mq_layout mq_layout_of(const struct mq_op *op, const struct mq_config *config, enum mq_tensor tensor)
{
	struct mq_layout l = { .n = config->n_devices };
	uint32_t product = 1;

	for (int i = 0; i < MQ_N_DIMS; i++) {
		enum mq_dim d = mq_mesh_dims[i];

		if (config->split[d] == 1)
			continue;
		l.size[l.n_factors] = config->split[d];
		l.role[l.n_factors++] = (uint8_t)role_of(op, d, tensor);
		product *= config->split[d];
	}
	if (product < l.n) {
		l.size[l.n_factors] = l.n / product;
		l.role[l.n_factors++] = MQ_ROLE_REPLICA;
	}
	return l;
}

struct mq_layout mq_layout_reduced(const struct mq_layout *layout)
{
	struct mq_layout l = *layout;

	for (uint32_t i = 0; i < l.n_factors; i++)
		if (l.role[i] == MQ_ROLE_PARTIAL)
			l.role[i] = MQ_ROLE_REPLICA;
	return l;
}

uint32_t mq_layout_replicas(const struct mq_layout *layout)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < layout->n_factors; i++)
		if (layout->role[i] == MQ_ROLE_REPLICA)
			n *= layout->size[i];
	return n;
}

static bool divides_data(uint8_t role)
{
	return role != MQ_ROLE_PARTIAL && role != MQ_ROLE_REPLICA;
}

struct factor {
	uint32_t size, stride;
	uint8_t from, to;
};

/* Common refinement, outermost first; neighbours with the same pair of roles are merged. Returns the number of factors,
 * or 0 if sizes do not nest (n = 1 gives one factor of size 1). */
static uint32_t refine(const struct mq_layout *a, const struct mq_layout *b, struct factor f[MQ_MAX_FACTORS])
{
	uint32_t i = 0, k = 0, n = 0, stride = a->n;
	uint32_t left_a = a->n_factors ? a->size[0] : 1, left_b = b->n_factors ? b->size[0] : 1;

	if (a->n != b->n)
		return 0;
	while (i < a->n_factors || k < b->n_factors) {
		uint32_t size = left_a < left_b ? left_a : left_b;

		if (left_a % size || left_b % size)
			return 0;
		stride /= size;
		if (n && f[n - 1].from == a->role[i] && f[n - 1].to == b->role[k]) {
			f[n - 1].size *= size;
			f[n - 1].stride = stride;
		} else {
			f[n++] = (struct factor){ size, stride, a->role[i], b->role[k] };
		}
		left_a /= size;
		left_b /= size;
		if (left_a == 1 && ++i < a->n_factors)
			left_a = a->size[i];
		if (left_b == 1 && ++k < b->n_factors)
			left_b = b->size[k];
	}
	if (!n)
		f[n++] = (struct factor){ 1, 1, MQ_ROLE_REPLICA, MQ_ROLE_REPLICA };
	return n;
}

/* The share of the whole tensor at one position under the current roles. */
static double part(const struct factor *f, uint32_t n)
{
	double share = 1;

	for (uint32_t i = 0; i < n; i++)
		if (divides_data(f[i].from))
			share /= f[i].size;
	return share;
}

/* Do the exchanges along two neighbouring factors combine into one, among all ranks of both? All-to-alls of experts
 * over data-parallel replicas and parts of the sequence do. */
static bool joins(const struct factor *a, const struct factor *b)
{
	return divides_data(a->from) && divides_data(b->from) && divides_data(a->to) && divides_data(b->to) &&
	       a->from != a->to && b->from != b->to && a->stride == b->stride * b->size &&
	       ((a->to == MQ_ROLE_EXPERT && b->to == MQ_ROLE_EXPERT) ||
		(a->from == MQ_ROLE_EXPERT && b->from == MQ_ROLE_EXPERT));
}

static void add_step(struct mq_conversion *c, struct factor *f, uint32_t n, uint32_t i, enum mq_coll_kind kind)
{
	double before = part(f, n);
	uint8_t role = f[i].from == MQ_ROLE_EXPERT ? f[i].from : divides_data(f[i].to) ? f[i].to : f[i].from;

	f[i].from = f[i].to;
	/* nccl-tests: the gathered total of an all-gather, the input of the others. */
	double counted = kind == MQ_COLL_ALL_GATHER ? part(f, n) : before;
	c->step[c->n_steps++] = (struct mq_step){ kind, f[i].stride, f[i].size, counted, role };
}

struct mq_conversion mq_layout_convert(const struct mq_layout *from, const struct mq_layout *to)
{
	struct mq_conversion c = { .identity = true };
	struct factor f[MQ_MAX_FACTORS];
	uint32_t n = refine(from, to, f);

	c.possible = n > 0;
	for (uint32_t i = 0; i < n; i++)
		c.identity = c.identity && f[i].from == f[i].to;
	/* Slices first (they shrink what is exchanged), then reductions, then the rest. */
	for (uint32_t i = 0; i < n; i++)
		if (f[i].from == MQ_ROLE_REPLICA && f[i].to != MQ_ROLE_PARTIAL) {
			c.n_slices += f[i].to != MQ_ROLE_REPLICA;
			f[i].from = f[i].to;
		}
	for (uint32_t i = 0; i < n; i++)
		if (f[i].from == MQ_ROLE_PARTIAL && f[i].to != MQ_ROLE_PARTIAL)
			add_step(&c, f, n, i, f[i].to == MQ_ROLE_REPLICA ? MQ_COLL_ALL_REDUCE : MQ_COLL_REDUCE_SCATTER);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t size = f[i].size;

		while (i + 1 < n && joins(&f[i], &f[i + 1])) {
			f[i].from = f[i].to;
			size *= f[++i].size;
		}
		if (f[i].from == f[i].to)
			continue;
		add_step(&c, f, n, i, f[i].to == MQ_ROLE_REPLICA ? MQ_COLL_ALL_GATHER : MQ_COLL_ALL_TO_ALL);
		c.step[c.n_steps - 1].size = size;
	}
	return c;
}

struct mq_box mq_layout_box(const struct mq_layout *layout, uint32_t position)
{
	struct mq_box box = { .n_batch = 1, .seq_hi = 1, .feature_hi = 1 };
	uint32_t stride = layout->n;

	for (uint32_t i = 0; i < layout->n_factors; i++) {
		stride /= layout->size[i];
		uint32_t c = position / stride % layout->size[i], size = layout->size[i];
		double width;

		switch (layout->role[i]) {
		case MQ_ROLE_BATCH:
		case MQ_ROLE_EXPERT:
			box.batch = box.batch * size + c;
			box.n_batch *= size;
			break;
		case MQ_ROLE_SEQ:
			width = (box.seq_hi - box.seq_lo) / size;
			box.seq_lo += c * width;
			box.seq_hi = box.seq_lo + width;
			break;
		case MQ_ROLE_FEATURE:
			width = (box.feature_hi - box.feature_lo) / size;
			box.feature_lo += c * width;
			box.feature_hi = box.feature_lo + width;
			break;
		default:
			box.replica = box.replica * size + c;
		}
	}
	return box;
}

/* The factors of a mesh: dimension (MQ_N_DIMS = replica), size, stride. */
static uint32_t mesh_factors(const struct mq_config *config, uint32_t dim[], uint32_t size[], uint32_t stride[])
{
	uint32_t n = 0, s = config->n_devices;

	for (int i = 0; i < MQ_N_DIMS; i++) {
		dim[n] = mq_mesh_dims[i];
		size[n] = config->split[dim[n]];
		s /= size[n];
		stride[n++] = s;
	}
	dim[n] = MQ_N_DIMS;
	size[n] = s;
	stride[n++] = 1;
	return n;
}

uint32_t mq_mesh_group_size(const struct mq_config *config, uint32_t mask)
{
	uint32_t dim[MQ_N_DIMS + 1], size[MQ_N_DIMS + 1], stride[MQ_N_DIMS + 1];
	uint32_t n = mesh_factors(config, dim, size, stride), total = 1;

	for (uint32_t i = 0; i < n; i++)
		if (mask & 1u << dim[i])
			total *= size[i];
	return total;
}

uint32_t mq_mesh_first(const struct mq_config *config, uint32_t mask, uint32_t p)
{
	uint32_t stride = config->n_devices;

	for (int i = 0; i < MQ_N_DIMS; i++) {
		uint32_t d = mq_mesh_dims[i], size = config->split[d];

		stride /= size;
		if (size > 1 && (mask & 1u << d))
			p -= p / stride % size * stride;
	}
	return mask & 1u << MQ_N_DIMS ? p - p % stride : p; /* the rest are adjacent replicas */
}

uint32_t mq_mesh_group(const struct mq_config *config, uint32_t mask, uint32_t p, uint32_t *member)
{
	uint32_t dim[MQ_N_DIMS + 1], size[MQ_N_DIMS + 1], stride[MQ_N_DIMS + 1];
	uint32_t n = mesh_factors(config, dim, size, stride), count = 1;

	member[0] = mq_mesh_first(config, mask, p);
	/* Grow from the innermost factor outwards, so that the order stays the mesh's. */
	for (uint32_t i = n; i-- > 0;) {
		if (!(mask & 1u << dim[i]))
			continue;
		for (uint32_t c = 1; c < size[i]; c++)
			for (uint32_t k = 0; k < count; k++)
				member[c * count + k] = member[k] + c * stride[i];
		count *= size[i];
	}
	return count;
}

uint32_t mq_mesh_coordinate(const struct mq_config *config, uint32_t p, enum mq_dim d)
{
	uint32_t stride = config->n_devices, i = 0;

	do
		stride /= config->split[mq_mesh_dims[i]];
	while (mq_mesh_dims[i++] != (uint32_t)d);
	return p / stride % config->split[d];
}
