/* diff.c - `maquette diff PLAN_A PLAN_B`: why one plan beats another, term by term.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "session/pages/page.h"
#include "session/search_run.h"
#include "session/trust.h"

struct options {
	struct mq_asked asked;
	const char *path[2];
	bool json;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg options[] = {
	ROW(TEXT, "PLAN_A", path[0], NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "PLAN_B", path[1], NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(FLAG, "json", json, NULL, "print both plans' numbers as JSON"),
	{ .type = MQ_ARG_END },
};

static void put_json(const struct options *o, struct mq_session *session, const struct mq_plan *plan,
		     const struct mq_result *result, const struct mq_session_trust *trust)
{
	for (int i = 0; i < 2; i++) {
		const struct mq_result *r = &result[i];

		mq_json_put_after(stdout, i ? ",\n {\"file\": " : "[\n {\"file\": ", o->path[i]);
		mq_json_add_text(stdout, "plan", mq_plan_describe(&plan[i], session->cluster, &session->arena));
		mq_json_add_text(stdout, "verdict", mq_result_verdict(r));
		mq_json_add_numbers(stdout, MQ_TABLE_diff_json, "step_time_s", r);
		for (int c = 0; c < MQ_N_LINK_CLASSES && r->verdict == MQ_VERDICT_OK; c++)
			if (r->link_s[c] > 0)
				printf(", \"exposed_%s_s\": %.9g", mq_link_class_name(c), r->link_s[c]);
		fputs(", \"trust\": ", stdout);
		mq_trust_json(&trust[i], stdout);
		mq_json_add_f64(stdout, "probability_faster", mq_session_faster(session, &trust[i], &trust[!i]));
		putchar('}');
	}
	puts("\n]");
}

/* The question of a plan's folder as lines "key = value"; "": none. */
static enum mq_status question_of(const char *plan, struct mq_arena *arena, const char **lines, struct mq_err *err)
{
	MQ_FREED struct mq_words words = { NULL, 0 };
	const char *slash = strrchr(plan, '/');
	const char *dir = slash ? mq_arena_printf(arena, "%.*s", (int)(slash - plan), plan) : ".";
	struct mq_asked asked;

	*lines = "";
	if (access(mq_arena_printf(arena, "%s/run.ini", dir), R_OK))
		return MQ_OK;
	MQ_TRY(mq_asked_of_folder(dir, 0, NULL, arena, &asked, err));
	FILE *file = mq_words_open(&words);
	mq_args_print(mq_question_args, &asked, MQ_ARG_EFFORT | MQ_ARG_CONSTRAINT, file);
	fclose(file);
	*lines = mq_arena_strdup(arena, words.text);
	return MQ_OK;
}

/* Prints a note if the plans have different questions: both are judged by one of these. */
static enum mq_status say_questions(const struct options *o, struct mq_arena *arena, struct mq_err *err)
{
	const char *lines[2], *differs = "";

	for (int i = 0; i < 2; i++)
		MQ_TRY(question_of(o->path[i], arena, &lines[i], err));
	for (int i = 0; i < 2 && *lines[0] && *lines[1]; i++)
		for (const char *line = lines[i]; *line; line += strcspn(line, "\n") + 1) {
			const char *one = mq_arena_printf(arena, "\n%.*s\n", (int)strcspn(line, "\n"), line);

			if (!strstr(mq_arena_printf(arena, "\n%s", lines[!i]), one))
				differs = mq_arena_printf(arena, "%s%s%c: %.*s", differs, *differs ? "; " : "", 'A' + i,
							  (int)strlen(one) - 2, one + 1);
		}
	if (*differs)
		fprintf(stderr, "note: the plans were found for different questions (%s); both are judged by one\n",
			differs);
	return MQ_OK;
}

static enum mq_status compare(const struct options *o, struct mq_session *session, struct mq_err *err)
{
	struct mq_plan plan[2];
	const struct mq_plan *const list[2] = { &plan[0], &plan[1] };
	struct mq_result result[2];
	struct mq_session_trust trust[2];

	for (int i = 0; i < 2; i++)
		MQ_TRY(mq_plan_load(o->path[i], session->model, session->cluster, &session->arena, &plan[i], err));
	MQ_TRY(mq_session_judge(session, list, 2, result, err));
	for (int i = 0; i < 2; i++)
		if (result[i].verdict == MQ_VERDICT_CRASH)
			return mq_fail(err, MQ_ETIME, "%s: crash: %s", o->path[i], result[i].message);
	for (int i = 0; i < 2; i++)
		trust[i] = mq_session_trust(session, &plan[i], &result[i], &session->arena);
	if (o->json) {
		put_json(o, session, plan, result, trust);
		return MQ_OK;
	}
	for (int i = 0; i < 2; i++) {
		printf("%c: %s\n   %s\n", 'A' + i, o->path[i],
		       mq_plan_describe(&plan[i], session->cluster, &session->arena));
		if (result[i].verdict != MQ_VERDICT_OK)
			printf("   %s: %s\n", mq_verdict_name(result[i].verdict), result[i].message);
		else
			printf("   bottleneck: %s\n", result[i].bottleneck);
	}
	struct mq_scored a = { "A", &result[0] }, b = { "B", &result[1] };
	mq_explain(&a, &b, session->cluster, stdout);
	double by = result[1].step_time_s / result[0].step_time_s;
	if (result[0].verdict == MQ_VERDICT_OK && result[1].verdict == MQ_VERDICT_OK && by != 1)
		printf("%c wins by %.1f %%\n", by > 1 ? 'A' : 'B', 100 * (fmax(by, 1 / by) - 1));
	double p = mq_session_faster(session, &trust[0], &trust[1]);
	if (!isnan(p))
		printf("%s\n", mq_faster_text(p, "A", "B", &session->arena));
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct options o = { .json = false };
	MQ_CLOSED struct mq_session session = { .model = NULL };
	const struct mq_args args = {
		.table = { { mq_question_args, &o.asked }, { options, &o } },
		.args_doc = "PLAN_A PLAN_B",
		.doc = "Simulates two plans and says where their times differ: compute, exposed communication per class "
		       "of link, bubble, memory.",
	};

	mq_asked_init(&o.asked);
	MQ_TRY(mq_args_parse_plan(&args, &o, sizeof(o), &o.asked, &o.path[0], argc, argv, &arena, err));
	if (!o.path[1])
		return mq_bad(err, "give two plan files: maquette diff PLAN_A PLAN_B -m ... -p ...");
	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err));
	mq_session_note(&session, stderr);
	MQ_TRY(say_questions(&o, &arena, err));
	return compare(&o, &session, err);
}

MQ_DEFINE_COMMAND(diff, "why one plan beats another, by term");
