/* session.c - loads a question: model, platform, calibrations, start plan, worker processes.
 *
 * The worker server reads the platform first, because SimGrid aborts on broken XML; the server's error comes back as
 * one line. `-p "gpu=TYPE nodes=N ..."` generates a platform for the session. `-p model` writes a platform of the
 * devices that a placement graph defines, all at one ideal switch, with links on which a cost of one unit takes one
 * unit of time (SimGrid counts whole bytes: costs are rounded to 1 / bytes of an element).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/index.h"
#include "base/text.h"
#include "session/session.h"
#include "hardware/change.h"
#include "hardware/libraries.h"
#include "judge/pool.h"
#include "model/format.h"
#include "hardware/platform/generate.h"
#include "trust/trust.h"

#define DETAIL_B 5e6 /* of timeline.csv, of which a page shows at most 60,000 tasks */

struct mq_session_files {
	struct mq_job job;
	struct mq_platform_file platform;
	const char *calib[MQ_MAX_LIST + 3];
	uint32_t n_calib;
};

/* ---- platforms that models bring ---------------------------------------------------------------- */

static void write_hosts(FILE *f, const char *type, const char *kind, uint32_t n, uint32_t first, double memory_B,
			double bw_Bps)
{
	for (uint32_t i = 0; i < n; i++) {
		fprintf(f,
			"    <host id=\"%s%u\" speed=\"1e15f\">\n"
			"      <prop id=\"mq_type\" value=\"%s\"/><prop id=\"mq_kind\" value=\"%s\"/>\n"
			"      <prop id=\"mq_rank\" value=\"%u\"/><prop id=\"mq_node\" value=\"0\"/>\n"
			"      <prop id=\"mq_memory_B\" value=\"%.17g\"/>\n    </host>\n"
			"    <link id=\"link_%s%u\" bandwidth=\"%.17gBps\" latency=\"0s\" "
			"sharing_policy=\"SPLITDUPLEX\"/>\n",
			type, i, type, kind, first + i, memory_B, type, i, bw_Bps);
	}
}

static void write_routes(FILE *f, const char *type, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fprintf(f, "    <host_link id=\"%s%u\" up=\"link_%s%u_UP\" down=\"link_%s%u_DOWN\"/>\n", type, i, type,
			i, type, i);
}

static enum mq_status write_own_platform(const struct mq_model *m, const char *path, double bw_Bps, struct mq_err *err)
{
	const struct mq_model_devices *d = &m->devices;
	double memory_B = d->memory_B > 0 ? d->memory_B : 1e15;
	FILE *f;

	MQ_TRY(mq_file_open(path, &f, err));
	fputs("<?xml version=\"1.0\"?>\n"
	      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
	      "<platform version=\"4.1\">\n  <zone id=\"model\" routing=\"Cluster\">\n",
	      f);
	write_hosts(f, "accelerator", "gpu", d->n_accelerators, 0, memory_B, bw_Bps);
	write_hosts(f, "cpu", "cpu", d->n_cpus, d->n_accelerators, 1e15, bw_Bps);
	write_routes(f, "accelerator", d->n_accelerators);
	write_routes(f, "cpu", d->n_cpus);
	fputs("    <router id=\"switch\"/>\n  </zone>\n</platform>\n", f);
	return mq_file_close(f, path, err);
}

static enum mq_status write_own_calib(const char *dir, const char *type, enum mq_device_kind kind,
				      struct mq_arena *arena, struct mq_err *err)
{
	struct mq_device_calib *d = mq_calib_add_ideal(mq_calib_new(arena), type, 1e15, 1e15, 1e15);

	d->kind = kind;
	return mq_calib_save_device(d, mq_arena_printf(arena, "%s/%s.json", dir, type), err);
}

static enum mq_status own_platform(struct mq_session *s, struct mq_session_files *files, struct mq_err *err)
{
	const struct mq_model *m = s->model;
	double bw_Bps = m->devices.bw_Bps;

