/*
 * test_ini.c - job files: what is written is read back whatever it is, lines of any length, what is refused.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ini.h"

enum { MOST = 16 };

struct heard {
	struct mq_ini_item item[MOST];
	uint32_t n;
};

static enum mq_status take(void *context, const struct mq_ini_item *item, struct mq_err *err)
{
	struct heard *heard = context;

	if (!strcmp(item->key, "stop"))
		return mq_fail(err, MQ_EINPUT, "stopped");
	assert_true(heard->n < MOST);
	heard->item[heard->n++] = *item;
	return MQ_OK;
}

static enum mq_status read_text(const char *text, size_t size, struct mq_arena *arena, struct heard *heard,
				struct mq_err *err)
{
	char path[] = "/tmp/test_ini.XXXXXX";
	int fd = mkstemp(path);

	assert_int_equal(write(fd, text, size), (ssize_t)size);
	close(fd);
	*heard = (struct heard){ .n = 0 };
	enum mq_status status = mq_ini_read(path, arena, take, heard, err);
	unlink(path);
	return status;
}

static void expect(const struct mq_ini_item *item, const char *section, const char *key, const char *value,
		   uint32_t line)
{
	assert_string_equal(item->section, section);
	assert_string_equal(item->key, key);
	assert_string_equal(item->value, value);
	assert_int_equal(item->line, line);
}

static void lines_are_read(void **state)
{
	static const char text[] = "\xef\xbb\xbf; a comment\n# another\n\n a = 1 \r\nb: x = y ; why\nc =\n"
				   "d = p;q\ne = \"a;\\n \\\"b\\\"\" ; quoted\n[about]\nf = true\ng = \"true\"";
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	struct heard h;

	if (read_text(text, sizeof(text) - 1, &arena, &h, &err))
		fail_msg("%s", err.text);
	assert_int_equal(h.n, 7);
	expect(&h.item[0], "", "a", "1", 4);
	expect(&h.item[1], "", "b", "x = y", 5);
	expect(&h.item[2], "", "c", "", 6);
	expect(&h.item[3], "", "d", "p;q", 7);
	expect(&h.item[4], "", "e", "a;\n \"b\"", 8);
	expect(&h.item[5], "about", "f", "true", 10);
	expect(&h.item[6], "about", "g", "true", 11);
	assert_false(h.item[5].quoted);
	assert_true(h.item[6].quoted);
	mq_arena_fini(&arena);
}

static void what_is_written_is_read(void **state)
{
	static const char *const values[] = { "plain", "",   " ends ", "a\nengine = exec:rm", "\r\t\\", "\"x\"",
					      "x ;y",  ";x", "true",   "a=b:c,d;e",           "\\n",    "#" };
	struct mq_arena arena = MQ_ARENA_INIT;
	enum { N = sizeof(values) / sizeof(*values) };
	struct mq_err err = MQ_ERR_INIT;
	struct heard h;
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fputs("; ", f);
	mq_ini_put_value(f, "in a comment\nx = y");
	fputc('\n', f);
	for (int i = 0; i < N; i++)
		mq_ini_put(f, "key", values[i]);
	fclose(f);
	if (read_text(text, size, &arena, &h, &err))
		fail_msg("%s", err.text);
	assert_int_equal(h.n, N);
	for (uint32_t i = 0; i < N; i++)
		expect(&h.item[i], "", "key", values[i], i + 2);
	free(text);
	mq_arena_fini(&arena);
}

static void long_lines_are_read(void **state)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = MQ_ERR_INIT;
	const size_t n = 3000000;
	char *text = malloc(n + 8);
	struct heard h;

	strcpy(text, "k = ");
	memset(text + 4, 'x', n);
	memcpy(text + 4 + n, "\nz=1", 4);
	if (read_text(text, n + 8, &arena, &h, &err))
		fail_msg("%s", err.text);
	assert_int_equal(h.n, 2);
	assert_int_equal(strlen(h.item[0].value), n);
	expect(&h.item[1], "", "z", "1", 2);
	free(text);
	mq_arena_fini(&arena);
}

static void what_is_no_job_file_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "a = 1\nno sign\n", ":2: not `key = value`" },
		{ "= 1\n", ":1: not `key = value`" },
		{ "a = \"b\n", ":1: the value of a begins" },
		{ "a = \"b\" c\n", "does not end" },
		{ "a = 1\nstop = 1\n", "stopped" },
	};
	struct mq_arena arena = MQ_ARENA_INIT;
	struct heard h;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct mq_err err = MQ_ERR_INIT;

		assert_int_equal(read_text(bad[i].text, strlen(bad[i].text), &arena, &h, &err), MQ_EINPUT);
		if (!strstr(err.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", err.text, bad[i].says);
	}
	struct mq_err err = MQ_ERR_INIT;
	assert_int_equal(read_text("a = \0", 5, &arena, &h, &err), MQ_EINPUT);
	assert_int_equal(mq_ini_read("/dev/zero", &arena, take, &h, &err), MQ_EINPUT);
	assert_int_equal(mq_ini_read("/nowhere", &arena, take, &h, &err), MQ_EINPUT);
	mq_arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_read),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(long_lines_are_read),
		cmocka_unit_test(what_is_no_job_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
