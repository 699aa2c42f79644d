/* search_rows.c - candidates.csv and evaluations.csv: appended row by row, flushed after each, so that a killed run
 * loses nothing that was judged; see search.h for how a run resumes. SPDX-License-Identifier: Apache-2.0 */
#include "search/search.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "schedule/columns.h"

static enum mq_status cannot_write(const char *path, struct mq_err *err)
{
	return mq_bad(err, "%s: cannot write: %s; free some space and run again", path, strerror(errno));
}

enum { MOST_MB = 1 << 20 };

/* Reads what is there up to the last whole line, cuts off the rest, leaves the file open at its end. What is no text (a
 * device, a foreign file) is read as nothing, and left as it is. */
static enum mq_status open_lines(const char *path, struct mq_arena *arena, FILE **file, char **text, size_t *size,
				 struct mq_err *err)
{
	struct mq_err none = MQ_ERR_INIT;

	*file = fopen(path, "a+");
	if (!*file)
		return mq_bad(err, "%s: cannot write: %s", path, strerror(errno));
	*text = mq_arena_strdup(arena, "");
	bool lines = mq_text_read(path, MOST_MB, arena, text, size, &none) == MQ_OK;
	*size = lines ? *size : 0;
	while (*size && (*text)[*size - 1] != '\n')
		--*size;
	(*text)[*size] = '\0';
	if (lines && ftruncate(fileno(*file), (off_t)*size) && errno != EINVAL)
		return cannot_write(path, err);
	fseek(*file, 0, SEEK_END);
	return MQ_OK;
}

/* ---- candidates.csv --------------------------------------------------------------------------- */

/* Is the old row the same proposal, whose simulator had died? Then it is judged anew, and what engines
 * proposed after it may differ. `head`: bytes of the row before the verdict. */
static bool had_crashed(const struct mq_rows *rows, const char *text, size_t head)
{
	static const char crash[] = ",crash,";
	const char *old = rows->old + rows->at;

	return head && rows->old_size - rows->at >= head + strlen(crash) && !memcmp(old, text, head) &&
	       !memcmp(old + head, crash, strlen(crash));
}

static enum mq_status emit(struct mq_rows *rows, const char *text, size_t size, size_t head, struct mq_err *err)
{
	if (rows->at < rows->old_size) {
		size_t left = rows->old_size - rows->at;

		if (size <= left && !memcmp(rows->old + rows->at, text, size)) {
			rows->at += size;
			return MQ_OK;
		}
		if (!rows->lenient && !had_crashed(rows, text, head)) {
			uint32_t line = 1;
			for (size_t i = 0; i < rows->at; i++)
				line += rows->old[i] == '\n';
			return mq_bad(err,
				      "%s:%u: written by another command or another version; choose "
				      "another -o, or remove the folder",
				      rows->path, line);
		}
		if (ftruncate(fileno(rows->file), (off_t)rows->at))
			return cannot_write(rows->path, err);
		rows->old_size = rows->at;
	}
	if (fwrite(text, 1, size, rows->file) != size || fflush(rows->file))
		return cannot_write(rows->path, err);
	rows->at = rows->old_size += size;
	return MQ_OK;
}

enum mq_status mq_rows_open(struct mq_rows *rows, const char *dir, struct mq_arena *arena, struct mq_err *err)
{
	rows->path = mq_arena_printf(arena, "%s/candidates.csv", dir);
	MQ_TRY(open_lines(rows->path, arena, &rows->file, &rows->old, &rows->old_size, err));
	const char *header = mq_arena_printf(arena, "%s\n", mq_table[MQ_TABLE_candidates].header);
	return emit(rows, header, strlen(header), 0, err);
}

