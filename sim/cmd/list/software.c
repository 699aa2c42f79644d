/* software.c - see list.h. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd/list/list.h"
#include "maquette/software.h"

static void print_value(const struct mq_software_field *f, const struct mq_software *s)
{
	char text[64];

	if (f->opt.type == MQ_OPT_BOOL)
		printf("%.0f", mq_opt_value(&f->opt, s));
	else
		printf("%s", mq_opt_text(&f->opt, s, 6, text));
}

static void print_note(const struct mq_software_field *f, const struct mq_software_note *n, const char *own)
{
	if (n->evidence == MQ_ASSUMED) {
		printf("%s: %s\n", n->source ? n->source : "default", f->opt.help);
		return;
	}
	printf("%s", mq_evidence_name(n->evidence));
	if (!isnan(n->low))
		printf(" (%g to %g)", n->low, n->high);
	printf(": %s", n->source);
	if (n->rows)
		printf(" [%s]", n->rows);
	if (strcmp(n->file, own))
		printf(" (%s)", n->file);
	printf("\n");
}

static void print_bits(const char *label, uint32_t bits, const char *(*name_of)(int), int n)
{
	printf("  %-12s", label);
	for (int i = 0; i < n; i++)
		if (bits & 1u << i)
			printf(" %s", name_of(i));
	printf("\n");
}
#define PRINT_BITS(label, bits, name_of, n) print_bits(label, bits, (const char *(*)(int))(name_of), n)

static void print_space(const struct mq_software_space *s)
{
	printf("plans it runs\n");
	PRINT_BITS("schedules", s->schedules, mq_pipeline_name, MQ_N_PIPELINES);
	PRINT_BITS("sync", s->syncs, mq_sync_name, MQ_N_SYNCS);
	if (~s->sync_split & s->syncs)
		PRINT_BITS("sync_split", s->sync_split & s->syncs, mq_sync_name, MQ_N_SYNCS);
	PRINT_BITS("recompute", s->recomputes, mq_recompute_name, MQ_N_RECOMPUTES);
	PRINT_BITS("dtypes", s->dtypes, mq_dtype_name, MQ_N_DTYPES);
	printf("  %-12s %s\n", "models", mq_models_name((enum mq_models)s->models));
	PRINT_BITS("parts", s->parts, mq_model_part_name, MQ_N_MODEL_PARTS);
	PRINT_BITS("switches", s->switches, mq_switch_name, MQ_N_SWITCHES);
	if (s->tensor) {
		printf("  %-12s%s%s\n", "norms", s->sequence & MQ_WHOLE ? " whole" : "",
		       s->sequence & MQ_SPLIT ? " split along the sequence" : "");
		printf("  %-12s%s%s\n", "vocabulary", s->vocab & MQ_WHOLE ? " whole" : "",
		       s->vocab & MQ_SPLIT ? " split" : "");
	}
	printf("  %-12s%s%s\n  %-12s", "devices", s->gpu ? " gpu" : "", s->cpu ? " cpu" : "", "also");
	for (const struct mq_space_flag *f = mq_space_flags(); f->name; f++)
		if (mq_space_has(s, f))
			printf(" %s", f->name);
	printf("\n");
}

enum mq_status mq_list_software(const char *dir, const char *text, struct mq_arena *arena, struct mq_err *err)
{
	struct mq_software_record record;

	MQ_TRY(mq_software_load(dir, text, arena, &record, err));
	printf("%s: %s\n", record.software.name, record.software.about);
	if (record.inherits)
		printf("inherits %s\n", record.inherits);
	if (record.software.target)
		printf("export --to %s (%s)\n", record.software.target, record.software.release);
	for (int group = 0; group < MQ_N_SW_GROUPS; group++) {
		printf("%s\n", mq_software_group_name(group));
		for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++) {
			if ((int)f->group != group)
				continue;
			printf("  %-18s ", f->opt.name);
			print_value(f, &record.software);
			if (strcmp(f->unit, "word") && strcmp(f->unit, "text") && strcmp(f->unit, "0/1") &&
			    strcmp(f->unit, "1"))
				printf(" %s", f->unit);
			printf("  ");
			print_note(f, &record.note[f - mq_software_fields()], record.software.file);
		}
	}
	print_space(&record.software.runs);
	return MQ_OK;
}

static void print_calib(const char *title, const struct mq_calib_field *f)
{
	printf("### %s\n\n| parameter | unit | default | range | meaning |\n"
	       "| --- | --- | --- | --- | --- |\n",
	       title);
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

static void print_words(const char *words)
{
	for (; *words; words++)
		putchar(*words == '|' ? ' ' : *words);
}

static void print_software(void)
{
	const struct mq_software *plain = mq_software_plain();

	printf("### Training software\n\n| field | group | unit | default | range | meaning |\n"
	       "| --- | --- | --- | --- | --- | --- |\n");
	for (const struct mq_software_field *f = mq_software_fields(); f->opt.type != MQ_OPT_END; f++) {
		printf("| `%s` | %s | %s | ", f->opt.name, mq_software_group_name(f->group), f->unit);
		print_value(f, plain);
		printf(" | ");
		if (f->opt.type == MQ_OPT_F64 || f->opt.type == MQ_OPT_U32)
			printf("%g to %g", f->opt.min, f->opt.max);
		else if (f->opt.type == MQ_OPT_CHOICE)
			print_words(f->opt.text);
		printf(" | %s |\n", f->opt.help);
	}
	printf("\n");
}

void mq_list_parameters(void)
{
	print_calib("Device types", mq_calib_device_fields());
	print_calib("Link classes", mq_calib_link_fields());
	print_software();
}
