/* formats.c - the table of model formats, and mq_model_load, which picks one.
 *
 * The table lists the files of this folder (formats.inc is generated from their names). A specification is a built-in
 * name with options, "gpt:layers=24", the name of a shipped graph, ORG/NAME of a shipped configuration, or a file,
 * "model.onnx" or "graph.txt:batch=256"; a folder stands for the config.json inside it. Readers probe a file in the
 * order of their names. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "maquette/fine_tune.h"
#include "model/formats/lib/graph.h"
#include "model/formats/lib/huggingface.h"
#include "model/formats/lib/names.h"

#define MQ_FORMAT(name) extern const struct mq_format mq_format_##name;
#include "formats.inc"
#undef MQ_FORMAT

#define MQ_FORMAT(name) &mq_format_##name,
const struct mq_format *const mq_formats[] = {
#include "formats.inc"
	NULL
};
#undef MQ_FORMAT

enum { HEAD_SIZE = 4096 };

const char **mq_model_names(struct mq_arena *arena)
{
	const char **names = NULL;
	uint32_t n = 0, room = 0;

	for (const struct mq_builder *const *b = mq_builders; *b; b++)
		for (const char *const *s = (*b)->names; *s; s++)
			MQ_PUSH(arena, names, n, room, *s);
	for (const char **file = mq_graph_files(NULL, arena); *file; file++) {
		const char *name = mq_file_stem(*file, arena);

		if (!n || strcmp(names[n - 1], name)) /* variants of one model are adjacent */
			MQ_PUSH(arena, names, n, room, name);
	}
	qsort(names, n, sizeof(*names), mq_by_text);
	MQ_PUSH(arena, names, n, room, NULL);
	return names;
}

bool mq_model_builtin(const char *spec, struct mq_arena *arena, struct mq_builtin *is)
{
	const struct mq_builder *builder = mq_builder_find(spec);
	const char *name = mq_arena_printf(arena, "%.*s", (int)strcspn(spec, ":"), spec);

	*is = (struct mq_builtin){ .name = name, .summary = builder ? builder->summary : NULL };
	is->opts = builder ? builder->opts : NULL;
	for (const char **file = is->made = builder ? NULL : mq_graph_files(name, arena); file && *file; file++) {
		json_t *head = mq_graph_head(*file);
		const char *summary = json_string_value(json_object_get(head, "summary"));

		if (!is->summary)
			is->summary = mq_arena_strdup(arena, summary ? summary : "");
		*file = mq_graph_parameters(head, arena);
		json_decref(head);
	}
	return is->summary != NULL;
}

static enum mq_status unknown_model(const char *spec, const char *name, const char *near, struct mq_arena *arena,
				    struct mq_err *err)
{
	static const char remedy[] = "give a file (config.json, .onnx, graph.txt, placement JSON) or a name of "
				     "`maquette list models`";
	const char *slash = strchr(name, '/');

	bool file = strstr(name, ".json") || strstr(name, ".onnx") || strstr(name, ".txt") || strstr(name, ".sh");
	bool hub = slash && slash > name && !strchr(slash + 1, '/') && *name != '.' && !file;

	const char *spelt = mq_nearest(name, hub ? mq_hf_shipped(arena) : mq_model_names(arena));
	if (spelt && (hub || !*near))
		near = spelt;
	const char *meant = !file && *near ? mq_arena_printf(arena, "; did you mean %s?", near) : "";
	if (slash || file)
		return mq_bad(err, "cannot open model file '%s': %s%s%s; %s", spec, strerror(ENOENT),
			      hub ? "; it is no configuration that is shipped either" : "", meant, remedy);
	return mq_bad(err, "no model '%s'%s; %s", name, meant, remedy);
}

/* The path part of a specification: all of it if such a file exists, else up to the last ':'. */
static const char *file_path(const char *spec, struct mq_arena *arena)
{
	struct stat st;

	if (!stat(spec, &st))
		return mq_arena_strdup(arena, spec);
	const char *colon = strrchr(spec, ':');
	if (!colon)
		return NULL;
	char *path = mq_arena_printf(arena, "%.*s", (int)(colon - spec), spec);
	return stat(path, &st) ? NULL : path;
}