/* Recompute and sync of the whole plan: the configs' common choice, else "mixed". */
static void common_choices(const struct mq_plan *plan, const char **recompute, const char **sync)
{
	const struct mq_config *c = plan->config;

	*recompute = plan->n_configs ? mq_recompute_name(c->recompute) : "none";
	*sync = plan->n_configs ? mq_sync_name(c->sync) : "none";
	for (uint32_t i = 1; i < plan->n_configs; i++) {
		*recompute = c[i].recompute == c->recompute ? *recompute : "mixed";
		*sync = c[i].sync == c->sync ? *sync : "mixed";
	}
}

enum mq_status mq_rows_add(struct mq_rows *rows, const struct mq_candidate *c, double best,
			   const struct mq_cluster *cluster, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_degrees degrees = mq_plan_degrees(c->plan);
	const char *recompute, *sync;
	char *text = NULL;
	size_t size = 0;
	struct mq_csv_writer w = { .file = open_memstream(&text, &size), .path = rows->path };

	mq_assert(w.file);
	common_choices(c->plan, &recompute, &sync);
	mq_csv_put(&w, "%s,%lu,%016lx", c->engine, (unsigned long)c->index, c->hash);
	long head = ftell(w.file);
	mq_csv_put(&w, "%s", mq_result_verdict(&c->result));
	mq_table_put(&w, MQ_TABLE_candidates, "step_time_s", &c->result);
	mq_csv_put(&w, "%g,%u,%.0u,%.0u,%.0u,%u,%s,%s,%g,%s,%.0u,%.0u,%u,%s,%s", best, degrees.n_devices, degrees.dp,
		   degrees.tp, degrees.pp, c->plan->micro_batches, mq_pipeline_name(c->plan->pipeline), recompute,
		   c->plan->engine_objective, mq_plan_describe(c->plan, cluster, &scratch), degrees.cp, degrees.ep,
		   c->plan->virtual, sync, c->runs_in);
	mq_assert(w.column == mq_table[MQ_TABLE_candidates].n);
	enum mq_status status = mq_csv_end_row(&w, err);
	fclose(w.file);
	if (status == MQ_OK)
		status = emit(rows, text, size, (size_t)head, err);
	free(text);
	return status;
}

enum mq_status mq_rows_close(struct mq_rows *rows, struct mq_err *err)
{
	if (!rows->file)
		return MQ_OK;
	FILE *file = rows->file;
	bool bad = rows->at < rows->old_size && ftruncate(fileno(file), (off_t)rows->at);
	bad |= ferror(file) != 0;
	rows->file = NULL;
	if (fclose(file) || bad)
		return cannot_write(rows->path, err);
	return MQ_OK;
}

/* ---- learning.csv ------------------------------------------------------------------------------- */

void mq_notes_add(struct mq_notes *notes, const char *engine, uint64_t index, const char *quantity, double value)
{
	if (!notes->path || notes->failed)
		return;
	if (!notes->file) {
		notes->file = fopen(notes->path, "w");
		if (notes->file)
			fprintf(notes->file, "%s\n", mq_table[MQ_TABLE_learning].header);
	}
	struct mq_csv_writer w = { .file = notes->file, .path = notes->path };
	if (notes->file)
		mq_csv_row(&w, "%s,%lu,%s,%g", engine, (unsigned long)index, quantity, value);
	notes->failed = !notes->file || w.error;
}

enum mq_status mq_notes_close(struct mq_notes *notes, struct mq_err *err)
{
	FILE *file = notes->file;

	notes->file = NULL;
	if (file && fclose(file))
		notes->failed = true;
	return notes->failed ? cannot_write(notes->path, err) : MQ_OK;
}

/* ---- evaluations.csv -------------------------------------------------------------------------- */

/* Check sum of a row of evaluations.csv, over its cells as text. It finds damage and edits by mistake; it does not
 * protect against forgery. */
