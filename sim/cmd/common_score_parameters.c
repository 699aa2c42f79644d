/*
 * common_score_parameters.c - `score --parameters`: the field tables of calibrations as Markdown, so that
 * platforms/calib/README.md says what the program reads.
 */
#include "cmd/score.h"

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

void mq_score_print_parameters(void)
{
	print_fields("Device types", mq_calib_device_fields());
	print_fields("Link classes", mq_calib_link_fields());
}
