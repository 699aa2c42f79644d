/* test_quantity.c - numbers with units as people write them. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "maquette/rng.h"

static void units_of_a_kind(void **state)
{
	static const struct {
		const char *text, *unit;
		double value;
	} good[] = {
		{ "400Gb/s", "GB/s", 50 },
		{ "50GB/s", "GB/s", 50 },
		{ "50 GB/s", "GB/s", 50 },
		{ "400 Gbps", "GB/s", 50 },
		{ "3.35TB/s", "GB/s", 3350 },
		{ "5300GBps", "TB/s", 5.3 },
		{ "200 Gbit/s", "GB/s", 25 },
		{ "80GB", "GB", 80 },
		{ "80GiB", "B", 85899345920. },
		{ "512MiB", "B", 536870912 },
		{ "2us", "s", 2e-6 },
		{ "1500ns", "us", 1.5 },
		{ "2\302\265s", "us", 2 },
		{ "5min", "s", 300 },
		{ "500ms", "s", .5 },
		{ "989TFLOPS", "Tflop/s", 989 },
		{ "1.3Pflop/s", "Tflop/s", 1300 },
		{ "$2.5", "$", 2.5 },
		{ "2.5$", "$", 2.5 },
		{ "20M", "$", 20e6 },
		{ "$20M", "$", 20e6 },
		{ "1.5k", "$", 1500 },
		{ "3M$", "$", 3e6 },
		{ "2.5USD", "$", 2.5 },
		{ "1.2kW", "W", 1200 },
		{ "300Wh", "kWh", .3 },
		{ "-1", "GB/s", -1 },
		{ "12.5", "GB/s", 12.5 },
	};
	static const char *const bad[][2] = {
		{ "400Gb", "GB/s" }, { "80GB/s", "GB" },      { "two", "s" },       { "", "s" },
		{ "5m", "s" },       { "1e400GB/s", "GB/s" }, { "$", "$" },         { "$2x", "$" },
		{ "2s s", "s" },     { " 5GB", "GB" },        { "5GB", "parsecs" }, { "nanGB", "GB" },
	};
	double v;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (!mq_parse_quantity(good[i].text, good[i].unit, &v))
			fail_msg("'%s' is no quantity in %s", good[i].text, good[i].unit);
		if (fabs(v - good[i].value) > 1e-12 * fabs(good[i].value))
			fail_msg("'%s' is %.15g %s", good[i].text, v, good[i].unit);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (mq_parse_quantity(bad[i][0], bad[i][1], &v))
			fail_msg("'%s' is taken for %g %s", bad[i][0], v, bad[i][1]);
}

static void names_say_units(void **state)
{
	assert_string_equal(mq_unit_of_name("nic_GBps"), "GB/s");
	assert_string_equal(mq_unit_of_name("memory_GB"), "GB");
	assert_string_equal(mq_unit_of_name("mem_bw_Bps"), "B/s");
	assert_string_equal(mq_unit_of_name("tflops"), "Tflop/s");
	assert_string_equal(mq_unit_of_name("price_per_h"), "$");
	assert_null(mq_unit_of_name("nodes"));
	assert_null(mq_unit_of_name("keep"));
}

/* Of up to 20 digits with a point anywhere, bit by bit what strtod reads; and what is no number, which leaves the value
 * as it was. */
static void plain_numbers_are_those_of_strtod(void **state)
{
	static const char *const bad[] = { "", ".", "1.2.3", "1,5", "12 ", "0x", "1e", "+-1", "123456789012345x" };
	struct mq_rng rng;
	double v;

	mq_rng_seed(&rng, 1);
	for (int i = 0; i < 100000; i++) {
		uint32_t n = 1 + mq_rng_below(&rng, 20), point = mq_rng_below(&rng, 22);
		char text[24] = "";

		for (uint32_t k = 0; k < n; k++) {
			strcat(text, k == point ? "." : "");
			strcat(text, (char[]){ (char)('0' + mq_rng_below(&rng, 10)), '\0' });
		}
		double want = strtod(text, NULL);
		if (!mq_parse_f64(text, &v) || memcmp(&v, &want, sizeof(v)))
			fail_msg("'%s' is read as %.17g", text, v);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		v = 7;
		if (mq_parse_f64(bad[i], &v) || memcmp(&v, &(double){ 7 }, sizeof(v)))
			fail_msg("'%s' is taken for %g", bad[i], v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(units_of_a_kind), cmocka_unit_test(names_say_units),
					    cmocka_unit_test(plain_numbers_are_those_of_strtod) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
