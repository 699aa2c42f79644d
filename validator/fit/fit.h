/* fit.h - from measured timelines to calibrations: probes, the join, robust fits, statistics.
 *
 * Linked into maquette only (GSL); maquette-replay measures without it. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_FIT_H
#define MQ_VALIDATOR_FIT_H

#include "maquette/calib.h"
#include "collectives/measured.h"
#include "maquette/cluster.h"
#include "maquette/rng.h"
#include "maquette/schedule.h"
#include "fit/stats.h"

/* ---- measured.c ------------------------------------------------------------------------------ */

/* All samples of one schedule, possibly of several launches of the replay. */
struct mq_measured {
	const struct mq_schedule *schedule;
	uint32_t n_samples, room;
	double *start_s, *finish_s; /* [n_samples * n_tasks] */
	double *lost_s;             /* [n_samples * n_tasks] by involuntary switches; INFINITY: steal time,
				     * throttling, or switches of a length that was not recorded */
	double *step_s;             /* [n_samples] */
	uint32_t *launch;           /* [n_samples] launch of the replay, from 0; one file each */
	uint32_t n_launches;
	uint8_t *imitated; /* [n_tasks] bits of kernels that the replay replaced; NULL: none */
	bool *disturbed;   /* [n_samples] a rank lost more than 1 % of the step, or INFINITY */
};
/* Adds the samples of a timeline file; MQ_EINPUT where it does not belong to the schedule. */
enum mq_status mq_measured_add(struct mq_measured *measured, const char *path, struct mq_arena *arena,
			       struct mq_err *err);

/* One library call as measured: a compute or copy task, a message, or a collective. */
enum {
	MQ_IMITATES_GEMMS = 1 /* convolutions, attention */,
	MQ_IMITATES_SWEEPS = 2 /* optimizers, embeddings, scans */
};
struct mq_observed {
	const struct mq_schedule *schedule;
	uint32_t task;         /* of a call: the member with the lowest id */
	struct mq_median time; /* seconds; of communication: from the last arrival to the last finish */
	uint32_t n_dropped;    /* samples left out because of time lost, steal or throttling */
	bool weak;             /* fewer than three clean samples: the lower half of all was taken */
	uint8_t imitated;      /* bits: kernels that were replaced, so its time says nothing of their kinds */
	double overlapped; /* share of its time in which its device communicated (mq_measured_overlap); 0 = unknown */
};
struct mq_observations {
	struct mq_observed *call;
	uint32_t n, room;
};
/* Adds one entry per call, in task order. */
enum mq_status mq_measured_calls(const struct mq_measured *measured, struct mq_arena *arena, struct mq_observations *to,
				 struct mq_err *err);
/* Step time over clean samples (weak as above); there is one at least. */
struct mq_median mq_measured_step(const struct mq_measured *measured, struct mq_arena *scratch, uint32_t *n_dropped,
				  bool *weak);
/* Fills in `overlapped` of computations, from the typical sample. */
void mq_measured_overlap(const struct mq_measured *measured, struct mq_observed *observed, uint32_t n,
			 struct mq_arena *scratch);
/* Index of the clean sample whose step time is nearest the median; at least one must exist. */
uint32_t mq_measured_typical(const struct mq_measured *measured, struct mq_arena *scratch);

/* Relative deviation between samples of their common speed: the median over tasks of time / the task's median. Clocks,
 * neighbours and memory layout differ from run to run. */
double mq_measured_drift(const struct mq_measured *measured, struct mq_arena *scratch);
/* Median time per kernel from the start of a task to the start of the next on the same device: for empty tasks the
 * launch time of the host, or of a slower device. NaN: no samples. */
double mq_measured_interval(const struct mq_measured *measured, struct mq_arena *scratch);

/* ---- solve.c --------------------------------------------------------------------------------- */

extern const double mq_fit_huber; /* knee of the loss in robust deviations: 95 % efficient for normal
				   * errors */
struct mq_fit_param {
	const char *name;
	double *value; /* in: start > 0; out: fitted. Clamped to min .. max */
	double min, max;
	double low, high; /* 95 % bootstrap interval; NaN until mq_fit_bootstrap */
};

/* Minimise the Huber loss of log(predicted) - log(measured) over the logarithms of the parameters. */
struct mq_fit {
	uint32_t n_obs, n_params;
	const double *measured; /* [n_obs] > 0 */
	const double *weight;   /* [n_obs] > 0, or NULL: all alike */
	const uint32_t *group;  /* [n_obs] resampling unit (shape), or NULL: each its own */
	struct mq_fit_param *param;
	/* Predictions of all observations with the present parameter values. */
	void (*predict)(void *context, double *predicted);
	void *context;
};
/* MQ_EINPUT: fewer observations than parameters. Incomplete convergence is no error. */
enum mq_status mq_fit_solve(struct mq_fit *fit, struct mq_arena *arena, struct mq_err *err);
/* Refits `n_draws` resamples of the groups; parameters are restored. draws: [n_draws * n_params]. */
enum mq_status mq_fit_bootstrap(struct mq_fit *fit, uint32_t n_draws, struct mq_rng *rng, struct mq_arena *arena,
				double *draws, struct mq_err *err);

