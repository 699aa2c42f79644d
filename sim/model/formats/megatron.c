/* megatron.c - models from the flags of a Megatron-LM launch script (--num-layers, --hidden-size, ...).
 *
 * Names that the script assigns are replaced, see base/shell.h. Without --vocab-size or --padded-vocab-size the
 * tokenizer decides, which is not read: an error. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/shell.h"
#include "model/formats/lib/file.h"
#include "model/formats/lib/megatron.h"

enum { MAX_BYTES = 1 << 20 };

static bool probe(const char *path, const char *head, size_t size)
{
	size_t n = strlen(path);

	return (n > 3 && !strcmp(path + n - 3, ".sh")) || strstr(head, "--num-layers") || strstr(head, "--hidden-size");
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct mq_transformer t;
	struct mq_bytes bytes;
	const char **word;

	MQ_TRY(mq_file_read(path, MAX_BYTES, arena, &bytes, err));
	if (mq_shell_words(bytes.data, arena, &word, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	if (!mq_megatron_has_model(word))
		return mq_fail(err, MQ_EINPUT,
			       "%s: has no --hidden-size; give a launch script of Megatron-LM with the model's flags",
			       path);
	if (mq_megatron_read(word, arena, &t, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	if (!t.vocab)
		return mq_fail(err, MQ_EINPUT, "%s: the tokenizer decides the vocabulary; add --vocab-size N", path);
	t.name = mq_file_stem(path, arena);
	return mq_transformer_build(&t, path, request, arena, model, err);
}

const struct mq_format mq_format_megatron = {
	.name = "megatron",
	.summary = "launch script of Megatron-LM",
	.probe = probe,
	.load = load,
};
