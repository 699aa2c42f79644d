/* The words of launch scripts; worked out with bash. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/shell.h"

static void expect(const char *text, const char *want)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const char **word, *all = "";

	assert_int_equal(mq_shell_words(text, &arena, &word, &err), MQ_OK);
	for (; *word; word++)
		all = mq_arena_printf(&arena, "%s[%s]", all, *word);
	assert_string_equal(all, want);
	mq_arena_fini(&arena);
}

static void test_words(void **state)
{
	(void)state;
	expect("a \\\n b=c 'd e' \"f'g\" h\\ i # j\nk", "[a][d e][f'g][h i][k]");
	expect("x \"\" ''", "[x][][]");
	expect("N=8 --n $N --m=${N} \"${N}x\" '$N' $M ${M:-4} $((N*2))", "[--n][8][--m=8][8x][$N][$M][4][$((N*2))]");
}

static void test_arrays(void **state)
{
	(void)state;
	expect("A=( --x 1 \"--y z\" )\nB=\"--p 2 \\\n --q\"\nA+=(w)\nrun ${A[@]} \"${A[@]}\" $B \"$B\"",
	       "[run][--x][1][--y z][w][--x][1][--y z][w][--p][2][--q][--p 2  --q]");
	expect("A=1;A=${A}2\nexport C=$A\n$C", "[export][12]");
}

static void test_limits(void **state)
{
	char text[4096] = "A=xxxxxxxxxxxxxxxx\n";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const char **word;

	(void)state;
	for (int i = 0; i < 40; i++)
		strcat(text, "A=$A$A\n");
	assert_int_equal(mq_shell_words(text, &arena, &word, &err), MQ_EINPUT);
	assert_non_null(strstr(err.text, "more than 1048576 bytes"));
	expect("${ \" ' $( (", "[${ \" ' $( (]");
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