/* ---- probes.c -------------------------------------------------------------------------------- */

struct mq_probe_request {
	uint32_t n_devices;
	const char *const *device_name, *const *device_type; /* [n_devices] */
	uint32_t n_dtypes;
	enum mq_dtype dtype[MQ_N_DTYPES]; /* most shapes use the first one */
	double speed_flops;               /* rough, to limit the size of a probe */
	double largest_B;                 /* largest message and memory-bound kernel */
	uint32_t repeats;                 /* of a kernel in its task; 0 = 1 */
	uint64_t seed;
};
enum { MQ_N_PROBES = 6 };
extern const char *const mq_probe_name[MQ_N_PROBES]; /* gemm memory attention comm empty overlap */
/* The schedule of one probe; comm needs two devices (NULL otherwise). */
struct mq_schedule *mq_probe_build(const struct mq_probe_request *request, uint32_t probe, struct mq_arena *arena);

/* ---- calibration.c, write.c ------------------------------------------------------------------ */

struct mq_fitted {        /* a group of parameters fitted together */
	const char *name; /* "gemm", "memory", ... */
	uint32_t n_params, n_obs, n_draws;
	struct mq_fit_param *param;
	double *draws;                    /* [n_draws * n_params] */
	double sigma;                     /* robust deviation of log(predicted/measured) */
	struct mq_errors error, held_out; /* by shape: even shapes fit, odd ones held out */
	double least, most;               /* valid range: bytes, or FLOP for gemm and attention */
	bool link;                        /* parameters of the link class, not of the device */
};

extern const char *const mq_call_name[MQ_N_CALLS]; /* by MQ_CALL_...: all_reduce ... sendrecv */

struct mq_calibration {
	struct mq_device_calib device;
	struct mq_link_calib link;
	bool has_device, has_link;
	uint32_t n_fitted;
	struct mq_fitted *fitted;
	uint32_t n_dropped, n_weak, n_observed;
};

struct mq_calibration_request {
	uint32_t n_observed;
	const struct mq_observed *observed;
	const char *type, *link_class, *source;
	enum mq_device_kind kind;
	double memory_B, cores; /* cores: streaming multiprocessors of a GPU */
	double compute_capability;
	const struct mq_device_calib *known; /* its shipped calibration, borrowed, for its energy; NULL = none */
	const struct mq_libraries *libraries;
	double reserve_B; /* memory in use beyond the replay's own buffers; 0 = unknown */
	uint32_t n_draws;
	uint64_t seed;
	double run_sigma;         /* spread of whole runs, see mq_measured_drift; NaN = not known */
	double launch_interval_s; /* of empty kernels, see mq_measured_interval; 0 = not known */
	/* Data not made for calibration (a trace): only the parameters that they determine are fitted. A call of few
	 * sizes becomes a line, a + S/b; a call of one size is left out. */
	bool partial;
};
enum mq_status mq_calibration_fit(const struct mq_calibration_request *request, struct mq_arena *arena,
				  struct mq_calibration *calibration, struct mq_err *err);
/* Writes {"entries": [device, link, ...]} of n calibrations, each value with interval, each group with quality and
 * range. */
enum mq_status mq_calibration_save(const struct mq_calibration *calibration, uint32_t n, const char *path,
				   struct mq_err *err);

/* ---- uncertainty.c --------------------------------------------------------------------------- */

/* The uncertainties in calibration files. */
struct mq_uncertainty {
	uint32_t n, room;
	struct mq_uncertain { /* a group of parameters of one entry */
		const char *entry, *group;
		bool link;
		double sigma, least, most;
		uint32_t n_params, n_draws;
		const char **param;
		double *draw; /* [n_draws * n_params] draw / fitted value; NaN = none */
	} * group;
};
/* Adds the "fit" records of a calibration file; they replace earlier ones of the same entry and group, as values of
 * later files do. A file may have none. */
enum mq_status mq_uncertainty_load(struct mq_uncertainty *uncertainty, const char *path, struct mq_arena *arena,
				   struct mq_err *err);

struct mq_interval_request {
	const struct mq_cluster *cluster; /* bound to calib */
	const struct mq_calib *calib;
	const struct mq_uncertainty *uncertainty;
	uint32_t n_draws;
	uint64_t seed;
	/* Runs a schedule under a calibration; gives its step time, or NaN. */
	double (*run)(void *context, const struct mq_schedule *schedule, const struct mq_cluster *cluster,
		      const struct mq_calib *calib);
	void *context;
};
struct mq_interval {
	double low, high;        /* 95 %, as factors of the step time without perturbation */
	double *factor;          /* [n_draws]; the same draws for every plan, so that plans can be compared */
	uint32_t n_extrapolated; /* kernels and calls outside the measured sizes */
};
/* Draws parameters from their bootstrap and, per kernel shape and kind of call, an error from the residuals of the
 * fit; runs each draw. */
