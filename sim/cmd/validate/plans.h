/* plans.h - plans of finished searches, lowered and predicted, with their replayed measurements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_VALIDATE_PLANS_H
#define MQ_CMD_VALIDATE_PLANS_H

#include "session/trust.h"
#include "cmd/validate/dir.h"
#include "schedule/timeline.h"
#include "executors/execute.h"

/* Measured memory of a plan on a device, bytes, see validator/replay/memory.c. */
struct mq_held_bytes {
	double process, parameters, gradients, optimizer, peak, full;
};

struct mq_validated {
	const char *name; /* of its schedule file: "FOLDER-plan-1" */
	const struct mq_session *session;
	struct mq_plan plan;
	const char *plan_text; /* "dp 2 ..." */
	struct mq_schedule *schedule;
	const struct mq_memory *memory; /* [schedule's devices] predicted */
	uint32_t worst;                 /* the device nearest its limit */
	struct mq_held_bytes *held;     /* [schedule's devices] measured, NULL = not measured */
	struct mq_timeline predicted;
	struct mq_interval interval; /* factors around predicted.step_time_s */
	const struct mq_measured *measured;
	struct mq_median step; /* measured */
	uint32_t n_dropped;
	bool weak;
	bool held_out;         /* --recalibrate: not used in the fit */
	double recalibrated_s; /* step time under the corrected calibration; NaN = none */
	struct mq_session_trust trust;
};

struct mq_validation {
	struct mq_drift drift; /* of the machine during the replay */
	struct mq_arena arena;
	struct mq_asked *asked;     /* [n_dirs] */
	struct mq_session *session; /* [n_dirs] */
	uint32_t n_dirs, n_open, n_plans, room;
	struct mq_validated *plan;
	bool replays;        /* plans will be replayed on GPUs, not yet checked to exist */
	const char *refused; /* why the corrected calibration was not written; NULL = written, or not requested */
};

/* Opens the session of a search folder (its run.ini, then `argv` on top) and lowers its first `top` plans. */
enum mq_status mq_validation_add(struct mq_validation *v, const char *dir, uint32_t top, int argc, char **argv,
				 struct mq_err *err);
void mq_validation_close(struct mq_validation *v);

/* Step time and timeline of a schedule under a calibration. */
enum mq_status mq_validation_predict(const struct mq_schedule *schedule, const struct mq_cluster *cluster,
				     const struct mq_calib *calib, struct mq_arena *arena, struct mq_timeline *timeline,
				     struct mq_err *err);
/* Predictions and intervals of all plans; draws come from the calibration files given. */
enum mq_status mq_validation_predict_all(struct mq_validation *v, uint32_t n_draws, uint64_t seed, struct mq_err *err);

/* After prediction and reading of samples: adds the machine's drift to the intervals. */
void mq_validation_drift(struct mq_validation *v, uint32_t n_draws, uint64_t seed);

/* `simulate --intervals`: prints, and with `dir` writes to DIR/intervals.csv, the intervals of simulated plans;
 * compares the first with the others. */
enum { MQ_INTERVAL_DRAWS = 100 };
struct mq_ranked {
	const char *path;
	const struct mq_plan *plan;
	double step_time_s;
};
enum mq_status mq_plans_intervals(const struct mq_session *session, const struct mq_ranked *plan, uint32_t n,
				  const char *dir, struct mq_err *err);

/* validate.csv (per op and step), plans.csv (per plan), trace-NAME.json (two lanes). */
enum mq_status mq_validation_write(struct mq_validation *v, const char *dir, struct mq_err *err);
/* Prints the confidence of each plan's prediction; writes DIR/trust.csv, the plans for --trust-with. */
enum mq_status mq_validation_trust(struct mq_validation *v, const char *dir, struct mq_err *err);
/* Reads measured memory (launch-K/memory.csv of a folder of samples) into `held` of the plans: the minimum over
 * launches. NULL if samples lack it. */
enum mq_status mq_validation_read_memory(struct mq_validation *v, const char *samples, struct mq_err *err);
/* Writes DIR/memory.csv, predicted and measured by purpose, and prints a summary. */
enum mq_status mq_validation_memory(struct mq_validation *v, const char *dir, struct mq_err *err);
/* Peak bytes of the plan's tensors on the device nearest its limit; NaN = not measured. */
void mq_validated_memory(const struct mq_validated *p, double *predicted_B, double *measured_B);
/* Step times of all plans, or only those held out, with or without the corrected calibration; returns their number. */
uint32_t mq_validation_steps(struct mq_validation *v, bool recalibrated, bool held_only, double **predicted,
			     double **measured);
/* Prints the table, errors, Kendall's tau, regret, coverage. Returns the median error, 1 = 100 %. */
double mq_validation_print(struct mq_validation *v);
/* Fits the calibration to every second plan; fills held_out, recalibrated_s. Writes DIR/calib.json if the median error
 * of the other plans falls, else sets `refused`. MQ_EINPUT: fewer than four plans; MQ_ETIME: the machine was too busy
 * during more than half of the samples. */
enum mq_status mq_validation_recalibrate(struct mq_validation *v, const char *dir, struct mq_err *err);

/* Compares the first plan's prediction with traces of real steps, class by class: prints a table, writes
 * DIR/against.csv, and the traces' collectives to DIR/calls.csv. */
enum mq_status mq_validation_against(struct mq_validation *v, const char *const *trace, uint32_t n, const char *dir,
				     struct mq_err *err);
/* Compares the first plan's memory, on its fullest device, with a PyTorch snapshot: prints a
 * table, writes DIR/memory.csv. */
enum mq_status mq_validation_snapshot(struct mq_validation *v, const char *path, const char *dir, struct mq_err *err);

#endif
