/* import_deepspeed.c - a plan from a ds_config.json; see export.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/export.h"
#include "base/text.h"
#include "model/formats/lib/huggingface.h"

struct settings {
	uint32_t batch, micro_batch, rounds, zero, tp, pp, interval, world, hpz;
	double bucket, samples; /* samples: per step */
	bool overlap, offload, rounds_given, bf16, fp16, weights_8bit, gradients_4bit;
};

/* The keys read, by name; others are reported. */
static const char read_keys[] =
	"train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps tensor_parallel.autotp_size "
	"pipeline.stages pipeline.activation_checkpoint_interval zero_optimization zero_optimization.stage "
	"zero_optimization.reduce_bucket_size zero_optimization.overlap_comm zero_optimization.offload_param.device "
	"zero_optimization.offload_optimizer.device zero_optimization.zero_quantized_weights "
	"zero_optimization.zero_quantized_gradients zero_optimization.zero_hpz_partition_size bf16.enabled fp16.enabled";

/* The object under a key, or an empty one. */
static struct mq_json_at part_of(const struct mq_json_at *at, const char *key)
{
	const json_t *part = json_object_get(at->object, key);

	return (struct mq_json_at){ at->path, key, json_is_object(part) ? part : NULL };
}

static enum mq_status read_settings(const struct mq_json_at *at, struct settings *s, struct mq_err *err)
{
	const struct mq_json_at tensor = part_of(at, "tensor_parallel"), pipe = part_of(at, "pipeline");
	const struct mq_json_at zero = part_of(at, "zero_optimization"), cpu = part_of(&zero, "offload_optimizer");
	const struct mq_json_at param = part_of(&zero, "offload_param");
	const struct mq_json_at bf16 = part_of(at, "bf16"), fp16 = part_of(at, "fp16");
	const struct mq_json_range any = { .max = 1e12 };
	const char *device;
	bool stage1 = false; /* "zero_optimization": true means stage 1 in DeepSpeed */

	if (!zero.object)
		MQ_TRY(mq_json_bool(at, "zero_optimization", &stage1, err));
	*s = (struct settings){ .rounds = 1, .tp = 1, .pp = 1, .zero = stage1 };
	if (json_object_get(at->object, "train_batch_size"))
		MQ_TRY(mq_json_u32(at, "train_batch_size", 1, 1e9, &s->batch, err));
	MQ_TRY(mq_json_u32(at, "train_micro_batch_size_per_gpu", 1, 1e9, &s->micro_batch, err));
	MQ_TRY(mq_json_u32(at, "gradient_accumulation_steps", 1, 1e9, &s->rounds, err));
	MQ_TRY(mq_json_u32(&tensor, "autotp_size", 0, 1e6, &s->tp, err));
	MQ_TRY(mq_json_u32(&pipe, "stages", 1, 1e6, &s->pp, err));
	MQ_TRY(mq_json_u32(&pipe, "activation_checkpoint_interval", 0, 1e6, &s->interval, err));
	MQ_TRY(mq_json_u32(&zero, "stage", 0, 3, &s->zero, err));
	MQ_TRY(mq_json_number(&zero, "reduce_bucket_size", &any, &s->bucket, err));
	s->overlap = s->zero == 3; /* DeepSpeed's default */
	MQ_TRY(mq_json_bool(&zero, "overlap_comm", &s->overlap, err));
	MQ_TRY(mq_json_bool(&zero, "zero_quantized_weights", &s->weights_8bit, err));
	MQ_TRY(mq_json_bool(&zero, "zero_quantized_gradients", &s->gradients_4bit, err));
	MQ_TRY(mq_json_u32(&zero, "zero_hpz_partition_size", 1, 1e6, &s->hpz, err));
	MQ_TRY(mq_json_bool(&bf16, "enabled", &s->bf16, err));
	MQ_TRY(mq_json_bool(&fp16, "enabled", &s->fp16, err));
	MQ_TRY(mq_json_text(&param, "device", &device, err));
	if (device && strcmp(device, "none") != 0)
		return mq_bad(err,
			      "%s: zero_optimization.offload_param: parameters on the %s are not modelled; take it out",
			      at->path, device);
	MQ_TRY(mq_json_text(&cpu, "device", &device, err));
	if (device && strcmp(device, "none") != 0 && strcmp(device, "cpu") != 0)
		return mq_bad(err,
			      "%s: zero_optimization.offload_optimizer: its state on the %s is not modelled; give cpu",
			      at->path, device);
	s->rounds_given = json_object_get(at->object, "gradient_accumulation_steps");
	s->offload = device && !strcmp(device, "cpu");
	s->tp = mq_or_1(s->tp);
	return MQ_OK;
}

