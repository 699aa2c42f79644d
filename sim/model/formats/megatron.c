/* megatron.c - models from the flags of a Megatron-LM launch script, from its log, or from YAML with such settings.
 *
 * Variables of the script are expanded, see base/shell.h. Without --vocab-size or --padded-vocab-size the tokenizer
 * decides, which is not read: an error, unless FILE:vocab=N gives it. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/shell.h"
#include "base/text.h"
#include "model/formats/lib/file.h"
#include "model/formats/lib/megatron.h"

enum { MAX_BYTES = 1 << 20 };

struct options {
	uint32_t vocab;
};

static const struct mq_opt opts[] = {
	MQ_U32(struct options, vocab, 0, 1, 1e8, "tokens of its tokenizer; default: what --vocab-size says"), MQ_END
};

static bool probe(const char *path, const char *head, size_t size)
{
	const char *dot = strrchr(path, '.');

	return (dot && mq_text_has_word(".sh .yaml .yml .log", dot)) || strstr(head, "--num-layers") ||
	       strstr(head, "--hidden-size") || strstr(head, " hidden_size ..");
}

/* Megatron programs that train other models. */
static enum mq_status check_program(const char *const *word, struct mq_err *err)
{
	static const char others[] =
		"pretrain_t5.py pretrain_bert.py pretrain_ict.py pretrain_mamba.py pretrain_vlm.py pretrain_retro.py "
		"pretrain_mimo.py pretrain_vision_classify.py pretrain_vision_dino.py pretrain_vision_inpaint.py";

	for (; *word; word++) {
		const char *base = basename(*word);

		if (mq_text_has_word(others, base))
			return mq_bad(err,
				      "%s is not read: its model is no stack of GPT's blocks; give -m as a built-in "
				      "model (`maquette list models`) or a config.json",
				      base);
	}
	return MQ_OK;
}

/* Flags of the model in undecided branches: each branch is another model. */
static enum mq_status check_doubt(const char *const *word, struct mq_err *err)
{
	bool takes;

	for (; *word; word++)
		if (mq_megatron_describes(*word, &takes))
			return mq_bad(
				err,
				"%s stands in a branch or loop that the script does not decide; give a script with "
				"the one that is meant",
				*word);
	return MQ_OK;
}

/* --global-batch-size; 0: absent, or no number. */
static uint32_t read_batch(const char *const *word, struct mq_arena *arena)
{
	static const struct mq_flag flag[] = { { "--global-batch-size", MQ_FLAG_DEGREE, 0 }, { NULL, 0, 0 } };
	uint32_t batch = 0;
	struct mq_err err;

	for (; *word; word++)
		if (mq_flag_find(flag, *word) && mq_flag_take(flag, &word, &batch, arena, &err) != MQ_OK)
			return 0;
	return batch;
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct mq_transformer t;
	struct mq_bytes bytes;
	struct mq_script script;
	struct options o;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, path, mq_file_options(path, request), arena, err));
	MQ_TRY(mq_file_read(path, MAX_BYTES, arena, &bytes, err));
	const char *const *word;
	bool settings = strstr(bytes.data, "hidden_size ..") || !strstr(bytes.data, "--hidden-size");
	if (settings)
		MQ_TRY(mq_megatron_settings(path, bytes.data, arena, &word, err));
	else if (mq_shell_read(bytes.data, arena, &script, err) != MQ_OK ||
		 check_program(word = script.word, err) != MQ_OK || check_doubt(script.doubt, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	if (!mq_megatron_has_model(word))
		return mq_bad(err,
			      "%s: has no --hidden-size; give a launch script of Megatron-LM with the model's flags",
			      path);
	if (mq_megatron_read(word, arena, &t, err) != MQ_OK)
		return mq_wrap(err, "%s", path);
	t.vocab = o.vocab ? o.vocab : t.vocab;
	if (!t.vocab)
		return mq_bad(err, "%s: its tokenizer decides the vocabulary; give -m %s:vocab=N", path, path);
	if (!t.seq && !request->seq)
		return mq_bad(err, "%s: has no --seq-length; give --seq N", path);
	t.name = mq_file_stem(path, arena);
	MQ_TRY(mq_transformer_build(&t, path, request, arena, model, err));
	(*model)->batch = read_batch(word, arena);
	return MQ_OK;
}

const struct mq_format mq_format_megatron = {
	.name = "megatron",
	.summary = "launch script or log of Megatron-LM, YAML of NeMo or Megatron Bridge (FILE[:vocab=N])",
	.probe = probe,
	.load = load,
};
