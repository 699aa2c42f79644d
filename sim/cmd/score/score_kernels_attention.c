/*
 * score_kernels_attention.c - rows of attention kernels, on one GPU or a sequence over several.
 *
 * Over several GPUs a row is one iteration over the whole sequence. Rings pass keys and values on while the
 * kernels work on those at hand; what the slowest rank does in a step depends on how the sequence is laid
 * out: in order (basic: the last rank works in each step, the first in one), in two pieces from both ends
 * (zigzag: half of a block's pairs in each), in stripes (each step causal). Each later step merges its output
 * into an fp32 sum. Ulysses exchanges heads for sequence with all-to-alls before and after.
 */
#include "cmd/score/score_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"

/* Of the link that a ring or an all-to-all over all GPUs of a machine gets: NVLink; PCIe with peers, and
 * through the host's memory, which all share. */
#define NVLINK_SHARE .75
#define PCIE_SHARE .6
#define HOST_SHARE .32

static const struct {
	const char *name;
	enum mq_attention_library old, hopper;
} libraries[] = {
	{ "flash1", MQ_LIBRARY_FLASH1, MQ_LIBRARY_FLASH1 }, { "xformers", MQ_LIBRARY_CUTLASS, MQ_LIBRARY_CUTLASS },
	{ "flash2", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH2 }, { "flash3", MQ_LIBRARY_FLASH3, MQ_LIBRARY_FLASH3 },
	{ "flash", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH3 }, { "cudnn", MQ_LIBRARY_CUDNN, MQ_LIBRARY_CUDNN },
	{ "sdpa", MQ_LIBRARY_FLASH2, MQ_LIBRARY_FLASH2 }, { "triton", MQ_LIBRARY_TRITON, MQ_LIBRARY_TRITON },
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
static double kernel_s(const struct mq_device_calib *d, enum mq_attention_library lib,
		       struct mq_attention_call c, double queries, double keys, bool causal)
{
	c.queries = queries;
	c.keys = keys;
	c.causal = causal;
	return mq_attention_time(d, lib, &c);
}

static double step_s(const struct mq_device_calib *d, enum mq_attention_library lib,
		     const struct mq_attention_call *c, const struct spread *s, bool first)
{
	if (first || s->layout == STRIPE)
		return kernel_s(d, lib, *c, c->queries, c->keys, c->causal);
	if (s->layout == ZIGZAG && c->causal)
		return (kernel_s(d, lib, *c, c->queries / 2, c->keys, false) +
			kernel_s(d, lib, *c, c->queries, c->keys / 2, false)) / 2;
	return kernel_s(d, lib, *c, c->queries, c->keys, false);
}

/* B/s that a GPU sends to the next. */
static double link_Bps(const struct mq_device_calib *d)
{
	if (d->nvlink_Bps > 0)
		return d->nvlink_Bps * NVLINK_SHARE;
	return d->pcie_Bps * (d->p2p > 0 ? PCIE_SHARE : HOST_SHARE);
}

static double spread_s(const struct mq_device_calib *d, enum mq_attention_library lib,
		       struct mq_attention_call c, const struct spread *s)
{
	double size_B = mq_dtype_size(c.dtype), q, kv, work, pass, merge;

	c.heads /= s->ulysses;
	c.kv_heads = fmax(c.kv_heads / s->ulysses, 1);
	c.queries /= s->ring;
	c.keys /= s->ring;
	q = c.batch * c.heads * c.queries * c.width;
	kv = 2 * c.batch * c.kv_heads * c.keys * c.width;
	/* backward passes on keys and values, and their gradients in fp32 */
	pass = kv * (c.backward ? size_B + 4 : size_B) / link_Bps(d);
	/* output, and the sum read and written; backward the gradients of queries, keys and values */
	merge = (c.backward ? (q + kv) * 10 : q * 30) / (d->mem_bw_Bps * d->elementwise_bw_share) +
		8 * d->host_launch_s;
	work = step_s(d, lib, &c, s, true);
	for (double step = 1; step < s->ring; step++)
		work += fmax(step_s(d, lib, &c, s, false) + merge, pass);
	if (s->ulysses > 1) { /* Q, K, V, O; backwards their gradients */
		double part = (s->ulysses - 1) / s->ulysses;

		work += (2 * q + kv) * size_B * part / link_Bps(d) + 4 * d->host_launch_s;
	}
	return work;
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

static enum mq_status attention_row(const struct mq_device_calib *d, struct mq_arena *arena,
				    struct mq_kernel_row *row, struct mq_err *err)
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
		row->refused = mq_arena_printf(arena, "nobody has counted attention by '%s'",
					       row->implementation);
	return MQ_OK;
}

static const char *const attention_columns[] = { "gpu", "implementation", "mode", "batch", "heads", "kv_heads",
						 "seq_q", "seq_kv", "head_dim", "causal", "time_us", "gpus", NULL };
const struct mq_kernel_format mq_kernel_attention = { "attention", attention_columns, attention_row };
