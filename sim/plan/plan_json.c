/* plan_json.c - plans as JSON files. See plan.h; the format is documented in README.md:
 *
 *   {"maquette_plan": 1, "model": "gpt", "micro_batches": 8, "schedule": "1f1b", "virtual": 1,
 *    "overlap_grads": true, ... (decisions.h),
 *    "configs": [{"devices": [0, 1], "split": {"batch": 2}, "shares": [2, 1], "stage": 0,
 *                 "sync": "allreduce", "recompute": "none"}],
 *    "ops": [{"from": "embedding", "to": "loss", "config": 0}]}
 *
 * A device is a rank or a name. An entry of "ops" is a range of ops in model order (without "to": one op); later
 * entries override earlier ones, and every op must be covered. All keys except "configs" and "ops" are optional. An
 * unknown key is an error, so that no typing error goes unnoticed. SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>

#include "maquette/json_file.h"
#include "maquette/plan.h"
#include "base/text.h"

struct reading {
	const char *path;
	const struct mq_model *model;
	const struct mq_cluster *cluster;
	struct mq_arena *arena;
	struct mq_plan *plan;
	struct mq_err *err;
};

static enum mq_status read_u32(const struct reading *r, const json_t *value, const char *what, uint32_t *out)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= MQ_NONE)
		return mq_bad(r->err, "%s: %s must be a whole number >= 0", r->path, what);
	*out = (uint32_t)json_integer_value(value);
	return MQ_OK;
}

static enum mq_status read_bool(const struct reading *r, const json_t *value, const char *what, bool *out)
{
	if (!json_is_boolean(value))
		return mq_bad(r->err, "%s: %s must be true or false", r->path, what);
	*out = json_is_true(value);
	return MQ_OK;
}

/* A name of an enumeration; the error lists the names. */
static enum mq_status read_name(const struct reading *r, const json_t *value, const char *what,
				const char *(*name_of)(int), int n, uint8_t *out)
{
	const char *text = json_string_value(value);
	int i = text ? mq_enum_find(name_of, n, text) : n;

	if (i < n) {
		*out = (uint8_t)i;
		return MQ_OK;
	}
	const char *list = name_of(0);
	for (int k = 1; k < n; k++)
		list = mq_arena_printf(r->arena, "%s, %s", list, name_of(k));
	return mq_bad(r->err, "%s: %s is '%s', not one of %s", r->path, what, text ? text : "(not a string)", list);
}

#define READ_NAME(r, value, what, name_of, n, out) read_name(r, value, what, (const char *(*)(int))(name_of), n, out)

static enum mq_status read_device(const struct reading *r, const json_t *value, uint32_t *rank)
{
	if (json_is_string(value)) {
		*rank = mq_cluster_find(r->cluster, json_string_value(value));
		if (*rank == MQ_NONE)
			return mq_bad(r->err, "%s: the platform has no device '%s'; see 'maquette platform show'",
				      r->path, json_string_value(value));
		return MQ_OK;
	}
	MQ_TRY(read_u32(r, value, "a device", rank));
	if (*rank >= r->cluster->n_devices)
		return mq_bad(r->err, "%s: device %u, but the platform has %u (0 to %u)", r->path, *rank,
			      r->cluster->n_devices, r->cluster->n_devices - 1);
	return MQ_OK;
}

static enum mq_status read_split(const struct reading *r, const json_t *object, struct mq_config *c)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return mq_bad(r->err, "%s: split must be an object", r->path);
	json_object_foreach((json_t *)(uintptr_t)object, key, value) {
		int d = MQ_ENUM_FIND(mq_dim_name, MQ_N_DIMS, key);

		if (d == MQ_N_DIMS)
			return mq_bad(r->err,
				      "%s: split has no dimension '%s'; it has batch, expert, seq, "
				      "spatial, head, out, in",
				      r->path, key);
		MQ_TRY(read_u32(r, value, key, &c->split[d]));
	}
	return MQ_OK;
}

static enum mq_status read_shares(const struct reading *r, const json_t *list, struct mq_config *c)
{
	uint32_t n = c->split[MQ_DIM_BATCH];

	if (json_is_null(list))
		return MQ_OK;
	if (json_array_size(list) != n)
		return mq_bad(r->err, "%s: %zu shares for a batch split of %u", r->path, json_array_size(list), n);
	c->share = mq_arena_array(r->arena, n, double);
	for (uint32_t i = 0; i < n; i++) {
		c->share[i] = json_number_value(json_array_get(list, i));
		if (!json_is_number(json_array_get(list, i)) || !(c->share[i] > 0))
			return mq_bad(r->err, "%s: share %u must be a positive number", r->path, i);
	}
	return MQ_OK;
}

static enum mq_status read_config(const struct reading *r, json_t *object, uint32_t index)
{
	json_t *devices = json_object_get(object, "devices");
	uint32_t n = (uint32_t)json_array_size(devices);
	const char *key;
	json_t *value;

