/*
 * kernels_attention.c - rows of attention kernels, on one GPU or a sequence over several.
 *
 * Over several GPUs a row is one iteration over the whole sequence. Rings pass keys and values on while the
 * kernels work on those at hand; what the slowest rank does in a step depends on how the sequence is laid
 * out: in order (basic: the last rank works in each step, the first in one), in two pieces from both ends
 * (zigzag: half of a block's pairs in each), in stripes (each step causal). Each later step merges its output
 * into an fp32 sum. Ulysses exchanges heads for sequence with all-to-alls before and after.
 */
#include "score/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention.h"

/* Of the link that a ring or an all-to-all over all GPUs of a machine gets: NVLink; PCIe with peers, and
 * through the host's memory, which all share. */
#define NVLINK_SHARE .75
#define PCIE_SHARE   .6
#define HOST_SHARE   .32

static const struct {
	const char *name;
	enum mq_attention_library old, hopper;
} libraries[] = {
	{ "flash1", MQ_LIBRARY_FLASH1, MQ_LIBRARY_FLASH1 },
	{ "xformers", MQ_LIBRARY_CUTLASS, MQ_LIBRARY_CUTLASS },
	{ "flash2", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH2 },
	{ "flash3", MQ_LIBRARY_FLASH3, MQ_LIBRARY_FLASH3 },
	{ "flash", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH3 },
	{ "cudnn", MQ_LIBRARY_CUDNN, MQ_LIBRARY_CUDNN },
	{ "sdpa", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH2 },
	{ "triton", MQ_LIBRARY_TRITON, MQ_LIBRARY_TRITON },
	{ "thunderkittens", MQ_LIBRARY_FLASH3, MQ_LIBRARY_FLASH3 },
	{ "cutlass-colfax", MQ_LIBRARY_TRITON, MQ_LIBRARY_TRITON },
};

enum layout { BASIC, ZIGZAG, STRIPE };

struct spread {
	enum layout layout;
	double ring, ulysses;
};

/* "ring-flash", "zigzag-ring", "ulysses", "usp-zigzag-ring4-ulysses2", "double-ring-...": false = none. */
static bool spread_of(const char *name, double gpus, struct spread *s)
{
	const char *ring = strstr(name, "ring"), *ulysses = strstr(name, "ulysses");
	bool usp = !strncmp(name, "usp", 3);

	if ((!ring && !ulysses) || strstr(name, "varlen") || strstr(name, "llama3"))
		return false;
	s->layout = strstr(name, "zigzag") ? ZIGZAG : strstr(name, "strip") ? STRIPE : BASIC;
	s->ring = usp && ring ? strtod(ring + 4, NULL) : ring ? gpus : 1;
	s->ulysses = usp && ulysses ? strtod(ulysses + 7, NULL) : ring ? 1 : gpus;
	return s->ring * s->ulysses == gpus;
}

/* Time of one direction on one GPU. */
static double kernel_s(const struct mq_device_calib *d, enum mq_attention_library lib, struct mq_attention_call c,
		       double queries, double keys, bool causal)
{
	c.queries = queries;
	c.keys = keys;
	c.causal = causal;
	return mq_attention_time(d, lib, &c);
}

/* A later step of the rank that has most to do. */
static double step_s(const struct mq_device_calib *d, enum mq_attention_library lib, const struct mq_attention_call *c,
		     enum layout layout)
{
	if (layout == STRIPE)
		return kernel_s(d, lib, *c, c->queries, c->keys, c->causal);
	if (layout == ZIGZAG && c->causal)
		return (kernel_s(d, lib, *c, c->queries / 2, c->keys, false) +
			kernel_s(d, lib, *c, c->queries, c->keys / 2, false)) /
		       2;
	return kernel_s(d, lib, *c, c->queries, c->keys, false);
}

/* B/s that a GPU sends to the next. */
static double link_Bps(const struct mq_device_calib *d)
{
	if (d->nvlink_Bps > 0)
		return d->nvlink_Bps * NVLINK_SHARE;
	return d->pcie_Bps * (d->p2p > 0 ? PCIE_SHARE : HOST_SHARE);
}

/* A rank's tensors, and what moves them. */
struct rank {
	const struct mq_device_calib *d;
	enum mq_attention_library lib;
	enum layout layout;
	struct mq_attention_call call;
	double q, kv; /* elements */
	double size_B, bw_Bps, link_Bps;
};

/* So many kernels that move so many bytes. */
static double moved_s(const struct rank *r, double bytes, double kernels)
{
	return bytes / r->bw_Bps + kernels * r->d->launch_s;
}

/* zhuzilin/ring-flash-attention, forward. Each step sends keys and values on while its kernel works, and adds
 * what that made to the sum in fp32, a kernel for each operation: cast 2 + 4, difference 12, times the weight 8,
 * sum 12. Stripes and the half of a zigzag are then copied into their place, 8. */
static double ring_forward_s(const struct rank *r, double ranks)
{
	double merge = 38 * r->q + (r->layout == STRIPE ? 8 : r->layout == ZIGZAG ? 4 : 0) * r->q;
	double pass = r->kv * r->size_B / r->link_Bps;
	double time = kernel_s(r->d, r->lib, r->call, r->call.queries, r->call.keys, r->call.causal);

	if (ranks <= 1)
		return time;
	time += moved_s(r, (2 + 4) * r->q, 2);
	for (double step = 1; step < ranks; step++)
		time += fmax(step_s(r->d, r->lib, &r->call, r->layout) + moved_s(r, merge, 6), pass);
	return time + moved_s(r, (4 + 2) * r->q, 1);
}

