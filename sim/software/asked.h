/* asked.h - the options of a question, as they are given. One table (asked.c) is the options of the commands that
 * simulate, the lines of job files, the keys of studies, and what worker processes are told.
 *
 * To add a training option: a field here or in struct mq_train, a row in asked.c, and the code that uses it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SOFTWARE_ASKED_H
#define MQ_SOFTWARE_ASKED_H

#include "base/args.h"
#include "maquette/software.h"

/* Texts are borrowed from the command line. */
struct mq_asked {
	const char *model, *platform, *devices, *software, *expert_load, *sequence_packing, *start;
	const char *tokens_per_batch; /* of a session: NULL, it is in train.batch */
	struct mq_list calib, change, fix, max, trust_with;
	struct mq_train train; /* without what stands in a list or a file: mq_asked_train */
	uint32_t seq, jobs;
	uint64_t seed;
	double timeout_s, simulation_s;
	bool no_interference, no_fold, time_oom, debug_check;
	bool batch_given, dtype_given, grad_given; /* dtype: else mq_session_open fills it in */
};

extern const struct mq_arg mq_question_args[];
void mq_asked_init(struct mq_asked *asked);
/* Where no --simulation-time is said, a limit beyond which somebody who waits would rather hear of it: 20 s. */
void mq_asked_limit_simulation(struct mq_asked *asked);

/* The training options, read: lists and files into the arena. The software decides the type of reduced gradients
 * where it was not given. */
enum mq_status mq_asked_train(const struct mq_asked *asked, const struct mq_software *software, struct mq_arena *arena,
			      struct mq_train *train, struct mq_err *err);

#endif