	if (!m->devices.n_accelerators && !m->devices.n_cpus)
		return mq_bad(err, "-p model: '%s' brings no devices of its own; give a platform file", m->name);
	MQ_TRY(mq_platform_folder(&s->arena, &files->platform, err)); /* lasts as long as the session */
	s->own_platform = true;
	s->platform_path = files->platform.path;
	if (!(bw_Bps > 0)) /* edge costs are times: one element takes one unit */
		bw_Bps = mq_dtype_size(s->train.dtype);
	MQ_TRY(write_own_platform(m, s->platform_path, bw_Bps, err));
	MQ_TRY(write_own_calib(files->platform.dir, "accelerator", MQ_GPU, &s->arena, err));
	MQ_TRY(write_own_calib(files->platform.dir, "cpu", MQ_CPU, &s->arena, err));
	files->calib[files->n_calib++] = files->platform.dir;
	return MQ_OK;
}

/* ---- opening ------------------------------------------------------------------------------------ */

static enum mq_status read_shipped(struct mq_arena *arena, struct mq_calib **calib, struct mq_err *err)
{
	const char *dir;

	MQ_TRY(mq_find_dir("platforms/calib", arena, &dir, err));
	*calib = mq_calib_new(arena);
	return mq_calib_load_dir(*calib, dir, err);
}

/* A copy of the shipped calibrations, which the session may bind and change. */
static enum mq_status open_shipped(struct mq_shipped *shipped, struct mq_arena *arena, struct mq_calib **calib,
				   struct mq_err *err)
{
	struct mq_calib *c;

	if (!shipped)
		return read_shipped(arena, calib, err);
	if (!shipped->calib) { /* kept only if all files were read */
		MQ_TRY(read_shipped(shipped->arena, &c, err));
		shipped->calib = c;
	}
	c = shipped->calib;
	*calib = mq_calib_new(arena);
	*(*calib)->libraries = *c->libraries;
	for (uint32_t i = 0; i < c->n_devices; i++)
		mq_calib_put_device(*calib, &c->device[i]);
	for (uint32_t i = 0; i < c->n_links; i++)
		MQ_PUSH(arena, (*calib)->link, (*calib)->n_links, (*calib)->link_room, c->link[i]);
	return MQ_OK;
}

enum mq_status mq_calib_open(const struct mq_list *list, struct mq_shipped *shipped, struct mq_arena *arena,
			     struct mq_calib **calib, struct mq_err *err)
{
	MQ_TRY(open_shipped(shipped, arena, calib, err));
	for (uint32_t i = 0; i < list->n; i++)
		MQ_TRY(mq_calib_load(*calib, list->item[i], err));
	return MQ_OK;
}

enum mq_status mq_software_open(const char *text, struct mq_arena *arena, struct mq_software_record *record,
				struct mq_err *err)
{
	const char *dir;

	MQ_TRY(mq_find_dir("platforms/software", arena, &dir, err));
	return mq_software_load(dir, text, arena, record, err);
}

/* Has the model as many experts as --expert-load gives tokens for? */
static enum mq_status check_experts(const struct mq_session *s, struct mq_err *err)
{
	const struct mq_expert_load *l = &s->train.experts;

	if ((l->n || l->stated > 0 || l->capacity > 0) && !s->model->experts)
		return mq_bad(err, "--expert-%s: '%s' has no experts; leave it out or take a mixture",
			      l->n || l->stated > 0 ? "load" : "capacity", s->model->name);
	if (l->n && l->n != s->model->experts)
		return mq_bad(err,
			      "--expert-load: tokens of %u experts, but '%s' has %u in a layer; give one "
			      "number for each",
			      l->n, s->model->name, s->model->experts);
	return MQ_OK;
}

/* Chooses the training dtype, see mq_software_dtype. */
static void choose_dtype(struct mq_session *s, struct mq_asked *q)
{
	const char *const *type = s->files->platform.type;

	if (!type && s->platform_path)
		type = mq_platform_types(s->platform_path, &s->arena);
	if (type && *type)
		q->train.dtype = mq_software_dtype(&s->software.software, s->calib, type,
						   q->dtype_given ? q->train.dtype : MQ_N_DTYPES);
}

/* --tokens-per-batch as samples: "4M" with sequences of 8192 means 4 x 2^20 tokens, because 4 x 10^6 is no
 * multiple of 8192. */
