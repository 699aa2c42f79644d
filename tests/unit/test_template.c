/* Texts with places for values, and what is no such text. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/template.h"

#define UP "../../../../../../../../../../../../../../../.."

/* The text of a template where `yes` is "1" and `no` is empty; NULL: it is refused. */
static const char *filled(const char *form, struct mq_arena *arena)
{
	struct mq_template t = { .arena = arena };
	struct mq_err err = MQ_ERR_INIT;
	char dir[] = "/tmp/mq_template.XXXXXX";
	const char *text;

	assert_non_null(mkdtemp(dir));
	const char *path = mq_arena_printf(arena, "%s/form", dir);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(form, file);
	fclose(file);
	mq_template_set(&t, "yes", "%u", 1);
	mq_template_set(&t, "no", "%s", "");
	/* folders of the program are looked up from its own */
	enum mq_status status = mq_template_text(&t, mq_arena_printf(arena, "%s%s", UP, dir), "form", &text, &err);
	unlink(path);
	rmdir(dir);
	assert_true(status == MQ_OK || strstr(err.text, "a name without value, or a condition without"));
	return status == MQ_OK ? text : NULL;
}

static void values_and_parts(void **state)
{
	static const char *const cases[][2] = {
		{ "a {{yes}} b{{no}}c\n", "a 1 bc\n" },
		{ "a[[yes: {{yes}} [x]]][[no: {{yes}}]]b]]\n", "a 1 [x]b]]\n" },
		{ "[[no:x]]\n[[yes:y]]\n", "\ny\n" },
		{ "{{if yes}}\na\n{{else}}\nb\n{{end}}\nc\n", "a\nc\n" },
		{ "{{if no}}\na {{none}}\n{{else}}\n[[yes:b]]\n{{end}}\n", "b\n" },
		{ "{{none}}\n", NULL },
		{ "[[none:a]]\n", NULL },
		{ "[[yes:a\n]]\n", NULL },
		{ "[[no:a\n]]\n", NULL },
		{ "{{if none}}\n{{end}}\n", NULL },
		{ "{{if yes}}\na\n", NULL },
		{ "{{if yes}}\n{{if no}}\n{{end}}\n{{end}}\n", NULL },
		{ "{{end}}\n", NULL },
	};
	struct mq_arena arena = MQ_ARENA_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *text = filled(cases[i][0], &arena);

		if (!text || !cases[i][1])
			assert_true(text == cases[i][1]);
		else
			assert_string_equal(text, cases[i][1]);
	}
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values_and_parts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
