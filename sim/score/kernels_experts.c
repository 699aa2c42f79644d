/* kernels_experts.c - rows of MoE layers in inference libraries on one GPU. `copies`: token copies for this GPU's
 * experts, its share of tokens x topk; with loads by a power law of exponent `skew`, the busiest rank's.
 *
 * Also rows of one direction of a token exchange: `mode` dispatch or combine, `tokens` per rank, `sms` the SMs that its
 * kernels occupy. SPDX-License-Identifier: Apache-2.0 */
#include "score/kernels.h"

#include <math.h>
#include <string.h>

#include "kernels/expert_layer.h"

static enum mq_status experts_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
				  struct mq_err *err)
{
	struct mq_expert_layer c = { .gated = strcmp(mq_kernel_text(row, "gated"), "0") != 0 };
	double ep, tp, us;
	const struct mq_kernel_column columns[] = {
		{ "tokens", &c.tokens }, { "topk", &c.top_k }, { "copies", &c.copies }, { "experts", &c.experts },
		{ "hidden", &c.hidden }, { "ffn", &c.width },  { "ep", &ep },           { "tp", &tp },
		{ "time_us", &us },      { "skew", &c.skew },  { NULL, NULL },
	};
	const char *type = mq_kernel_text(row, "dtype");
	int known = MQ_ENUM_FIND(mq_experts_type_name, MQ_N_EXPERTS_TYPES, type);

	MQ_TRY(mq_kernel_numbers(row, columns, err));
	row->measured = us * 1e-6;
	row->kernel = "experts";
	row->bound = "compute";
	c.experts = fmax(1, c.experts / ep);
	c.width /= tp;
	c.type = (enum mq_experts_type)known;
	row->predicted = known < MQ_N_EXPERTS_TYPES ? mq_expert_layer_time(d, row->implementation, &c) : (double)NAN;
	if (!isfinite(row->predicted))
		row->refused = mq_arena_printf(arena, "nobody has timed experts of '%s' in '%s' on its GPU",
					       row->implementation, type);
	return MQ_OK;
}

const struct mq_kernel_format mq_kernel_experts = {
	"gpu implementation dtype tokens topk copies experts hidden ffn ep tp time_us", "skew gated refused",
	experts_row
};

/* ---- token exchange ------------------------------------------------------------------------------------- */

#define SCALES (4. / 128) /* bytes of scales per fp8 element */

static enum mq_status exchange_row(const struct mq_device_calib *d, struct mq_arena *arena, struct mq_kernel_row *row,
				   struct mq_err *err)
{
	struct mq_token_exchange x = { .combine = !strcmp(row->mode, "combine") };
	double hidden, us;
	const struct mq_kernel_column columns[] = {
		{ "nodes", &x.nodes }, { "ranks", &x.ranks },         { "tokens", &x.tokens },
		{ "hidden", &hidden }, { "topk", &x.top_k },          { "experts", &x.experts },
		{ "time_us", &us },    { "sms", &x.multiprocessors }, { NULL, NULL },
	};
	int dtype = MQ_ENUM_FIND(mq_dtype_name, MQ_N_DTYPES, mq_kernel_text(row, "dtype"));

	MQ_TRY(mq_kernel_numbers(row, columns, err));
	if (dtype >= MQ_N_DTYPES || (!x.combine && strcmp(row->mode, "dispatch") != 0))
		return mq_bad(err, "%s:%u: mode '%s' and dtype '%s': give dispatch or combine, and a type",
			      row->csv->path, row->line, row->mode, mq_kernel_text(row, "dtype"));
	x.token_B = hidden * (mq_dtype_size((enum mq_dtype)dtype) + (dtype == MQ_FP8 ? SCALES : 0));
	row->measured = us * 1e-6;
	row->kernel = x.combine ? "combine" : "dispatch";
	row->bound = "links";
	row->predicted = mq_token_exchange_time(d, row->implementation, &x);
	if (!isfinite(row->predicted))
		row->refused = mq_arena_printf(arena, "nobody has timed the token exchange of '%s' on its GPU",
					       row->implementation);
	return MQ_OK;
}

const struct mq_kernel_format mq_kernel_exchange = {
	"gpu implementation mode dtype nodes ranks tokens hidden topk experts time_us", "sms refused", exchange_row
};