static enum mq_status count_tokens(struct mq_session *s, struct mq_asked *q, struct mq_err *err)
{
	static const char suffix[] = "kMGT";
	const char *text = q->tokens_per_batch;
	double per = s->model->tokens_per_sample, number, samples;
	char *end;

	if (!text)
		return MQ_OK;
	if (q->batch_given || !(per > 0))
		return mq_bad(err, "--tokens-per-batch %s: %s", text,
			      q->batch_given ? "--batch says it too; leave one out" :
					       "samples of this model have no tokens; give --batch");
	number = strtod(text, &end);
	const char *of = *end ? strchr(suffix, *end == 'K' ? 'k' : *end) : NULL;
	int power = of ? (int)(of - suffix) + 1 : 0;
	bool sound = end > text && (!*end || (of && (!end[1] || (end[1] == 'i' && !end[2]))));

	samples = number * pow(1000, power) / per;
	if (of && (end[1] == 'i' || samples != floor(samples)))
		samples = number * pow(1024, power) / per;
	if (!sound || !(samples >= 1) || samples != floor(samples) || samples > 1u << 30)
		return mq_bad(
			err,
			"--tokens-per-batch %s: give a number of tokens, as 4M, that is a multiple of the %g of a "
			"sample",
			text, per);
	s->train.batch = q->train.batch = samples;
	q->batch_given = true;
	q->tokens_per_batch = NULL;
	return MQ_OK;
}

static enum mq_status load_model(struct mq_session *s, struct mq_asked *q, struct mq_err *err)
{
	struct mq_model_request request = { q->model, &s->train, q->seq, &s->software.software };

	MQ_TRY(mq_asked_train(q, &s->software.software, &s->arena, &s->train, err));
	MQ_TRY(mq_model_load(&request, &s->arena, &s->model, err));
	MQ_TRY(count_tokens(s, q, err));
	if (!q->batch_given && !q->train.infer && s->model->batch > 0) {
		s->train.batch = q->train.batch = s->model->batch;
		q->batch_given = s->batch_of_model = true;
	}
	bool profiled = s->model->devices.n_accelerators || s->model->devices.n_cpus || s->model->profile.n_types;
	if (!q->batch_given && !q->train.infer && !profiled)
		return mq_bad(err, "--batch is missing: give the %ss of a step over all devices, as --batch 256",
			      s->model->unit);
	MQ_TRY(check_experts(s, err));
	struct mq_sequence_packing *packing = &s->train.sequence_packing;
	if (mq_sequence_packing_said(packing) && !s->model->seq)
		return mq_bad(err, "--sequence-packing: '%s' has no sequences of tokens; leave it out", s->model->name);
	if (mq_sequence_packing_said(packing))
		MQ_TRY(mq_sequence_packing_bind(packing, s->model->seq, s->train.batch, &s->arena, err));
	return q->debug_check ? mq_model_check(s->model, err) : MQ_OK;
}

static enum mq_status open_trust(struct mq_session *s, struct mq_err *err)
{
	const struct mq_list *own = &s->asked->trust_with;

	if (!s->shipped || own->n)
		return mq_trust_open(own, &s->arena, &s->trust, err);
	if (!s->shipped->trust)
		MQ_TRY(mq_trust_open(own, s->shipped->arena, &s->shipped->trust, err));
	s->trust = s->shipped->trust;
	return MQ_OK;
}

static enum mq_status open_pool(struct mq_session *s, struct mq_session_files *files, struct mq_err *err)
{
	const struct mq_asked *q = s->asked;
	struct mq_job *job = &files->job;