static const char *beside(const char *path, const char *name, struct mq_arena *arena)
{
	return mq_arena_printf(arena, "%.*s%s", (int)(basename(path) - path), path, name);
}

/* Slots of all machines of the hostfile; 0: no hostfile. */
static enum mq_status read_hosts(const struct mq_export *e, const char *path, uint32_t *world, struct mq_err *err)
{
	const char *hosts = beside(path, "hostfile", e->arena);
	size_t size;
	char *text;

	*world = 0;
	if (access(hosts, R_OK))
		return MQ_OK;
	MQ_TRY(mq_text_read(hosts, 1, e->arena, &text, &size, err));
	for (const char *c = text; *c; c += strcspn(c, "\n"), c += *c == '\n') {
		const char *slots = strstr(c, "slots="), *end = c + strcspn(c, "\n");

		if (*c != '#' && slots && slots < end)
			*world += (uint32_t)strtoul(slots + 6, NULL, 10);
	}
	return MQ_OK;
}

/* Reads config.json and train.py beside it: checks the model, finds recomputation. */
static enum mq_status read_program(const struct mq_export *e, const char *path, bool *recomputes, struct mq_err *err)
{
	const char *config = beside(path, "config.json", e->arena), *script = beside(path, "train.py", e->arena);
	const struct mq_model_request request = {
		.spec = config, .train = e->train, .seq = e->model->seq, .software = e->software
	};
	struct mq_model *model;
	const char *differs;
	char *text;
	size_t size;

	if (!access(script, R_OK)) {
		MQ_TRY(mq_text_read(script, 1, e->arena, &text, &size, err));
		*recomputes = strstr(text, "gradient_checkpointing_enable()");
		MQ_TRY(mq_export_check_tuning(e, script, text, err));
	}
	if (access(config, R_OK) || !e->model->stack)
		return MQ_OK;
	MQ_TRY(mq_model_load(&request, e->arena, &model, err));
	if ((differs = mq_export_differs(e, model->stack, "the file")))
		return mq_bad(err, "%s: describes another model than -m: its %s", config, differs);
	return MQ_OK;
}

static enum mq_status shape_of(const struct mq_export *e, struct settings *s, struct mq_shape *shape,
			       struct mq_err *err)
{
	static const uint8_t sync[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };
	uint32_t world = s->world ? s->world : e->cluster->n_devices;
	uint64_t each = (uint64_t)s->tp * s->pp;

	if (each > world || world % each)
		return mq_bad(err, "%u ranks are no multiple of tp %u x pp %u", world, s->tp, s->pp);
	MQ_TRY(mq_import_batch(e, s->batch ? s->batch : (double)s->micro_batch * s->rounds * (double)(world / each),
			       &s->samples, err));
	if (s->batch && s->batch != s->samples)
		return mq_bad(err, "\"train_batch_size\" is %u, but --batch is %g", s->batch, s->samples);
	*shape = (struct mq_shape){
		.dp = (uint32_t)(world / each),
		.tp = s->tp,
		.pp = s->pp,
		.micro_batches = s->rounds,
		.pipeline = MQ_PIPE_1F1B,
		.sync = s->offload && s->zero == 1 && world == each ? MQ_SYNC_ALLREDUCE : sync[s->zero],
		.recompute = s->interval ? MQ_RECOMPUTE_FULL : MQ_RECOMPUTE_NONE,
	};
	if (s->micro_batch && !s->rounds_given) /* steps make up the batch */
		s->rounds = shape->micro_batches = (uint32_t)fmax(1, s->samples / s->micro_batch / shape->dp);
	if (s->micro_batch && (double)s->micro_batch * s->rounds * shape->dp != s->samples)
		return mq_bad(err, "%u samples x %u steps x %u replicas are not the batch of %g", s->micro_batch,
			      s->rounds, shape->dp, s->samples);
	return MQ_OK;
}

