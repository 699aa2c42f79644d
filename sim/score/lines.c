/* lines.c - tables to read and lines of summaries to write, see score.h. */
#include "base/paths.h"
#include "score/score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char mq_score_summary_header[] = "kind,table,rows,refused,mean,median,p90,bias,spearman,regret";

enum mq_status mq_score_files(const char *input, struct mq_arena *arena, const char ***files, struct mq_err *err)
{
	struct stat st;

	if (stat(input, &st))
		return mq_fail(err, MQ_EINPUT, "%s: cannot open: %m; give a CSV table or a folder of them", input);
	if (!S_ISDIR(st.st_mode)) {
		*files = mq_arena_array(arena, 2, const char *);
		(*files)[0] = input;
		return MQ_OK;
	}
	uint32_t n;
	*files = mq_folder_names(input, "", ".csv", arena, &n);
	if (!*files)
		return mq_fail(err, MQ_EINPUT, "%s: cannot read the folder: %m", input);
	for (uint32_t i = 0; i < n; i++)
		(*files)[i] = mq_arena_printf(arena, "%s/%s", input, (*files)[i]);
	return n ? MQ_OK : mq_fail(err, MQ_EINPUT, "%s: no *.csv file in this folder", input);
}

const char *mq_score_stem(const char *path, struct mq_arena *arena)
{
	const char *slash = strrchr(path, '/');
	char *name = mq_arena_strdup(arena, slash ? slash + 1 : path);
	char *dot = strrchr(name, '.');

	if (dot && dot != name)
		*dot = '\0';
	return name;
}

void mq_score_put_line(struct mq_csv_writer *w, const struct mq_score_line *line)
{
	mq_csv_row(w, "%s,%s,%u,%u,%g,%g,%g,%g,%g,%g", line->kind, line->table, line->stats.n, line->refused,
		   line->stats.mean, line->stats.median, line->stats.p90, line->stats.bias, line->spearman,
		   line->regret);
}

void mq_score_print_header(void)
{
	printf("%-40s %6s %8s %7s %7s %7s %7s %6s %7s\n", "table", "rows", "refused", "mean%", "median%", "p90%",
	       "bias%", "rank", "regret");
}

static void print_cell(double value, double scale, int width, int digits)
{
	if (isnan(value))
		printf(" %*s", width, "-");
	else
		printf(" %*.*f", width, digits, value * scale);
}

void mq_score_print_line(const struct mq_score_line *line)
{
	printf("%-40s %6u %8u", line->table, line->stats.n, line->refused);
	print_cell(line->stats.mean, 100, 7, 2);
	print_cell(line->stats.median, 100, 7, 2);
	print_cell(line->stats.p90, 100, 7, 2);
	print_cell(line->stats.bias, 100, 7, 2);
	print_cell(line->spearman, 1, 6, 2);
	print_cell(line->regret, 1, 7, 3);
	printf("\n");
}

static bool listed(const char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

void mq_score_unused(const struct mq_csv *csv, const char *const *needed, const char *const *known)
{
	static const char *const told[] = { "source", "note", NULL };
	const char *before = "columns not used:";

	for (uint32_t c = 0; c < csv->n_columns; c++)
		if (!listed(needed, csv->header[c]) && !listed(known, csv->header[c]) &&
		    !listed(told, csv->header[c])) {
			if (*before == 'c')
				printf("%s: ", csv->path);
			printf("%s %s", before, csv->header[c]);
			before = ",";
		}
	if (*before == ',')
		putchar('\n');
}
