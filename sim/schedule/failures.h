/* failures.h - goodput of a job whose devices fail: how often to save checkpoints, and the share of time that trains.
 *
 * Each device fails at random once in `mtbf_h` hours (Poisson), so a job of n devices fails every M = mtbf / n: any
 * failure stops it. State is saved after every tau seconds of training, which then waits delta seconds. After a failure
 * the job restarts for R seconds, which may fail too, and repeats what was not saved. Training of T seconds then takes
 * (Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation Computer
 * Systems 22, 2006)
 *
 *     T_wall = M exp(R/M) (exp((tau + delta)/M) - 1) T/tau              goodput = T / T_wall
 *
 * least near tau = sqrt(2 delta M) (1 + sqrt(delta/2M)/3 + (delta/2M)/9) - delta, or M where delta >= 2 M. Saves come
 * between steps: of the whole numbers of steps next to that estimate, the one of better goodput is taken.
 *
 * A checkpoint is one copy of the weights in the training type and of the optimizer's state, whatever the number of
 * replicas. A save takes its bytes over the storage's `checkpoint_GBps`; training waits for the share `blocking` of
 * that time, and overlaps the rest. So saves are at least that rest apart, and a failure meanwhile loses that much
 * more. R is `restart_s` plus reading the checkpoint at the same speed.
 *
 * Not modelled: failures that repeat on one device, spares and elastic jobs, slow devices (hardware/change.h, jitter),
 * and storage that others use. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_FAILURES_H
#define MQ_SCHEDULE_FAILURES_H

#include "maquette/model.h"
#include "maquette/opt.h"

struct mq_failures {
	double mtbf_h;          /* of one device with its share of host, network and software; 0 = not asked */
	double restart_s;       /* from a failure to the first byte of the checkpoint */
	double checkpoint_GBps; /* of the storage, for all devices together */
	double blocking;        /* share of a save for which training waits */
	double interval_s;      /* training between saves; 0 = choose the best */
};
/* mtbf_h, restart_s, checkpoint_GBps, blocking, interval_s. */
MQ_API extern const struct mq_opt mq_failures_opts[];

struct mq_goodput {
	double goodput;                    /* training time / wall time, which includes saves, restarts and lost work */
	double interval_s;                 /* training between saves: whole steps */
	double mtbf_s;                     /* of the job */
	double checkpoint_B, checkpoint_s; /* of one save, the overlapped part included */
};

/* Goodput of a job on `devices` devices with steps of `step_s` seconds; mtbf_h > 0. It tends to 0 where restarts take
 * as long as the time between failures. */
MQ_API struct mq_goodput mq_goodput(const struct mq_failures *failures, uint32_t devices, double step_s,
				    double checkpoint_B);
/* Bytes of a checkpoint; `master_B` and `moment_B` as in mq_train_state_B. */
MQ_API double mq_checkpoint_B(const struct mq_model *model, const struct mq_train *train, double master_B,
			      double moment_B);

#endif
