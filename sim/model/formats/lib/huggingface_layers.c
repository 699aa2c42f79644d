/* huggingface_layers.c - the parts of each layer of a Hugging Face configuration: lists of words, flags or indices, a
 * text with a letter per layer, or intervals. Lists take precedence over intervals. Regular patterns stay in
 * t.full_every, t.moe_every and t.dense_layers; letters are for all others. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/formats/lib/huggingface_keys.h"

enum { MAX_LAYERS = 10000 };

enum how { WORDS, CYCLE, FLAGS, INDICES };

/* A list key: the kind of its members, and the letters it sets (mixer or MLP): `yes` if the flag is set or the index
 * listed, else `no`; 0: unchanged. */
static const struct list {
	const char *key;
	enum how how;
	bool feeds;
	char yes, no;
} lists[] = {
	{ "layer_types", WORDS, false, 0, 0 },
	{ "layers_block_type", WORDS, false, 0, 0 },
	{ "attention_layers", WORDS, false, 0, 0 },
	{ "block_types", CYCLE, false, 0, 0 },
	{ "attn_type_list", FLAGS, false, '*', 'o' },
	{ "hybrid_layer_pattern", FLAGS, false, 'W', '*' },
	{ "attn_layer_indices", INDICES, false, '*', 'o' },
	{ "full_attn_idxs", INDICES, false, '*', 'o' },
	{ "indexer_types", WORDS, false, 0, 0 },
	{ "mlp_layer_types", WORDS, true, 0, 0 },
	{ "moe_layer_freq", FLAGS, true, 'E', '-' },
	{ "moe_layers", INDICES, true, 'E', '-' },
	{ "mlp_only_layers", INDICES, true, '-', 0 },
};

/* o: a layer without full attention, whose mixer depends on the family. Exports write a letter's first word. */
static const struct {
	const char *word;
	char letter;
} words[] = {
#define X(word, letter) { word, letter },
#include "model/formats/lib/huggingface_words.def"
#undef X
};

bool mq_hf_layer_key(const char *key)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (!strcmp(key, lists[i].key))
			return true;
	return !strcmp(key, "hybrid_override_pattern") || !strcmp(key, "sliding_window_pattern");
}

const char *mq_hf_layer_word(char letter)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i].letter == (strchr("DL", letter) ? 'o' : letter))
			return words[i].word;
	return NULL;
}

static enum mq_status wrong(const struct mq_json_at *at, const char *key, const char *what, struct mq_err *err)
{
	return mq_bad(err, "%s: %s%s\"%s\" %.60s", at->path, at->place, *at->place ? ": " : "", key, what);
}

static enum mq_status letter_of(const struct mq_json_at *at, const char *key, const json_t *value, char *letter,
				struct mq_err *err)
{
	const char *word = json_string_value(value);
	char text[80];

	for (size_t i = 0; word && i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i].word)) {
			*letter = words[i].letter;
			return MQ_OK;
		}
	snprintf(text, sizeof(text), "has layers of kind '%.30s', not read", word ? word : "(no text)");
	return wrong(at, key, text, err);
}

static enum mq_status read_list(const struct mq_json_at *at, const struct list *list, uint32_t layers, char *letters,
				struct mq_err *err)
{
	const json_t *array = json_object_get(at->object, list->key);
	size_t n = json_array_size(array);

	bool none = !array || json_is_null(array) || json_is_array(array) || list->how != WORDS;
	if ((!n && none) || (list->how == FLAGS && n == 1 && layers > 1))
		return MQ_OK;
	if (list->how == INDICES) {
		if (list->no)
			memset(letters, list->no, layers);
		for (size_t i = 0; i < n; i++) {
			const json_t *index = json_array_get(array, i);

			if (!json_is_integer(index) || json_integer_value(index) < 0 ||
			    json_integer_value(index) >= layers)
				return wrong(at, list->key, "has an index that is no layer's", err);
			letters[json_integer_value(index)] = list->yes;
		}
		return MQ_OK;
	}
	if (list->how != CYCLE && n != layers)
		return wrong(at, list->key, "is not as long as there are layers", err);
	for (uint32_t i = 0; i < layers; i++) {
		const json_t *value = json_array_get(array, i % n);

		if (list->how == FLAGS)
			letters[i] = json_number_value(value) > 0 ? list->yes : list->no;
		else
			MQ_TRY(letter_of(at, list->key, value, &letters[i], err));
	}
	return MQ_OK;
}