static enum mq_status load_file(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
				struct mq_model **model, struct mq_err *err)
{
	struct stat st = { 0 };
	char head[HEAD_SIZE + 1];
	const char *readers = "";

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		path = mq_arena_printf(arena, "%s/config.json", path);
		if (stat(path, &st))
			return mq_bad(err, "cannot open '%s': %s; give a model file, or a folder with one", path,
				      strerror(errno));
	}
	if (!S_ISREG(st.st_mode))
		return mq_bad(err, "'%s' is not a regular file; give a model file", path);
	FILE *file = fopen(path, "rb");
	if (!file)
		return mq_bad(err, "cannot open '%s': %s; check its permissions", path, strerror(errno));
	size_t size = fread(head, 1, HEAD_SIZE, file);
	fclose(file);
	if (!size)
		return mq_bad(err, "'%s' is empty; give a model file", path);
	head[size] = '\0';
	for (const struct mq_format *const *f = mq_formats; *f; f++) {
		if ((*f)->probe(path, head, size))
			return (*f)->load(path, request, arena, model, err);
		readers = mq_arena_printf(arena, "%s; %s", readers, (*f)->summary);
	}
	return mq_bad(err, "'%s' is no model file that can be read%s", path, readers);
}

static const char *before_options(const char *spec, struct mq_arena *arena)
{
	return mq_arena_printf(arena, "%.*s", (int)strcspn(spec, ":"), spec);
}

/* In a user's file, --seq may set a symbolic axis (onnx.c). */
static enum mq_status check_seq(const struct mq_model_request *request, const struct mq_model *model,
				struct mq_err *err)
{
	if (!request->seq || model->seq)
		return MQ_OK;
	return mq_bad(err, "--seq %u: model '%s' has no sequences of tokens; leave it out", request->seq, model->name);
}

/* Loads from a builder, a graph, a file or a shipped configuration; *model NULL: none has that name. */
static enum mq_status load_known(const struct mq_model_request *request, struct mq_arena *arena,
				 struct mq_model **model, struct mq_err *err)
{
	const char *name = before_options(request->spec, arena), *options = strchr(request->spec, ':'), *path;
	const struct mq_builder *builder = mq_builder_find(name);

	*model = NULL;
	if (builder) {
		MQ_TRY(builder->build(name, options ? options + 1 : NULL, request, arena, model, err));
		return check_seq(request, *model, err);
	}
	MQ_TRY(mq_graph_find(request->spec, request->seq, arena, &path, err));
	if (path) {
		MQ_TRY(load_file(path, request, arena, model, err));
		return check_seq(request, *model, err);
	}
	path = file_path(request->spec, arena);
	if (path)
		return load_file(path, request, arena, model, err);
	return strchr(name, '/') ? mq_hf_load_shipped(request, arena, model, err) : MQ_OK;
}

static enum mq_status load_whole(const struct mq_model_request *request, struct mq_arena *arena,
				 struct mq_model **model, struct mq_err *err)
{
	struct mq_model_request said = *request;
	const char *near;

	if (!request->spec || !*request->spec)
		return mq_bad(err, "no model given; use -m NAME[:key=value,...] or -m FILE");
	MQ_TRY(load_known(request, arena, model, err));
	if (*model)
		return MQ_OK;
	const char *name = before_options(request->spec, arena), *options = strchr(request->spec, ':');
	said.spec = mq_model_named(name, mq_model_names(arena), arena, &near);
	if (said.spec && options)
		said.spec =
			mq_arena_printf(arena, "%s%c%s", said.spec, strchr(said.spec, ':') ? ',' : ':', options + 1);
	if (said.spec)
		MQ_TRY(load_known(&said, arena, model, err));
	return *model ? MQ_OK : unknown_model(request->spec, name, near, arena, err);
}

enum mq_status mq_model_load(const struct mq_model_request *request, struct mq_arena *arena, struct mq_model **model,
			     struct mq_err *err)
{
	struct mq_tuning tuning;

	const char *text = request->train ? request->train->tuning : NULL;

	MQ_TRY(mq_tuning_resolve(&text, arena, err));
	MQ_TRY(mq_tuning_read("--train", text, arena, &tuning, err));
	MQ_TRY(load_whole(request, arena, model, err));
	MQ_TRY(mq_tuning_apply(&tuning, arena, model, err));
	mq_model_mark_gemms(request, *model);
	mq_model_find_alike(*model, arena);
	return MQ_OK;
}