/* Settings of the file that differ from the question, as options. */
static const char *question(const struct mq_export *e, const struct settings *s)
{
	const struct mq_software *is = e->software;
	double weights_B = s->weights_8bit ? 1 : 0, gradients_B = s->gradients_4bit ? .5 : 0;
	const char *text = "";

	if ((s->bf16 || s->fp16) && e->train->dtype != (s->bf16 ? MQ_BF16 : MQ_FP16))
		text = s->bf16 ? " --dtype bf16" : " --dtype fp16";
	if (weights_B != is->zero_quantized_weights_B || gradients_B != is->zero_quantized_gradients_B ||
	    (s->hpz > 1 ? s->hpz : 0) != is->zero_hpz_partition_size)
		text = mq_arena_printf(e->arena,
				       "%s --software deepspeed,zero_quantized_weights_B=%g,"
				       "zero_quantized_gradients_B=%g,zero_hpz_partition_size=%u",
				       text, weights_B, gradients_B, s->hpz > 1 ? s->hpz : 0);
	return text;
}

static enum mq_status import(const struct mq_export *e, const struct mq_json_at *at, struct mq_plan *plan,
			     struct mq_import_notes *notes, struct mq_err *err)
{
	struct mq_shape shape;
	struct mq_plan like;
	struct settings s;
	bool recomputes = false;

	MQ_TRY(read_settings(at, &s, err));
	MQ_TRY(read_hosts(e, at->path, &s.world, err));
	MQ_TRY(read_program(e, at->path, &recomputes, err));
	s.interval = s.interval || (recomputes && s.pp == 1);
	MQ_TRY(shape_of(e, &s, &shape, err));
	notes->batch = s.samples;
	notes->question = question(e, &s);
	mq_plan_init(&like, e->arena, e->model->n_ops);
	like.explicit =
		MQ_EXPLICIT_OVERLAP_GRADS | MQ_EXPLICIT_OFFLOAD_OPTIMIZER | (s.bucket > 0 ? MQ_EXPLICIT_BUCKET : 0);
	like.overlap_grads = s.overlap;
	like.offload_optimizer = s.offload;
	like.bucket_B = s.bucket * mq_dtype_size(e->train->dtype);
	return mq_export_build(e, &shape, &like, plan, err);
}

static void name_key(struct mq_arena *arena, const char **names, const char *key)
{
	if (strlen(*names) < 2000)
		*names = mq_arena_printf(arena, "%s %s", *names, key);
}

/* Lists unread keys. "auto" is Hugging Face's word for values of the command line: such keys are left out. */
static void sift(json_t *object, const char *path, uint32_t depth, struct mq_arena *arena, const char **automatic,
		 const char **unread)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(object, next, key, value)
	{
		const char *at = *path ? mq_arena_printf(arena, "%s.%s", path, key) : key;
		const char *text = json_string_value(value);

		if (json_is_object(value) && depth < 16) {
			sift(value, at, depth + 1, arena, automatic, unread);
		} else if (text && !strcmp(text, "auto")) {
			name_key(arena, automatic, at);
			json_object_del(object, key);
		} else if (!mq_text_has_word(read_keys, at)) {
			name_key(arena, unread, at);
		}
	}
}

enum mq_status mq_import_deepspeed(const struct mq_export *e, const char *path, struct mq_plan *plan,
				   struct mq_import_notes *notes, struct mq_err *err)
{
	const char *automatic = "", *unread = "";
	json_auto_t *json = NULL;

	MQ_TRY(mq_json_load(path, false, e->arena, &json, err));
	sift(json, "", 0, e->arena, &automatic, &unread);
	const struct mq_json_at at = { .path = path, .place = "", .object = json };
	notes->skipped = *automatic ? mq_arena_printf(e->arena, "%s (auto, which the question or a default decides)%s",
						      unread, automatic) :
				      unread;
	return import(e, &at, plan, notes, err);
}
