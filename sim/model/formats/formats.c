/* formats.c - the table of model formats, and mq_model_load, which picks one.
 *
 * The table follows the files of this folder (formats.inc is generated from their names). A specification is a built-in
 * name with options, "gpt:layers=24", the name of a shipped graph, ORG/NAME of a shipped configuration, or a file, "model.onnx" or
 * "graph.txt:batch=256"; a folder stands for the config.json inside it. Readers are asked in the
 * order of their names whether a file is theirs. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "maquette/fine_tune.h"
#include "model/formats/lib/graph.h"
#include "model/formats/lib/huggingface.h"

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

	for (const struct mq_format *const *f = mq_formats; *f; f++)
		for (const char *const *s = (*f)->names; (*f)->build && s && *s; s++)
			MQ_PUSH(arena, names, n, room, *s);
	for (const char **file = mq_graph_files(NULL, arena); *file; file++) {
		const char *name = mq_file_stem(*file, arena);

		if (!n || strcmp(names[n - 1], name)) /* variants of one model follow each other */
			MQ_PUSH(arena, names, n, room, name);
	}
	qsort(names, n, sizeof(*names), mq_by_text);
	MQ_PUSH(arena, names, n, room, NULL);
	return names;
}

static const struct mq_format *find_builder(const char *name)
{
	size_t n = strcspn(name, ":");

	for (const struct mq_format *const *f = mq_formats; *f; f++)
		for (const char *const *s = (*f)->names; (*f)->build && s && *s; s++)
			if (strlen(*s) == n && !strncmp(*s, name, n))
				return *f;
	return NULL;
}

bool mq_model_builtin(const char *spec, struct mq_arena *arena, struct mq_builtin *is)
{
	const struct mq_format *builder = find_builder(spec);
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

static enum mq_status unknown_model(const char *spec, const char *name, const char *const *names,
				    struct mq_arena *arena, struct mq_err *err)
{
	const char *slash = strchr(name, '/'), *near = mq_nearest(name, names), *list = "";

	for (; *names; names++)
		list = mq_arena_printf(arena, "%s%s%s", list, *list ? " " : "", *names);
	bool file = strstr(name, ".json") || strstr(name, ".onnx") || strstr(name, ".txt") || strstr(name, ".sh");

	if (slash && slash > name && !strchr(slash + 1, '/') && *name != '.' && !file) {
		near = mq_nearest(name, mq_hf_shipped(arena));
		return mq_bad(
			err,
			"cannot open model file '%s': %s; it is no configuration that is shipped either%s%s%s: give the "
			"model's config.json, or a name of `maquette list models`",
			spec, strerror(ENOENT), near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
	}
	if (slash || strchr(name, '.'))
		return mq_bad(err, "cannot open model file '%s': %s; give a file that exists, or one of: %s", spec,
			      strerror(ENOENT), list);
	return mq_bad(err,
		      "no model '%s'%s%s%s; built in: %s; or give a file (config.json, .onnx, "
		      "graph.txt, placement JSON)",
		      name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", list);
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
		if (!(*f)->probe)
			continue;
		if ((*f)->probe(path, head, size))
			return (*f)->load(path, request, arena, model, err);
		readers = mq_arena_printf(arena, "%s; %s", readers, (*f)->summary);
	}
	return mq_bad(err, "'%s' is no model file that can be read%s", path, readers);
}

/* What people call a model by another name (platforms/models/names.json), as -m takes it; NULL: it has none. */
static const char *other_name(const char *name, const char *options, struct mq_arena *arena)
{
	json_auto_t *names = mq_models_file("names.json", arena);
	const char *other;
	json_t *is;

	json_object_foreach(names, other, is)
		if (!strcasecmp(other, name) && json_is_string(is))
			return mq_arena_printf(arena, "%s%s%s", json_string_value(is),
					       options ? strchr(json_string_value(is), ':') ? "," : ":" : "",
					       options ? options : "");
	return NULL;
}

static enum mq_status load_whole(const struct mq_model_request *request, bool renamed, struct mq_arena *arena,
				 struct mq_model **model, struct mq_err *err)
{
	const char *path;

	if (!request->spec || !*request->spec)
		return mq_bad(err, "no model given; use -m NAME[:key=value,...] or -m FILE");
	const char *name = mq_arena_printf(arena, "%.*s", (int)strcspn(request->spec, ":"), request->spec);
	const char *options = request->spec[strlen(name)] ? request->spec + strlen(name) + 1 : NULL;
	const struct mq_format *builder = find_builder(name);

	if (builder)
		return builder->build(name, options, request, arena, model, err);
	MQ_TRY(mq_graph_find(request->spec, request->seq, arena, &path, err));
	if (!path)
		path = file_path(request->spec, arena);
	if (!path && strchr(name, '/')) {
		MQ_TRY(mq_hf_load_shipped(request, arena, model, err));
		if (*model)
			return MQ_OK;
	}
	struct mq_model_request called = *request;
	if (!path && !renamed && (called.spec = other_name(name, options, arena)))
		return load_whole(&called, true, arena, model, err);
	if (!path)
		return unknown_model(request->spec, name, mq_model_names(arena), arena, err);
	return load_file(path, request, arena, model, err);
}

enum mq_status mq_model_load(const struct mq_model_request *request, struct mq_arena *arena, struct mq_model **model,
			     struct mq_err *err)
{
	struct mq_tuning tuning;

	const char *text = request->train ? request->train->tuning : NULL;

	MQ_TRY(mq_tuning_resolve(&text, arena, err));
	MQ_TRY(mq_tuning_read("--train", text, arena, &tuning, err));
	MQ_TRY(load_whole(request, false, arena, model, err));
	return mq_tuning_apply(&tuning, arena, model, err);
}