	mq_job_init(job);
	job->asked = *q;
	job->asked.platform = s->platform_path;
	/* pass contents: a file may change before a worker reads it */
	if (q->expert_load)
		job->asked.expert_load = mq_expert_load_text(&s->train.experts, &s->arena);
	if (q->sequence_packing)
		job->asked.sequence_packing = mq_sequence_packing_text(&s->train.sequence_packing, &s->arena);
	MQ_TRY(mq_find_dir("platforms/software", &s->arena, &job->software_dir, err));
	job->calib = files->calib;
	job->n_calib = files->n_calib;
	job->type = files->platform.type;
	job->change = q->change.item;
	job->n_change = q->change.n;
	MQ_TRY(open_trust(s, err));
	job->memory_high = mq_trust_memory(s->trust, NULL).high;
	MQ_TRY(mq_pool_open(job, q->jobs, &s->arena, &s->pool, err));
	mq_pool_stop_when(s->pool, mq_job_stopped);
	s->cluster = mq_pool_cluster(s->pool);
	MQ_TRY(mq_calib_bind(s->calib, s->cluster, err));
	for (uint32_t i = 0; i < q->change.n; i++)
		MQ_TRY(mq_change_apply(q->change.item[i], q->seed, s->cluster, s->calib, err));
	if (q->devices) {
		uint32_t *rank, n;

		MQ_TRY(mq_cluster_ranks(s->cluster, q->devices, &s->arena, &rank, &n, err));
		MQ_TRY(mq_cluster_part(s->cluster, rank, n, &s->arena, &s->cluster, err));
	}
	s->q = (struct mq_question){ .model = s->model,
				     .cluster = s->cluster,
				     .calib = s->calib,
				     .software = &s->software.software,
				     .train = &s->train,
				     .memory_high = job->memory_high };
	return q->debug_check ? mq_cluster_check(s->cluster, err) : MQ_OK;
}

/* Loads shipped calibrations, the platform's own and given ones; each file is read once. */
static enum mq_status load_calib(struct mq_session *s, struct mq_session_files *files, struct mq_err *err)
{
	const struct mq_list *given = &s->asked->calib;
	bool own = !access(s->platform_calib, F_OK);

	if (own)
		files->calib[files->n_calib++] = s->platform_calib;
	for (uint32_t i = 0; i < given->n; i++)
		files->calib[files->n_calib++] = given->item[i];
	if (s->calib && !own) /* loaded for the platform's keys already */
		return MQ_OK;
	const struct mq_job job = { .calib = files->calib, .n_calib = files->n_calib };
	MQ_TRY(open_shipped(s->shipped, &s->arena, &s->calib, err));
	return mq_job_calib(&job, 1, s->calib, err);
}

static enum mq_status open_all(struct mq_session *s, const struct mq_asked *asked, struct mq_err *err)
{
	struct mq_asked *own = mq_arena_alloc(&s->arena, sizeof(*own));
	const struct mq_asked *q = s->asked = own;
	struct mq_session_files *files = mq_arena_alloc(&s->arena, sizeof(*files));

	*own = *asked;
	s->files = files;
	if (!q->model)
		return mq_bad(err, "-m is missing: give a model (see `maquette list models`) or a file");
	if (!q->platform)
		return mq_bad(err, "-p is missing: give a platform file, a name of `maquette list "
				   "platforms`, or \"gpu=TYPE nodes=N\"");
	MQ_TRY(mq_asked_limits(q, &s->limits, err));
	MQ_TRY(mq_tuning_resolve(&own->train.tuning, &s->arena, err));
	MQ_TRY(mq_platform_words(q->platform, &s->arena, &own->platform, err));
	if (mq_platform_spec_is(q->platform))
		own->platform = mq_platform_spec_plain(mq_arena_strdup(&s->arena, q->platform));
	MQ_TRY(mq_find_dir("platforms/calib", &s->arena, &files->calib[files->n_calib++], err));
	bool of_model = !strcmp(q->platform, "model");
	if (!of_model && mq_platform_spec_is(q->platform)) { /* KEY=VALUE..., as `platform generate` has them */
		MQ_TRY(mq_calib_open(&q->calib, s->shipped, &s->arena, &s->calib, err));
		MQ_TRY(mq_platform_open(q->platform, s->calib, &s->arena, &files->platform, err));
		s->own_platform = true;
		s->platform_path = files->platform.path;
	} else if (!of_model) {
		MQ_TRY(mq_find_platform(q->platform, &s->arena, &s->platform_path, err));
	}
	s->platform_calib = of_model ? "" : mq_platform_calib_path(s->platform_path, &s->arena);
	if (!of_model)
		MQ_TRY(load_calib(s, files, err));
	MQ_TRY(mq_software_open(q->software, &s->arena, &s->software, err));
	choose_dtype(s, own);
	MQ_TRY(load_model(s, own, err));
	if (of_model) {
		MQ_TRY(own_platform(s, files, err));
		MQ_TRY(load_calib(s, files, err));
	}
	MQ_TRY(open_pool(s, files, err));
	if (!q->start)
		return MQ_OK;
	s->start = mq_arena_alloc(&s->arena, sizeof(*s->start));
	MQ_TRY(mq_plan_load(q->start, s->model, s->cluster, &s->arena, s->start, err));
	return mq_plan_check(s->start, s->model, s->cluster, &s->train, err);
}

