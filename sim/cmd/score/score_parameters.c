/*
 * score_parameters.c - `score --parameters`: the field tables of calibrations and the numbers of
 * the training software as Markdown, so that platforms/calib/README.md says what the program reads.
 */
#include "cmd/score/score_runs.h"

#include <math.h>
#include <stdio.h>

static void print_fields(const char *title, const struct mq_calib_field *f)
{
	printf("### %s\n\n| parameter | unit | default | range | meaning |\n"
	       "| --- | --- | --- | --- | --- |\n", title);
	for (; f->name; f++) {
		printf("| `%s` | %s | ", f->name, f->unit);
		if (isnan(f->initial))
			printf("none");
		else
			printf("%g", f->initial);
		printf(" | %g to %g | %s |\n", f->min, f->max, f->help);
	}
	printf("\n");
}

static void print_software(const struct mq_csv *stacks)
{
	static const char *const columns[] = { "stack", "traffic", "scores", "traffic_32", "cast_B", "accum_B",
					       "update_B", "attention", "host", "about" };

	printf("### Training software\n\n"
	       "What `../stacks.csv` says in numbers, fitted with the training runs; 1 is no statement, nor is a blank.\n\n"
	       "| software | element-wise traffic / fused minimum | that of stored scores | in 32 bit / in 16 bit | "
	       "casts, B | accumulation, B | update, B | its attention / the device's | its host "
	       "time per kernel / the device's | about |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (uint32_t r = 0; r < stacks->n_rows; r++) {
		for (size_t c = 0; c < sizeof(columns) / sizeof(*columns); c++)
			printf("| %s ", mq_csv_text(stacks, r, mq_csv_column(stacks, columns[c])));
		printf("|\n");
	}
	printf("\n");
}

enum mq_status mq_score_print_parameters(const struct mq_score_options *options, struct mq_err *err)
{
	struct mq_score_tables tables;

	MQ_TRY(mq_score_tables_load(options, &tables, err));
	print_fields("Device types", mq_calib_device_fields());
	print_fields("Link classes", mq_calib_link_fields());
	print_software(&tables.stacks);
	return MQ_OK;
}
