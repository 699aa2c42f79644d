/* asked.h - the options of a question, as given. One table (asked.c) defines the options of simulating commands, the
 * lines of job files, the keys of studies, and the messages to worker processes.
 *
 * To add a training option: a field here or in struct mq_train, a row in asked.c, and the code that uses it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SOFTWARE_ASKED_H
#define MQ_SOFTWARE_ASKED_H

#include "base/args.h"
#include "maquette/software.h"

/* Borrows texts from the command line. */
struct mq_asked {
	const char *model, *platform, *devices, *software, *expert_load, *sequence_packing, *start;
	const char *tokens_per_batch; /* in a session NULL: it is in train.batch */
	struct mq_list calib, change, fix, max, trust_with;
	struct mq_train train; /* without values in lists or files, see mq_asked_train */
	uint32_t seq, jobs;
	uint64_t seed;
	double timeout_s, simulation_s;
	bool no_interference, no_fold, time_oom, debug_check;
	bool batch_given, dtype_given, grad_given; /* without dtype, mq_session_open sets it */
};

extern const struct mq_arg mq_question_args[];
void mq_asked_init(struct mq_asked *asked);
/* The default --simulation-time, 20 s: beyond it, users prefer an error to waiting. */
void mq_asked_limit_simulation(struct mq_asked *asked);

/* Reads the training options, lists and files into the arena. If the type of reduced gradients is not given, the
 * software decides it. */
enum mq_status mq_asked_train(const struct mq_asked *asked, const struct mq_software *software, struct mq_arena *arena,
			      struct mq_train *train, struct mq_err *err);

#endif