enum mq_status mq_session_open(struct mq_session *s, const struct mq_asked *asked, struct mq_shipped *shipped,
			       struct mq_err *err)
{
	*s = (struct mq_session){ .shipped = shipped };
	enum mq_status status = open_all(s, asked, err);
	if (status != MQ_OK)
		mq_session_close(s);
	else
		s->replays = mq_index_new(&s->arena);
	return status;
}

void mq_session_close(struct mq_session *s)
{
	mq_pool_close(s->pool);
	if (s->files)
		mq_platform_file_close(&s->files->platform);
	mq_arena_fini(&s->screening);
	mq_arena_fini(&s->arena);
	memset(s, 0, sizeof(*s));
}

bool mq_first_of_type(const struct mq_cluster *c, uint32_t device, const bool *among)
{
	for (uint32_t i = 0; i < device; i++)
		if ((!among || among[i]) && !strcmp(c->device[i].type, c->device[device].type))
			return false;
	return true;
}

const struct mq_link_calib *mq_session_link(const struct mq_session *s, const char *class)
{
	double capability = 0;

	for (uint32_t i = 0; i < s->cluster->n_devices && !(capability > 0); i++)
		if (s->cluster->device[i].kind == MQ_GPU && s->cluster->device[i].calib != MQ_NONE)
			capability = s->calib->device[s->cluster->device[i].calib].compute_capability;
	return mq_calib_link_for(s->calib, class, capability);
}

const char *mq_session_left_out(const struct mq_session *s, struct mq_arena *arena)
{
	double told_Bps = 0;
	const char *text = s->train.infer && s->model->tokens_per_sample > 0 ?
				   "forward passes over whole prompts; tokens written one by one and their "
				   "cache are not modelled" :
				   "";

	for (uint32_t i = 0; i < s->cluster->n_links; i++) {
		const struct mq_link *l = &s->cluster->link[i];

		if (l->class != MQ_LINK_NIC || !(l->bw_Bps > told_Bps))
			continue;
		told_Bps = l->bw_Bps;
		const struct mq_link_calib *calib = mq_session_link(s, mq_fabric_name(l->fabric));
		if (calib && calib->port_Bps > 0 && calib->port_Bps <= l->bw_Bps / 2)
			return mq_arena_printf(
				arena, "%s%s%s: of a port's %.4g GB/s sockets get %.4g (network=roce is RDMA)", text,
				*text ? "; " : "", mq_fabric_name(l->fabric), l->bw_Bps / 1e9, calib->port_Bps / 1e9);
	}
	return text;
}

void mq_session_note(const struct mq_session *s, FILE *file)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	bool here = !s->own_platform && !access(s->platform_calib, F_OK);
	const char *left = mq_session_left_out(s, &scratch);

	if (*left)
		fprintf(file, "note: %s\n", left);

	if (s->model->note)
		fprintf(file, "note: %s\n", s->model->note);
	if (s->batch_of_model)
		fprintf(file, "note: --batch %.0f, as %s says\n", s->train.batch, s->asked->model);
	if (!s->trust)
		fputs(mq_trust_missing, file);
	if (s->train.tuning && strcmp(s->train.tuning, "full") != 0)
		fprintf(file,
			"note: --train %s: FLOPs and MFU are those of what is trained, without gradients of frozen "
			"weights\n",
			s->train.tuning);
	for (uint32_t i = 0; i < s->calib->n_devices; i++) {
		const struct mq_device_calib *d = &s->calib->device[i];

		if (d->assumed)
			fprintf(file, "assumed: %s: %s; %s%s says more\n", d->name, d->assumed,
				here ? "edit " : "a file as in platforms/calib", here ? s->platform_calib : "");
	}
}