	if (!n || json_array_size(devices) > r->cluster->n_devices)
		return mq_bad(r->err, "%s: configs[%u] needs a list of 1 to %u devices", r->path, index,
			      r->cluster->n_devices);
	uint32_t made = mq_plan_add_config(r->plan, r->arena, n); /* may move config[] */
	struct mq_config *c = &r->plan->config[made];
	for (uint32_t d = 0; d < n; d++)
		MQ_TRY(read_device(r, json_array_get(devices, d), &c->device[d]));
	json_t *split = json_object_get(object, "split");
	if (split)
		MQ_TRY(read_split(r, split, c));
	json_object_foreach(object, key, value) {
		if (!strcmp(key, "stage"))
			MQ_TRY(read_u32(r, value, key, &c->stage));
		else if (!strcmp(key, "sync"))
			MQ_TRY(READ_NAME(r, value, key, mq_sync_name, MQ_N_SYNCS, &c->sync));
		else if (!strcmp(key, "recompute"))
			MQ_TRY(READ_NAME(r, value, key, mq_recompute_name, MQ_N_RECOMPUTES, &c->recompute));
		else if (!strcmp(key, "shares"))
			MQ_TRY(read_shares(r, value, c));
		else if (strcmp(key, "devices") && strcmp(key, "split"))
			return mq_bad(r->err, "%s: configs[%u] has an unknown key '%s'", r->path, index, key);
	}
	return MQ_OK;
}

static uint32_t find_op(const struct mq_model *model, const json_t *name)
{
	const char *text = json_string_value(name);

	for (uint32_t op = 0; text && op < model->n_ops; op++)
		if (!strcmp(model->op[op].name, text))
			return op;
	return MQ_NONE;
}

static enum mq_status read_run(const struct reading *r, const json_t *run, size_t index)
{
	const json_t *from = json_object_get(run, "from"), *to = json_object_get(run, "to");
	uint32_t first = find_op(r->model, from), last = to ? find_op(r->model, to) : first;
	uint32_t config;

	if (first == MQ_NONE || last == MQ_NONE || last < first) {
		const json_t *bad = first == MQ_NONE ? from : to;

		return mq_bad(r->err,
			      "%s: ops[%zu]: '%s' is not an op of '%s' (or comes before 'from'); "
			      "'maquette model' lists them",
			      r->path, index, json_is_string(bad) ? json_string_value(bad) : "(none)", r->model->name);
	}
	MQ_TRY(read_u32(r, json_object_get(run, "config"), "ops[].config", &config));
	if (config >= r->plan->n_configs)
		return mq_bad(r->err, "%s: ops[%zu] has config %u, but there are %u", r->path, index, config,
			      r->plan->n_configs);
	for (uint32_t op = first; op <= last; op++)
		r->plan->config_of[op] = config;
	return MQ_OK;
}

static enum mq_status read_ops(const struct reading *r, const json_t *ops)
{
	if (!json_is_array(ops))
		return mq_bad(r->err, "%s: \"ops\" is missing or not a list", r->path);
	for (uint32_t op = 0; op < r->model->n_ops; op++)
		r->plan->config_of[op] = MQ_NONE;
	for (size_t i = 0; i < json_array_size(ops); i++)
		MQ_TRY(read_run(r, json_array_get(ops, i), i));
	for (uint32_t op = 0; op < r->model->n_ops; op++)
		if (r->plan->config_of[op] == MQ_NONE)
			return mq_bad(r->err, "%s: no entry of \"ops\" covers op '%s'", r->path, r->model->op[op].name);
	return MQ_OK;
}

static enum mq_status read_number(const struct reading *r, const json_t *value, const char *key, double *out)
{
	*out = json_number_value(value);
	if (!json_is_number(value) || !(*out >= 0))
		return mq_bad(r->err, "%s: %s must be a number >= 0", r->path, key);
	return MQ_OK;
}

static enum mq_status read_decision(const struct reading *r, enum mq_decision_id d, const json_t *value)
{
	const struct mq_decision *row = mq_decision(d);
	double number = 0;
	uint32_t whole = 0;
	uint8_t named = 0;
	bool flag = false;

	switch (row->kind) {
	case MQ_DECIDES_BOOL:
		MQ_TRY(read_bool(r, value, row->name, &flag));
		break;
	case MQ_DECIDES_NAME:
		MQ_TRY(read_name(r, value, row->name, row->name_of, row->n_names, &named));
		break;
	case MQ_DECIDES_U32:
		MQ_TRY(read_u32(r, value, row->name, &whole));
		break;
	case MQ_DECIDES_F64:
		MQ_TRY(read_number(r, value, row->name, &number));
	}
	r->plan->explicit |= row->bit & MQ_EXPLICIT_ALL;
	mq_plan_set_value(r->plan, d, flag + named + whole + number); /* only one is not 0 */
	return MQ_OK;
}

static enum mq_status read_global(const struct reading *r, const char *key, const json_t *value)
{
	struct mq_plan *p = r->plan;