enum mq_status mq_interval_of(const struct mq_interval_request *request, const struct mq_schedule *schedule,
			      struct mq_arena *arena, struct mq_interval *interval, struct mq_err *err);
/* Standard deviations of the logarithm of step times of schedules replayed in turn. */
struct mq_drift {
	double common; /* common to all schedules, from sample to sample */
	double own;    /* of each schedule beyond that, from launch to launch; 0: one launch */
	uint32_t launches;
};
/* median[n]: step time of each. Zeroes with fewer than two schedules, or samples. */
struct mq_drift mq_drift_of(const struct mq_measured *const *measured, const double *median, uint32_t n,
			    struct mq_arena *scratch);
/* Adds the machine's drift to the interval; its common part has the same draws for all plans. */
void mq_interval_widen(struct mq_interval *interval, uint32_t n_draws, const struct mq_drift *drift, uint64_t seed,
		       uint32_t plan, struct mq_arena *scratch);

/* Probability that a plan of step time a and factors fa beats b. */
double mq_probability_less(double a, const double *fa, double b, const double *fb, uint32_t n);

/* ---- recalibrate.c --------------------------------------------------------------------------- */

/* Scales of the device's speeds and the link's times, fitted to whole tasks of measured plans. */
struct mq_recalibration {
	struct mq_device_calib *device; /* in and out */
	struct mq_link_calib *link;     /* in and out; may be NULL */
	uint32_t n_fitted;
	struct mq_fit_param param[12]; /* factors on speeds; "overlap" is the share lost itself */
};
enum mq_status mq_recalibrate(struct mq_recalibration *r, struct mq_calib *calib, struct mq_cluster *cluster,
			      const struct mq_observed *observed, uint32_t n, struct mq_arena *arena,
			      struct mq_err *err);

/* ---- node.c: this machine as a platform ------------------------------------------------------ */

struct mq_node {
	char cpu[64]; /* "AMD-EPYC": the model, fit for a file name */
	uint32_t cores, sockets;
	double memory_B;
};
enum mq_status mq_node_read(struct mq_node *node, struct mq_err *err);
struct mq_node_platform {
	uint32_t n_devices;
	const char *name, *type;
	double speed_flops, memory_B, bw_Bps, lat_s;
	const struct mq_node *node;
	/* For the cluster alone; a platform file has CPUs. */
	enum mq_device_kind kind;
	enum mq_link_class class;
};
/* n_devices CPU devices of one node, joined through the memory of the host. */
enum mq_status mq_node_save(const struct mq_node_platform *platform, const char *path, struct mq_err *err);
/* The same as a cluster, without SimGrid. */
struct mq_cluster *mq_node_cluster(const struct mq_node_platform *platform, struct mq_arena *arena);

/* ---- nccl_log.c ------------------------------------------------------------------------------ */

struct mq_nccl_row {
	enum mq_coll_kind kind;
	bool sendrecv;
	uint32_t ranks; /* in its table */
	uint32_t nodes; /* 0 = unknown */
	uint32_t line;
	double bytes, seconds;     /* out of place */
	double factor, factor_off; /* busbw / algbw, and its error by the printed digits */
};
/* Rows of all tables of a nccl-tests log. MQ_EINPUT: the line that cannot be read, and why. */
enum mq_status mq_nccl_log_load(const char *path, struct mq_arena *arena, struct mq_nccl_row **row, uint32_t *n,
				struct mq_err *err);

/* ---- fit_gemm.c: the GEMM parameters of device types from measured kernel times --------------------------------- */

struct mq_gemm_sample {
	enum mq_dtype dtype;
	double m, n, k;
	double time_s;
	uint8_t scaling; /* enum mq_scaling, of fp8 and fp4 */
	double cast_s;   /* cast of an operand in each iteration of the loop, not in time_s */
	double from, to; /* range of calls of a loop in a CUDA graph of which time_s is the mean; 0, 0: not timed so */
	uint32_t fold;   /* samples of one shape share a fold, which is held out together */
	uint32_t device; /* index of the device that ran it */
};

/* Seconds of one iteration of a loop of such GEMMs: the longer of the kernel and the host's launch of the next one
 * (host_launch_s). In a CUDA graph the host launches none, and the power limit slows the loop. */
double mq_gemm_loop_s(const struct mq_device_calib *device, const struct mq_gemm_sample *sample);

/* Fits gemm_eff, gemm_bw_share and gemm_t0_s of each of `device` [n_devices], and gemm_kt, gemm_a0, gemm_q and
 * gemm_corner, which belong to the libraries' tiles, to one value for all. In place, from their values (shared ones:
 * the first device's), on all samples but fold `held_out` (MQ_NONE = on all). Deterministic. MQ_EINPUT: a device of
 * fewer than 30 samples, or one without a positive time. */
enum mq_status mq_fit_gemm(const struct mq_gemm_sample *sample, uint32_t n, uint32_t held_out,
			   struct mq_device_calib *device, uint32_t n_devices, struct mq_err *err);

/* The fold of a weight shape: evenly distributed, equal on every machine. */
uint32_t mq_gemm_fold(double n, double k, uint32_t folds);

#endif