const char *mq_session_host_memory(const struct mq_result *r, struct mq_arena *arena)
{
	char text[32];

	return r && r->host_memory_B > 0 && !(r->host_limit_B > 0) ?
		       mq_arena_printf(arena,
				       "%s in the host memory of a machine; how much it has is not known "
				       "(host_memory_GB=)",
				       mq_text_B(r->host_memory_B, text)) :
		       "";
}

const char *mq_session_assumed(const struct mq_session *s, const struct mq_result *r, struct mq_arena *arena)
{
	const char *text = mq_session_left_out(s, arena), *host = mq_session_host_memory(r, arena);

	for (uint32_t i = 0; i < s->calib->n_devices; i++)
		if (s->calib->device[i].assumed)
			text = mq_arena_printf(arena, "%s%s%s: %s", text, *text ? "; " : "", s->calib->device[i].name,
					       s->calib->device[i].assumed);
	return mq_arena_printf(arena, "%s%s%s", text, *text && *host ? "; " : "", host);
}

const struct mq_job *mq_session_job(const struct mq_session *session)
{
	return &session->files->job;
}

bool mq_session_screen_here(struct mq_session *s, const struct mq_question *q, enum mq_screen_of what,
			    const struct mq_plan *plan, struct mq_result *result)
{
	struct mq_arena_mark mark = mq_arena_mark(&s->screening);
	struct mq_err lost;
	const struct mq_judge judge = {
		.q = q,
		.execute = what == MQ_SCREEN_MEMORY ? NULL : mq_execute_analytic,
		.fold = !s->asked->no_fold,
		.interference = !s->asked->no_interference,
		.times_only = true,
		.any_memory = what == MQ_SCREEN_TIME,
		.timeout_s = s->asked->timeout_s,
		.simulation_s = s->asked->simulation_s,
		.replays = s->replays,
	};
	bool known = mq_judge_plan(&judge, plan, &s->screening, result, &lost) == MQ_OK;

	mq_arena_rewind(&s->screening, mark);
	if (known)
		mq_result_round(result);
	else
		*result = mq_result_none(MQ_N_VERDICTS);
	return known;
}

/* The workers' answers equal this process's to the last bit. */
enum mq_status mq_session_screen(struct mq_session *s, const struct mq_plan *const *plan, uint32_t n,
				 struct mq_result *result, struct mq_err *err)
{
	for (uint32_t i = 0; i < n && s->asked->jobs < 2; i++)
		(void)mq_session_screen_here(s, &s->q, MQ_SCREEN_TIME, plan[i], &result[i]);
	if (s->asked->jobs < 2)
		return MQ_OK;
	struct mq_arena_mark mark = mq_arena_mark(&s->screening);
	struct mq_job *analytic = mq_arena_array(&s->screening, 1, struct mq_job);
	const struct mq_job **job = mq_arena_array(&s->screening, n, const struct mq_job *);

	*analytic = s->files->job;
	analytic->analytic = analytic->times_only = analytic->any_memory = true;
	analytic->asked.time_oom = false;
	analytic->max_tasks = 0;
	analytic->jitter.draws = 0;
	for (uint32_t i = 0; i < n; i++)
		job[i] = analytic;
	/* clears the deadline of earlier judgements: engines check the clock between screens */
	mq_pool_until(s->pool, INFINITY);
	enum mq_status status = mq_pool_judge_jobs(s->pool, job, plan, n, result, err);
	mq_arena_rewind(&s->screening, mark);
	return status;
}

enum mq_status mq_session_judge(struct mq_session *s, const struct mq_plan *const *plan, uint32_t n,
				struct mq_result *result, struct mq_err *err)
{
	return mq_pool_judge(s->pool, plan, n, result, err);
}

enum mq_status mq_session_detail(struct mq_session *session, const struct mq_plan *plan, const char *dir,
				 struct mq_err *err)
{
	const struct mq_outputs outputs = { .dir = dir, .max_B = DETAIL_B };
	struct mq_result result;

	MQ_TRY(mq_make_dir(dir, err));
	return mq_pool_detail(session->pool, false, plan, &outputs, &result, err);
}