	if (!strcmp(key, "micro_batches"))
		return read_u32(r, value, key, &p->micro_batches);
	if (!strcmp(key, "virtual"))
		return read_u32(r, value, key, &p->virtual);
	if (!strcmp(key, "schedule"))
		return READ_NAME(r, value, key, mq_pipeline_name, MQ_N_PIPELINES, &p->pipeline);
	for (int d = 0; d < MQ_N_DECISIONS; d++)
		if (!strcmp(key, mq_decision(d)->name))
			return read_decision(r, d, value);
	if (mq_text_has_word("maquette_plan model platform configs ops comment", key))
		return MQ_OK;
	return mq_bad(r->err, "%s: unknown key '%s'", r->path, key);
}

static enum mq_status read_plan(const struct reading *r, json_t *root)
{
	const char *key;
	json_t *value;
	json_t *configs = json_object_get(root, "configs");

	if (!json_is_object(root) || !json_is_array(configs) || !json_array_size(configs))
		return mq_bad(r->err, "%s: a plan is an object with a list \"configs\" and a list \"ops\"", r->path);
	json_object_foreach(root, key, value)
		MQ_TRY(read_global(r, key, value));
	for (uint32_t i = 0; i < json_array_size(configs); i++)
		MQ_TRY(read_config(r, json_array_get(configs, i), i));
	return read_ops(r, json_object_get(root, "ops"));
}

enum mq_status mq_plan_load(const char *path, const struct mq_model *model, const struct mq_cluster *cluster,
			    struct mq_arena *arena, struct mq_plan *plan, struct mq_err *err)
{
	struct reading r = { path, model, cluster, arena, plan, err };
	json_auto_t *root = NULL;

	MQ_TRY(mq_json_file_load(path, &root, err));
	mq_plan_init(plan, arena, model->n_ops);
	return read_plan(&r, root);
}

/* ---- writing: by hand, so that the order of keys and the look of lists are ours ------------------ */

static void write_config(FILE *f, const struct mq_config *c)
{
	fprintf(f, "    {\"stage\": %u, \"split\": {", c->stage);
	bool first = true;
	for (int i = 0; i < MQ_N_DIMS; i++) {
		enum mq_dim d = mq_mesh_dims[i];

		if (c->split[d] > 1) {
			fprintf(f, "%s\"%s\": %u", first ? "" : ", ", mq_dim_name(d), c->split[d]);
			first = false;
		}
	}
	fprintf(f, "}, \"sync\": \"%s\", \"recompute\": \"%s\",\n     \"devices\": [", mq_sync_name(c->sync),
		mq_recompute_name(c->recompute));
	for (uint32_t d = 0; d < c->n_devices; d++)
		fprintf(f, "%s%u", d ? ", " : "", c->device[d]);
	fprintf(f, "]");
	if (c->share) {
		fprintf(f, ", \"shares\": [");
		for (uint32_t i = 0; i < c->split[MQ_DIM_BATCH]; i++)
			fprintf(f, "%s%.17g", i ? ", " : "", c->share[i]);
		fprintf(f, "]");
	}
	fprintf(f, "}");
}

static void write_plan(FILE *f, const struct mq_plan *p, const struct mq_model *model, const struct mq_cluster *cluster)
{
	mq_json_put_after(f, "{\n  \"maquette_plan\": 1,\n  \"model\": ", model->name);
	mq_json_put_after(f, ",\n  \"platform\": ", cluster->name);
	fprintf(f, ",\n  \"micro_batches\": %u,\n  \"schedule\": \"%s\",\n  \"virtual\": %u,\n", p->micro_batches,
		mq_pipeline_name(p->pipeline), p->virtual);
	for (int d = 0; d < MQ_N_DECISIONS; d++) {
		const char *quote = mq_decision(d)->kind == MQ_DECIDES_NAME ? "\"" : "";
		char text[32];

		if (mq_decision(d)->zero_is_open || !mq_plan_leaves(p, d))
			fprintf(f, "  \"%s\": %s%s%s,\n", mq_decision(d)->name, quote, mq_plan_value_text(p, d, text),
				quote);
	}
	fputs("  \"configs\": [\n", f);
	for (uint32_t i = 0; i < p->n_configs; i++) {
		write_config(f, &p->config[i]);
		fprintf(f, i + 1 < p->n_configs ? ",\n" : "\n");
	}
	fprintf(f, "  ],\n  \"ops\": [\n");
	for (uint32_t op = 0, last; op < p->n_ops; op = last + 1) {
		for (last = op; last + 1 < p->n_ops && p->config_of[last + 1] == p->config_of[op];)
			last++;
		mq_json_put_after(f, "    {\"from\": ", model->op[op].name);
		if (last > op) {
			mq_json_put_after(f, ", \"to\": ", model->op[last].name);
		}
		fprintf(f, ", \"config\": %u}%s\n", p->config_of[op], last + 1 < p->n_ops ? "," : "");
	}
	fprintf(f, "  ]\n}\n");
}

enum mq_status mq_plan_save(const struct mq_plan *plan, const struct mq_model *model, const struct mq_cluster *cluster,
			    const char *path, struct mq_err *err)
{
	FILE *f;

	MQ_TRY(mq_file_open(path, &f, err));
	write_plan(f, plan, model, cluster);
	return mq_file_close(f, path, err);
}
