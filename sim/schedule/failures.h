/* failures.h - what is left of a machine that fails: goodput under checkpoints, and how often to take them.
 *
 * Failures of single devices come at random, one in `mtbf_h` hours each (Poisson), so those of a job of n devices every
 * M = mtbf / n, and any one of them stops the job. State is saved every tau seconds of training, which holds training
 * up for delta seconds. After a failure the job restarts for R seconds, which may fail too, and does again what was not
 * saved. Training of T seconds then takes (Daly, "A higher order estimate of the optimum checkpoint interval for
 * restart dumps", Future Generation Computer Systems 22, 2006)
 *
 *     T_wall = M exp(R/M) (exp((tau + delta)/M) - 1) T/tau              goodput = T / T_wall
 *
 * least near tau = sqrt(2 delta M) (1 + sqrt(delta/2M)/3 + (delta/2M)/9) - delta, or M where delta >= 2 M. Saves come
 * between steps: the whole number of steps beside that estimate that leaves most is taken.
 *
 * A checkpoint is the weights in the type of training and the optimizer's state, once, however often replicas hold
 * them. Saving takes its bytes over `checkpoint_GBps` of the storage, of which training waits for the part `blocking`;
 * the rest goes on beside it, so that saves are at least as far apart as one takes, and a failure meanwhile loses so
 * much more. R is `restart_s` and reading the checkpoint at the same speed.
 *
 * Not modelled: failures that repeat on one device, spares and elastic jobs, slow devices (hardware/change.h, jitter),
 * and storage that others use. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCHEDULE_FAILURES_H
#define MQ_SCHEDULE_FAILURES_H

#include "maquette/model.h"
#include "maquette/opt.h"

struct mq_failures {
	double mtbf_h;          /* of one device with its share of host, network and software, hours; 0 = not asked */
	double restart_s;       /* from a failure to the first byte of the checkpoint */
	double checkpoint_GBps; /* of the storage, all devices together */
	double blocking;        /* part of a save that training waits for */
	double interval_s;      /* training between saves; 0 = the best */
};
/* mtbf_h, restart_s, checkpoint_GBps, blocking, interval_s. */
MQ_API extern const struct mq_opt mq_failures_opts[];

struct mq_goodput {
	double goodput;                    /* training / all time, saves, restarts and lost work included */
	double interval_s;                 /* training between saves, whole steps */
	double mtbf_s;                     /* of the job */
	double checkpoint_B, checkpoint_s; /* of one save, whether training waits for it or not */
};

/* Of a job on `devices` devices with steps of `step_s` seconds whose checkpoint has so many bytes; mtbf_h > 0. Goodput
 * 0:
 * it comes to nothing (restarts as long as the time between failures). */
MQ_API struct mq_goodput mq_goodput(const struct mq_failures *failures, uint32_t devices, double step_s,
				    double checkpoint_B);
/* Bytes of a checkpoint; `master_B` and `moment_B` as in mq_train_state_B. */
MQ_API double mq_checkpoint_B(const struct mq_model *model, const struct mq_train *train, double master_B,
			      double moment_B);

#endif