static uint64_t check_sum(uint64_t context, uint64_t hash, const struct mq_result *r)
{
	struct mq_result copy = *r;
	uint64_t sum = mq_hash(context, &hash, sizeof(hash));
	char text[32];

	sum = mq_hash(sum, mq_verdict_name(r->verdict), strlen(mq_verdict_name(r->verdict)));
	for (uint32_t i = 0; i < mq_n_result_columns + MQ_N_LINK_CLASSES; i++) {
		double x = i < mq_n_result_columns ? *mq_result_number(&copy, &mq_result_column[i]) :
						     r->link_s[i - mq_n_result_columns];
		int n = isnan(x) ? 0 : snprintf(text, sizeof(text), "%.9g", x);

		sum = mq_hash(mq_hash(sum, text, (uint64_t)n), ",", 1);
	}
	sum = mq_hash(sum, &r->memory_device, sizeof(r->memory_device));
	sum = mq_hash(sum, &r->n_simulated, sizeof(r->n_simulated));
	sum = mq_hash(sum, r->bottleneck, strlen(r->bottleneck) + 1);
	return mq_hash(sum, r->message, strlen(r->message) + 1);
}

static void cache_put(struct mq_cache *cache, uint64_t hash, const struct mq_result *result)
{
	uint32_t before = cache->map.n, at = mq_map_add(&cache->map, hash);

	if (at == before)
		MQ_PUSH(cache->arena, cache->result, at, cache->room, result);
	else
		cache->result[at] = result;
}

const struct mq_result *mq_cache_find(const struct mq_cache *cache, uint64_t hash)
{
	uint32_t at = mq_map_find(&cache->map, hash);

	return at == MQ_NONE ? NULL : cache->result[at];
}

static enum mq_status read_row(const struct mq_csv *csv, uint32_t row, struct mq_cache *cache, struct mq_err *err)
{
	struct mq_result *r = mq_arena_alloc(cache->arena, sizeof(*r));
	const char *verdict = mq_csv_word(csv, row, "verdict");
	uint64_t hash = strtoull(mq_csv_word(csv, row, "plan_hash"), NULL, 16);
	double device, simulated;
	bool good = true;

	r->verdict = (enum mq_verdict)MQ_ENUM_FIND(mq_verdict_name, MQ_N_VERDICTS, verdict);
	for (uint32_t i = 0; i < mq_n_result_columns; i++)
		good &= mq_csv_f64(csv, row, mq_csv_column(csv, mq_result_column[i].name), NAN,
				   mq_result_number(r, &mq_result_column[i]));
	for (uint32_t i = 0; i < MQ_N_LINK_CLASSES; i++) {
		char name[48];

		snprintf(name, sizeof(name), "exposed_%s_s", mq_link_class_name(i));
		good &= mq_csv_f64(csv, row, mq_csv_column(csv, name), 0, &r->link_s[i]);
	}
	good &= mq_csv_f64(csv, row, mq_csv_column(csv, "memory_device"), 0, &device);
	good &= mq_csv_f64(csv, row, mq_csv_column(csv, "n_simulated"), 0, &simulated);
	if (r->verdict == MQ_VERDICT_CRASH)
		return MQ_OK;
	if (!good || r->verdict == MQ_N_VERDICTS || !(device >= 0 && device <= UINT32_MAX) ||
	    !(simulated >= 0 && simulated <= UINT32_MAX))
		return mq_bad(err, "%s:%u: a broken row; remove the file and run again", csv->path, csv->line[row]);
	r->memory_device = (uint32_t)device;
	r->n_simulated = (uint32_t)simulated;
	snprintf(r->bottleneck, sizeof(r->bottleneck), "%s", mq_csv_word(csv, row, "bottleneck"));
	snprintf(r->message, sizeof(r->message), "%s", mq_csv_word(csv, row, "message"));
	if (strtoull(mq_csv_word(csv, row, "check"), NULL, 16) != check_sum(cache->context, hash, r))
		return mq_bad(err,
			      "%s:%u: the row does not match its check sum: it was edited or "
			      "damaged; remove the file and run again",
			      csv->path, csv->line[row]);
	cache_put(cache, hash, r);
	return MQ_OK;
}

