/*
 * fuzz_samples.c - timelines that maquette-replay measured, brought back from another node: calls, step time and
 * spread of whatever belongs to the schedule.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "fit/fit.h"

static const char schedule_text[] =
	"{\"maquette_schedule\":1,\"model\":\"m\",\"plan_hash\":\"1\",\"model_hash\":\"2\",\"devices\":["
	"{\"rank\":0,\"name\":\"a\",\"type\":\"T\"},{\"rank\":1,\"name\":\"b\",\"type\":\"T\"}],"
	"\"comms\":[{\"id\":0,\"purpose\":\"dp\",\"ranks\":[0,1]}],\"ops\":[\"x\"],\"works\":[],\"tasks\":4}\n"
	"{\"id\":0,\"device\":0,\"stream\":\"send\",\"kind\":\"send\",\"bytes\":64,\"dtype\":\"fp32\",\"peer\":1,\"channel\":0}\n"
	"{\"id\":1,\"device\":1,\"stream\":\"recv\",\"kind\":\"recv\",\"bytes\":64,\"dtype\":\"fp32\",\"peer\":0,\"channel\":0}\n"
	"{\"id\":2,\"device\":0,\"stream\":\"comm\",\"kind\":\"collective\",\"deps\":[0],\"coll\":\"all_reduce\","
	"\"dtype\":\"fp32\",\"bytes\":64,\"comm\":0}\n"
	"{\"id\":3,\"device\":1,\"stream\":\"comm\",\"kind\":\"collective\",\"deps\":[1],\"coll\":\"all_reduce\","
	"\"dtype\":\"fp32\",\"bytes\":64,\"comm\":0}\n";

static void use(const struct mq_measured *measured, struct mq_arena *arena)
{
	struct mq_observations observed = { 0 };
	struct mq_err err = MQ_ERR_INIT;
	uint32_t n_dropped;
	bool weak;
	enum mq_status status = mq_measured_calls(measured, arena, &observed, &err);

	fuzz_refused(status, &err);
	for (uint32_t i = 0; status == MQ_OK && i < observed.n; i++)
		mq_assert(observed.call[i].task < measured->schedule->n_tasks && observed.call[i].time.median >= 0);
	if (!measured->n_samples) /* a table without rows: who asks for steps looks first */
		return;
	mq_assert(mq_measured_step(measured, arena, &n_dropped, &weak).median >= 0);
	mq_assert(mq_measured_typical(measured, arena) < measured->n_samples);
	mq_measured_drift(measured, arena);
	mq_measured_interval(measured, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_measured measured = { .n_samples = 0 };
	struct mq_schedule *schedule;
	struct mq_err err = MQ_ERR_INIT;
	const char *path = fuzz_file((const uint8_t *)schedule_text, sizeof(schedule_text) - 1, "s.jsonl");

	if (mq_schedule_load(path, &arena, &schedule, &err) != MQ_OK)
		mq_bug(err.text, __FILE__, __LINE__);
	measured.schedule = schedule;
	enum mq_status status = mq_measured_add(&measured, fuzz_file(data, size, ".csv"), &arena, &err);
	fuzz_refused(status, &err);
	if (status == MQ_OK) {
		fuzz_refused(mq_measured_add(&measured, fuzz_file(data, size, ".csv"), &arena, &err), &err);
		use(&measured, &arena);
	}
	mq_arena_fini(&arena);
	return 0;
}
