/* fuzz_network.c - networks of machines to import: what is read are keys that the generator takes, for as many machines
 * as its leaves have, the rest has a reason. SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "hardware/platform/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_machine *machine = mq_arena_array(&arena, 1, struct mq_machine);
	const char *keys;
	uint32_t machines;
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;
	char *text = mq_arena_array(&arena, size + 1, char);

	memcpy(text, data, size);
	mq_platform_spec_init(&spec);
	if (mq_network_read(text, "network", "T4", machine, &keys, &machines, &arena, &err) != MQ_OK) {
		mq_assert(err.text[0]);
	} else if (machines && machines <= 65536) {
		if (mq_platform_spec_parse(keys, &spec, &arena, &err) != MQ_OK)
			fprintf(stderr, "%s\n", err.text);
		mq_assert(!err.text[0] && spec.nodes == machines && spec.leaves);
	}
	mq_arena_fini(&arena);
	return 0;
}