/* Kimi's lists count layers from 1. */
static enum mq_status read_kimi(const struct mq_json_at *at, uint32_t layers, char *letters, struct mq_err *err)
{
	const json_t *array = json_object_get(json_object_get(at->object, "linear_attn_config"), "full_attn_layers");

	for (size_t i = 0; i < json_array_size(array); i++) {
		json_int_t layer = json_integer_value(json_array_get(array, i));

		if (layer < 1 || layer > layers)
			return wrong(at, "full_attn_layers", "has a number that is no layer's", err);
		letters[layer - 1] = '*';
	}
	return MQ_OK;
}

/* "LLLG": a repeating pattern of local and global layers; or one letter per layer. */
static enum mq_status read_text(const struct mq_json_at *at, uint32_t layers, char *letters, struct mq_err *err)
{
	static const char key[] = "sliding_window_pattern";
	const char *text = json_string_value(json_object_get(at->object, key));

	if (!text || !*text)
		return MQ_OK;
	if (strspn(text, "LG") != strlen(text))
		return wrong(at, key, "is not of letters L and G", err);
	for (uint32_t i = 0; i < layers; i++)
		letters[i] = text[i % strlen(text)] == 'G' ? '*' : 'W';
	return MQ_OK;
}

/* Jamba gives the layer in an interval; in other families it is the last, or the first. */
static void set_interval(const struct mq_hf_family *f, const struct mq_hf_config *c, uint32_t layers, char *letters)
{
	uint32_t at = f->dialects & MAMBA1 ? c->offset : c->full_first ? 0 : c->interval - 1;

	if (!c->interval)
		return;
	for (uint32_t i = 0; i < layers; i++)
		letters[i] = i % c->interval == at ? '*' : 'o';
}

/* The interval n if `last` is exactly every n-th letter; 0: another pattern. */
static uint32_t every(const char *letters, uint32_t layers, char last)
{
	const char *first = strchr(letters, last);
	uint32_t n = first ? (uint32_t)(first - letters) + 1 : 0;

	for (uint32_t i = 0; n && i < layers; i++)
		if ((letters[i] == last) != ((i + 1) % n == 0))
			return 0;
	return n;
}

static void settle_mixers(struct mq_hf_config *c, char *letters)
{
	struct mq_transformer *t = &c->t;
	char usual = t->index_heads ? 'I' : '*';

	for (uint32_t i = 0; i < t->layers; i++) {
		if (letters[i] == 'o')
			letters[i] = c->other ? c->other : 'W';
		if (letters[i] == 'W' && !t->window)
			letters[i] = usual;
	}
	t->full_every = 0;
	if (strspn(letters, (char[]){ usual, 0 }) == t->layers) {
		t->window = 0;
		return;
	}
	if (strspn(letters, "W") == t->layers)
		return;
	if (strspn(letters, "*W") == t->layers && (t->full_every = every(letters, t->layers, '*')) > 0)
		return;
	t->mixers = letters;
}