/* Backward. Gradients of keys and values follow them in fp32, a step behind: the last ones when all kernels are
 * done. What a kernel made, in 16 bit, is added to what came. */
static double ring_backward_s(const struct rank *r, double ranks)
{
	double pass = r->kv * (r->size_B + 4) / r->link_Bps;
	double time = kernel_s(r->d, r->lib, r->call, r->call.queries, r->call.keys, r->call.causal);

	if (ranks <= 1)
		return time;
	time += moved_s(r, (2 + 4) * (r->q + r->kv), 3);
	for (double step = 1; step < ranks; step++)
		time += fmax(step_s(r->d, r->lib, &r->call, r->layout), pass) +
			moved_s(r, (4 + 2 + 4) * (r->q + r->kv), 3);
	return time + r->kv * 4 / r->link_Bps + moved_s(r, (4 + 2) * (r->q + r->kv), 3);
}

/* Q, K, V and O, or their gradients, change heads for sequence: each is brought into the order of ranks, sent,
 * and brought into that of heads (yunchang, DeepSpeed-Ulysses). */
static double exchange_s(const struct rank *r, double ranks)
{
	double bytes = (2 * r->q + r->kv) * r->size_B;

	return bytes * (ranks - 1) / ranks / r->link_Bps + moved_s(r, 4 * bytes, 8);
}

static double spread_s(const struct mq_device_calib *d, enum mq_attention_library lib, struct mq_attention_call c,
		       const struct spread *s)
{
	struct rank r = { .d = d,
			  .lib = lib,
			  .layout = s->layout,
			  .size_B = mq_dtype_size(c.dtype),
			  .bw_Bps = d->mem_bw_Bps * d->elementwise_bw_share,
			  .link_Bps = link_Bps(d) };
	double time;

	c.heads /= s->ulysses;
	c.kv_heads = fmax(c.kv_heads / s->ulysses, 1);
	c.queries /= s->ring;
	c.keys /= s->ring;
	r.call = c;
	r.q = c.batch * c.heads * c.queries * c.width;
	r.kv = 2 * c.batch * c.kv_heads * c.keys * c.width;
	time = (c.backward ? ring_backward_s : ring_forward_s)(&r, s->ring);
	return s->ulysses > 1 ? time + exchange_s(&r, s->ulysses) : time;
}

static bool library_of(const char *name, const struct mq_device_calib *d, enum mq_attention_library *lib)
{
	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		if (!strcmp(libraries[i].name, name)) {
			*lib = d->compute_capability >= 90 ? libraries[i].hopper : libraries[i].old;
			return true;
		}
	return false;
}

static double direction_s(const struct mq_device_calib *d, const struct mq_kernel_row *row, double gpus,
			  struct mq_attention_call *c, bool backward, bool *known)
{
	enum mq_attention_library lib = MQ_LIBRARY_FLASH2;
	struct spread s = { BASIC, 1, 1 };

	c->backward = backward;
	*known = true;
	if (gpus > 1 && spread_of(row->implementation, gpus, &s))
		return spread_s(d, lib, *c, &s);
	if (gpus <= 1 && !strcmp(row->implementation, "unfused"))
		return mq_attention_unfused(d, c);
	*known = gpus <= 1 && library_of(row->implementation, d, &lib);
	return *known ? mq_attention_time(d, lib, c) : (double)NAN;
}

static enum mq_status attention_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
				    struct mq_err *err)
{
	static const char *const names[] = { "batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim" };
	const struct mq_csv *csv = row->csv;
	struct mq_attention_call c = { 0 };
	double *into[] = { &c.batch, &c.heads, &c.kv_heads, &c.queries, &c.keys, &c.width }, gpus, us;
	const char *dtype = mq_csv_text(csv, row->i, mq_csv_column(csv, "dtype"));
	bool known = true;

	for (int i = 0; i < 6; i++)
		MQ_TRY(mq_kernel_number(csv, row->i, names[i], into[i], err));
	MQ_TRY(mq_kernel_number(csv, row->i, "gpus", &gpus, err));
	MQ_TRY(mq_kernel_number(csv, row->i, "time_us", &us, err));
	row->measured = us * 1e-6;
	row->kernel = gpus > 1 ? mq_arena_printf(arena, "attention over %g", gpus) : "attention";
	row->implementation = mq_csv_text(csv, row->i, mq_csv_column(csv, "implementation"));
	row->mode = mq_csv_text(csv, row->i, mq_csv_column(csv, "mode"));
	row->bound = "compute";
	c.causal = !strcmp(mq_csv_text(csv, row->i, mq_csv_column(csv, "causal")), "1");
	c.dtype = !strcmp(dtype, "bfloat16") ? MQ_BF16 : MQ_FP16;
	row->predicted = 0;
	if (strcmp(row->mode, "backward"))
		row->predicted += direction_s(d, row, gpus, &c, false, &known);
	if (known && strcmp(row->mode, "forward"))
		row->predicted += direction_s(d, row, gpus, &c, true, &known);
	if (strstr(row->implementation, "varlen"))
		row->refused = "the lengths of its documents are not in the table";
	else if (!known)
		row->refused = mq_arena_printf(arena, "nobody has counted attention by '%s'", row->implementation);
	return MQ_OK;
}

static const char *const attention_columns[] = { "gpu",      "implementation", "mode",   "batch",    "heads",
						 "kv_heads", "seq_q",          "seq_kv", "head_dim", "causal",
						 "time_us",  "gpus",           NULL };
const struct mq_kernel_format mq_kernel_attention = { "attention", attention_columns, attention_row };
