/* ranks.h - one search's simulations on several machines: under mpirun or Slurm the first rank searches, the others
 * judge plans for it.
 *
 * Ranks exchange files in DIR/ranks, a folder that all share: N.ask holds plan number N (from 1), N.got its result;
 * both are written atomically. A rank that judges plan N locks byte N of DIR/ranks/claims; the first rank locks byte 0
 * as long as it lives. Locks end with their process, so another rank judges a lost rank's plan. No rank calls MPI,
 * whose waiting calls spin a core. Results do not depend on which rank judged. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_RANKS_H
#define MQ_SESSION_RANKS_H

#include "session/session.h"

struct mq_ranks;

/* This process's rank, and *n ranks, from the environment of Open MPI, Slurm or MPICH; NULL: a single process. */
const char *mq_rank_of_many(uint32_t *n);

/* First rank: opens the folder; closes and removes it. */
enum mq_status mq_ranks_open(struct mq_session *session, const char *dir, struct mq_arena *arena,
			     struct mq_ranks **ranks, struct mq_err *err);
void mq_ranks_close(struct mq_ranks *ranks);
/* First rank: mq_session_judge and mq_pool_until for all ranks. */
enum mq_status mq_ranks_judge(struct mq_ranks *ranks, const struct mq_plan *const *plan, uint32_t n,
			      struct mq_result *result, struct mq_err *err);
void mq_ranks_until(struct mq_ranks *ranks, double left_s);

/* Other ranks: judge plans until the first rank ends. MQ_ETIME: it never appeared. */
enum mq_status mq_ranks_serve(struct mq_session *session, const char *dir, struct mq_err *err);

#endif
