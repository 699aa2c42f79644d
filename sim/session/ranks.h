/* ranks.h - simulations of one search on several machines: under mpirun or Slurm the first rank searches, the others
 * judge plans for it.
 *
 * They meet in DIR/ranks, a folder that all of them see: N.ask holds plan number N, N.got its result, written whole or
 * not at all. Whoever judges a plan has locked byte N of DIR/ranks/claims, and the first rank the byte before all of
 * them for as long as it lives; locks vanish with their process, so a lost rank's plan is judged by another. Nobody
 * calls MPI (a waiting call spins a core). Results do not depend on who found them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SESSION_RANKS_H
#define MQ_SESSION_RANKS_H

#include "session/session.h"

struct mq_ranks;

/* This process's rank, and how many there are, as Open MPI, Slurm and MPICH say it; NULL: alone. */
const char *mq_rank_of_many(uint32_t *n);

/* The first rank's side. Opens the folder; closes it and takes it away. */
enum mq_status mq_ranks_open(struct mq_session *session, const char *dir, struct mq_arena *arena,
			     struct mq_ranks **ranks, struct mq_err *err);
void mq_ranks_close(struct mq_ranks *ranks);
/* As mq_session_judge, with all ranks; `until` as mq_pool_until. */
enum mq_status mq_ranks_judge(struct mq_ranks *ranks, const struct mq_plan *const *plan, uint32_t n,
			      struct mq_result *result, struct mq_err *err);
void mq_ranks_until(struct mq_ranks *ranks, double left_s);

/* Another rank's side: judges until the first rank is gone. MQ_ETIME: it never came. */
enum mq_status mq_ranks_serve(struct mq_session *session, const char *dir, struct mq_err *err);

#endif