static enum mq_status read_mixers(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_hf_config *c,
				  char *letters, struct mq_err *err)
{
	uint32_t layers = c->t.layers, longest = 0;
	bool windowed = !c->unwindowed;

	memset(letters, c->t.window ? 'W' : c->other && !c->interval ? 'o' : c->t.index_heads ? 'I' : '*', layers);
	set_interval(f, c, layers, letters);
	MQ_TRY(read_text(at, layers, letters, err));
	MQ_TRY(mq_json_bool(at, "use_sliding_window", &windowed, err));
	MQ_TRY(mq_json_u32(at, "max_window_layers", 0, 1e8, &longest, err));
	if (!windowed)
		c->t.window = 0;
	else if (c->unwindowed) /* Qwen: the layers after those */
		memset(letters, '*', longest < layers ? longest : layers);
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (!lists[i].feeds)
			MQ_TRY(read_list(at, &lists[i], layers, letters, err));
	return read_kimi(at, layers, letters, err);
}

static enum mq_status read_feeds(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_hf_config *c,
				 char *letters, struct mq_err *err)
{
	struct mq_transformer *t = &c->t;
	uint32_t step = c->step ? c->step : 1, n;
	uint32_t at_step = f->dialects & (ROUTED | MAMBA1) ? c->first_of_step : step - 1;

	for (uint32_t i = 0; i < t->layers; i++) {
		bool behind = i < t->dense_layers || (c->last_moe && i > c->last_moe);

		letters[i] = !behind && i % step == at_step ? 'E' : '-';
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (lists[i].feeds)
			MQ_TRY(read_list(at, &lists[i], t->layers, letters, err));
	t->moe_every = t->dense_layers = 0;
	n = (uint32_t)strspn(letters, "-");
	if (n == t->layers) {
		t->experts = c->shared = 0;
		c->moe_ffn = 0;
	} else if (strspn(letters + n, "E") == t->layers - n) {
		t->dense_layers = n;
	} else if (!(t->moe_every = every(letters, t->layers, 'E'))) {
		t->feeds = letters;
	}
	return MQ_OK;
}

/* Stacks with one part per layer: Nemotron-H's letters or words, Mamba's one letter. */
static enum mq_status read_pattern(const struct mq_json_at *at, struct mq_hf_config *c, char *letters,
				   struct mq_arena *arena, struct mq_err *err)
{
	const char *text = NULL;

	MQ_TRY(mq_json_text(at, "hybrid_override_pattern", &text, err));
	if (text) {
		c->t.pattern = mq_arena_strdup(arena, text);
	} else if (*c->t.pattern) {
		memset(letters, *c->t.pattern, c->t.layers);
		c->t.pattern = letters;
	} else if (json_array_size(json_object_get(at->object, "layers_block_type"))) {
		MQ_TRY(read_list(at, &lists[1], c->t.layers, letters, err));
		for (char *l = letters; *l; l++)
			*l = *l == 'o' ? 'M' : *l;
		c->t.pattern = letters;
	} else {
		return wrong(at, "hybrid_override_pattern", "is missing, and so is \"layers_block_type\"", err);
	}
	if (!strchr(c->t.pattern, 'E'))
		c->t.experts = c->t.latent = c->moe_ffn = c->shared = c->t.shared_ffn = c->t.mtp = 0;
	return MQ_OK;
}

enum mq_status mq_hf_layers(const struct mq_hf_family *f, const struct mq_json_at *at, struct mq_hf_config *c,
			    struct mq_arena *arena, struct mq_err *err)
{
	size_t listed = json_array_size(json_object_get(at->object, "layers_block_type"));

	if (f->start.t.pattern && listed && !json_object_get(at->object, "num_hidden_layers"))
		c->t.layers = listed < MAX_LAYERS ? (uint32_t)listed : MAX_LAYERS;
	if (!c->t.layers || c->t.layers > MAX_LAYERS)
		return MQ_OK; /* the check of the description refuses it */
	char *mixers = mq_arena_alloc(arena, c->t.layers + 1), *feeds = mq_arena_alloc(arena, c->t.layers + 1);
	if (f->start.t.pattern)
		return read_pattern(at, c, mixers, arena, err);
	MQ_TRY(read_mixers(f, at, c, mixers, err));
	settle_mixers(c, mixers);
	return c->t.experts ? read_feeds(f, at, c, feeds, err) : MQ_OK;
}