static const char *header_of(struct mq_arena *arena)
{
	const char *text = "context,plan_hash,verdict";

	for (uint32_t i = 0; i < mq_n_result_columns; i++)
		text = mq_arena_printf(arena, "%s,%s", text, mq_result_column[i].name);
	for (uint32_t i = 0; i < MQ_N_LINK_CLASSES; i++)
		text = mq_arena_printf(arena, "%s,exposed_%s_s", text, mq_link_class_name(i));
	return mq_arena_printf(arena, "%s,memory_device,n_simulated,bottleneck,message,check\n", text);
}

enum mq_status mq_cache_open(struct mq_cache *cache, const char *dir, uint64_t context, struct mq_arena *arena,
			     struct mq_err *err)
{
	struct mq_csv csv;
	char *text, wanted[24];
	size_t size;

	*cache = (struct mq_cache){ .arena = arena, .context = context };
	mq_map_init(&cache->map, arena, 256);
	if (!dir)
		return MQ_OK;
	cache->path = mq_arena_printf(arena, "%s/evaluations.csv", dir);
	MQ_TRY(open_lines(cache->path, arena, &cache->file, &text, &size, err));
	const char *header = header_of(arena);
	if (size && strncmp(text, "context,plan_hash,", 18))
		return mq_bad(err, "%s: not a file of this program; choose another -o, or remove it", cache->path);
	if (strncmp(text, header, strlen(header))) { /* of another version: `context` would reject its rows anyway */
		if (ftruncate(fileno(cache->file), 0) && errno != EINVAL)
			return cannot_write(cache->path, err);
		fputs(header, cache->file);
		return fflush(cache->file) ? cannot_write(cache->path, err) : MQ_OK;
	}
	MQ_TRY(mq_csv_load(cache->path, arena, &csv, err));
	snprintf(wanted, sizeof(wanted), "%016" PRIx64, context);
	for (uint32_t row = 0; row < csv.n_rows; row++)
		if (!strcmp(mq_csv_word(&csv, row, "context"), wanted))
			MQ_TRY(read_row(&csv, row, cache, err));
		else
			cache->n_others++;
	return MQ_OK;
}

enum mq_status mq_cache_add(struct mq_cache *cache, uint64_t hash, const struct mq_result *result, struct mq_err *err)
{
	struct mq_csv_writer w = { .file = cache->file, .path = cache->path };
	struct mq_result *copy = mq_arena_alloc(cache->arena, sizeof(*copy));

	*copy = *result;
	cache_put(cache, hash, copy);
	/* A crash may be the machine's fault, so it is not kept: the next run judges the plan again. */
	if (!cache->file || copy->verdict == MQ_VERDICT_CRASH)
		return MQ_OK;
	mq_csv_put(&w, "%016lx,%016lx,%s", cache->context, hash, mq_verdict_name(copy->verdict));
	for (uint32_t i = 0; i < mq_n_result_columns; i++)
		mq_csv_put_f64(&w, *mq_result_number(copy, &mq_result_column[i]));
	for (uint32_t i = 0; i < MQ_N_LINK_CLASSES; i++)
		mq_csv_put_f64(&w, copy->link_s[i]);
	mq_csv_put(&w, "%u,%u,%s,%s,%016lx", copy->memory_device, copy->n_simulated, copy->bottleneck, copy->message,
		   check_sum(cache->context, hash, copy));
	return mq_csv_end_row(&w, err);
}

enum mq_status mq_cache_close(struct mq_cache *cache, struct mq_err *err)
{
	FILE *file = cache->file;

	cache->file = NULL;
	if (!file)
		return MQ_OK;
	bool bad = ferror(file) != 0;
	return fclose(file) || bad ? cannot_write(cache->path, err) : MQ_OK;
}
