/* kernels_attention.c - rows of attention kernels, on one GPU or a sequence over several.
 *
 * Over several GPUs a row is one iteration over the whole sequence. Rings pass keys and values on while kernels use the
 * present ones; the slowest rank's work in a step depends on the layout of the sequence: in order (basic: the last rank
 * works in each step, the first in one), two pieces from both ends (zigzag: half of a block's pairs in each step), or
 * stripes (each step causal). Each later step merges its output into an fp32 sum. Ulysses exchanges heads for sequence
 * by all-to-alls before and after.
 *
 * `cache`: further work of an inference server's attention: it writes K and V to pages of a cache ("kv"), and applies
 * rotary embedding to Q and K on the way ("qkv"). SPDX-License-Identifier: Apache-2.0 */
#include "score/kernels.h"

#include <math.h>
#include <string.h>

#include "kernels/attention.h"

/* The link of a ring or an all-to-all over all GPUs of a machine: NVLink; PCIe with peers; PCIe through host memory,
 * which all share. */
#define NVLINK_SHARE .75
#define PCIE_SHARE   .6
#define HOST_SHARE   .32

enum layout { BASIC, ZIGZAG, STRIPE };
static const char *const layouts[] = { "basic", "zigzag", "stripe", NULL };

enum cache { NO_CACHE, CACHE_KV, CACHE_QKV };
static const char *const caches[] = { "", "kv", "qkv", NULL };

/* The pass that copies into the cache, in 16 bits: read and write. */
static double cache_s(const struct mq_device_calib *d, const struct mq_attention_call *c, int cache)
{
	double kv = 2 * c->batch * c->kv_heads * c->keys * c->width, q = c->batch * c->heads * c->queries * c->width;

	if (cache == NO_CACHE)
		return 0;
	return 2 * 2 * (kv + (cache == CACHE_QKV ? q : 0)) / (d->mem_bw_Bps * d->elementwise_bw_share) + d->launch_s;
}

struct spread {
	int layout;
	double ring, ulysses; /* GPUs */
};

/* Time of one direction on one GPU. */
static double kernel_s(const struct mq_device_calib *d, enum mq_attention_library lib, struct mq_attention_call c,
		       double queries, double keys, bool causal)
{
	c.queries = queries;
	c.keys = keys;
	c.causal = causal;
	return mq_attention_time(d, lib, &c);
}

/* Time of a later step on the rank with the most work. */
static double step_s(const struct mq_device_calib *d, enum mq_attention_library lib, const struct mq_attention_call *c,
		     int layout)
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
	int layout;
	struct mq_attention_call call;
	double q, kv; /* elements */
	double size_B, bw_Bps, link_Bps;
};

/* So many kernels that move so many bytes. */
static double moved_s(const struct rank *r, double bytes, double kernels)
{
	return bytes / r->bw_Bps + kernels * r->d->launch_s;
}

/* zhuzilin/ring-flash-attention, forward. Each step sends keys and values while its kernel runs, and adds its output to
 * the fp32 sum with one kernel per operation: cast 2 + 4, difference 12, times the weight 8, sum 12 bytes per element.
 * Stripes and the half of a zigzag are then copied into place, 8. */
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

/* Backward. Gradients of keys and values follow them in fp32, one step behind: the last ones after all kernels. A
 * kernel's 16-bit output is added to the received gradient. */
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

/* DeepSpeed-Ulysses, as in yunchang: Q, K, V and O, or their gradients, are permuted by rank, sent by all-to-all, and
 * permuted by head. */
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

static double direction_s(const struct mq_device_calib *d, const char *library, const struct spread *s,
			  struct mq_attention_call *c, bool backward, bool *known)
{
	int lib = MQ_ENUM_FIND(mq_attention_library_name, MQ_N_LIBRARIES, library);

	c->backward = backward;
	if (s->ring * s->ulysses <= 1 && !strcmp(library, "unfused"))
		return mq_attention_unfused(d, c);
	*known = lib < MQ_N_LIBRARIES;
	return *known ? spread_s(d, (enum mq_attention_library)lib, *c, s) : (double)NAN;
}

static enum mq_status attention_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
				    struct mq_err *err)
{
	struct mq_attention_call c = { 0 };
	struct spread s = { .ring = 1, .ulysses = 1 };
	double gpus = 1, us;
	const struct mq_kernel_column columns[] = {
		{ "batch", &c.batch },     { "heads", &c.heads }, { "kv_heads", &c.kv_heads },
		{ "seq_q", &c.queries },   { "seq_kv", &c.keys }, { "head_dim", &c.width },
		{ "time_us", &us },        { "gpus", &gpus },     { "ring", &s.ring },
		{ "ulysses", &s.ulysses }, { NULL, NULL },
	};
	const char *library = mq_kernel_text(row, "library");
	int dtype = MQ_ENUM_FIND(mq_dtype_name, MQ_N_DTYPES, mq_kernel_text(row, "dtype")), cache;
	bool known = true;

	MQ_TRY(mq_kernel_numbers(row, columns, err));
	MQ_TRY(mq_kernel_word(row, "layout", layouts, &s.layout, err));
	MQ_TRY(mq_kernel_word(row, "cache", caches, &cache, err));
	if (!*library)
		library = row->implementation;
	row->measured = us * 1e-6;
	row->kernel = gpus > 1 ? mq_arena_printf(arena, "attention over %g", gpus) : "attention";
	row->bound = "compute";
	c.causal = !strcmp(mq_kernel_text(row, "causal"), "1");
	c.dtype = (enum mq_dtype)dtype;
	row->predicted = cache_s(d, &c, cache);
	if (dtype >= MQ_N_DTYPES || !(d->peak_flops[dtype] > 0)) {
		row->refused = mq_arena_printf(arena, "no attention in '%s' on its GPU", mq_kernel_text(row, "dtype"));
		return MQ_OK;
	}
	if (strcmp(row->mode, "backward"))
		row->predicted += direction_s(d, library, &s, &c, false, &known);
	if (known && strcmp(row->mode, "forward"))
		row->predicted += direction_s(d, library, &s, &c, true, &known);
	if (!known || !isfinite(row->predicted) || s.ring * s.ulysses != gpus)
		row->refused = mq_arena_printf(arena, "nobody has counted attention by '%s'", row->implementation);
	return MQ_OK;
}

const struct mq_kernel_format mq_kernel_attention = {
	"gpu implementation mode dtype batch heads kv_heads seq_q seq_kv head_dim causal time_us",
	"gpus library layout ring ulysses cache refused", attention_row
};
