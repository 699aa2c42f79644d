/* calibrate.c - `maquette calibrate`: makes the calibration and the platform file of a node.
 *
 * Probes are schedules that maquette-replay runs (here, or on a node without Maquette); the fit runs here. Then the
 * fitted parameters predict the probes: a table shows what the model does not reproduce.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "hardware/libraries.h"
#include "cmd/calibrate/against.h"
#include "cmd/validate/plans.h"
#include "cmd/validate/traces.h"

struct calibrate {
	struct mq_replay_call call;
	const char *out, *samples, *type, *link_class, *platform_out, *cpu_type, *against;
	struct mq_list from;
	uint32_t devices, cpus, draws, level;
	bool schedule_only;
	bool beside; /* CPU devices beside GPUs */
	struct mq_arena *arena;
	struct mq_node node;
};

/* Levels are named as those of `dcgmi diag`. The seed alone decides the shapes, so that the probes that two levels
 * share are comparable. A fifth of the time is for starting processes and for the fit. */
static const struct level {
	double time_s;
	const char *probes; /* NULL: all */
	uint32_t launches, reps, draws;
} levels[] = {
	{ /* quick */ 30, "gemm memory comm", 1, 7, 20 },
	{ /* medium */ 300, NULL, 3, 7, 100 },
	{ /* long */ 1800, NULL, 10, 25, 100 },
};
#define MEASURING .8

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct calibrate, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "executor", call.executor, "NAME", "host (CPU cores) or cuda (GPUs)", .letter = 'x', .text = "host"),
	ROW(TEXT, "output", out, "CALIB.json", "calibration to write; its platform file goes next to it",
	    .letter = 'o'),
	ROW(LIST, "from", from, "SAMPLES",
	    "fit samples measured before or elsewhere: a folder, a nccl-tests log, or a trace, one per rank: of "
	    "PyTorch's profiler (.json, .json.gz), Nsight Systems (.sqlite, .sqlite@GPU) or Chakra (.et); repeatable"),
	ROW(TEXT, "against", against, "BASELINE.json",
	    "compare measured times with those in BASELINE.samples, limit 5 %: pass, warn or fail per "
	    "probe; exit with 5 if one fails"),
	ROW(TEXT, "samples", samples, "DIR", "folder for probes and samples (default: CALIB.samples)"),
	ROW(FLAG, "schedule-only", schedule_only, NULL,
	    "write the probes and the command lines that measure them on another node"),
	ROW(INT, "devices", devices, "N", "devices to measure (default: all of this node)", .min = 1, .max = 4096),
	ROW(INT, "cpus", cpus, "N",
	    "cuda: also measure N CPU devices, and transfers between these and the GPUs (default: none)", .min = 1,
	    .max = 60),
	ROW(TEXT, "cpu-type", cpu_type, "NAME", "with --cpus: name of their device type (default: from the hardware)"),
	ROW(INT, "cores", call.cores, "N",
	    "CPU cores per device (default: 1; with --cpus: all cores that the GPUs' ranks do not use)", .min = 1,
	    .max = 4096),
	ROW(TEXT, "type", type, "NAME", "name of the device type (default: from the hardware)"),
	ROW(TEXT, "link-class", link_class, "NAME",
	    "class of the links (default: host-sm0 between CPUs; between GPUs by the topology: nvlink-smNN or "
	    "pcie-smNN); for logs of one node and of several nodes: WITHIN,BETWEEN"),
	ROW(WORD, "level", level, "LEVEL",
	    "time limit: 30 s, 5 minutes or 30 minutes; probes cut short by it are listed; quick, for a node's health, "
	    "runs only the probes gemm, memory and comm (default medium)",
	    .words = "quick|medium|long", .initial = 1, .flags = MQ_ARG_OWN_DEFAULT),
	ROW(INT, "launches", call.launches, "N", "process launches (default by level: 1, 3, 10)", .min = 1, .max = 100),
	ROW(INT, "reps", call.reps, "N", "repetitions per launch (default by level: 7, 7, 25)", .min = 1, .max = 1000),
	ROW(INT, "draws", draws, "N", "bootstrap samples (default by level: 20, 100, 100)", .min = 2, .max = 10000),
	ROW(INT, "seed", call.seed, "N", "seed of shapes, order and bootstrap", .initial = 1, .max = 1000000),
	ROW(TEXT, "platform-output", platform_out, "FILE.xml",
	    "platform file of this node (with --from: write it, the samples are of this node)"),
	ROW(F64, "deadline", call.deadline_s, "S", "longest wait for a process of the replay", .unit = "s",
	    .initial = 60, .min = .1, .max = 86400),
	ROW(FLAG, "share-gpu", call.share_gpu, NULL, "cuda: several ranks on one GPU; gives a loopback platform only"),
	{ .type = MQ_ARG_END },
};

/* ---- measuring ------------------------------------------------------------------------------- */

static bool is_gpu(const struct calibrate *c)
{
	return !strcmp(c->call.executor, "cuda");
}

/* "NVIDIA H200" -> "H200", as in names of shipped calibrations. */
static const char *gpu_type(const char *text, struct mq_arena *arena)
{
	char *name = mq_arena_strdup(arena, strncmp(text, "NVIDIA ", 7) ? text : text + 7);

	name[strcspn(name, ",(\n")] = '\0';
	for (char *p = name; *p; p++)
		if (*p == ' ')
			*p = '-';
	return name;
}

static enum mq_status find_devices(struct calibrate *c, struct mq_err *err)
{
	const char *text;
	uint32_t n;

	MQ_TRY(mq_replay_devices(c->call.executor, c->arena, &n, &text, err));
	MQ_TRY(mq_node_read(&c->node, err));
	uint64_t have = is_gpu(c) ? n : n / mq_or_1(c->call.cores);
	if (!c->devices)
		c->devices = have;
	if (c->devices > have && !c->call.share_gpu)
		return mq_fail(err, MQ_ENODEV, "--devices %u: there are %u here (%s)", c->devices, (uint32_t)have,
			       text);
	if (!c->type)
		c->type = is_gpu(c) ? gpu_type(text, c->arena) :
				      mq_arena_printf(c->arena, "CPU-%s-%uc", c->node.cpu, mq_or_1(c->call.cores));
	if (c->call.share_gpu)
		c->link_class = "loopback";
	return MQ_OK;
}

/* Loads the shipped calibrations and tables of libraries. */
static enum mq_status shipped(struct calibrate *c, struct mq_calib **calib, struct mq_err *err)
{
	const char *dir;

	*calib = mq_calib_new(c->arena);
	MQ_TRY(mq_find_dir("platforms/calib", c->arena, &dir, err));
	return mq_calib_load_dir(*calib, dir, err);
}

/* The shipped calibration of a GPU by its driver name; NULL = none, or a log without the name. */
static enum mq_status known_gpu(struct calibrate *c, const struct mq_libraries **libraries,
				const struct mq_device_calib **known, struct mq_err *err)
{
	struct mq_calib *set;

	MQ_TRY(shipped(c, &set, err));
	*libraries = set->libraries;
	*known = is_gpu(c) && c->type ? mq_calib_type_in(set, c->type, true) : NULL;
	return MQ_OK;
}

static enum mq_status save_probe(const struct calibrate *c, const struct mq_schedule *s, const char *name,
				 struct mq_err *err)
{
	MQ_TRY(mq_schedule_check(s, NULL, err));
	return mq_schedule_save(s, mq_arena_printf(c->arena, "%s/%s.jsonl", c->samples, name), err);
}

static enum mq_status write_probes(struct calibrate *c, const char **name, uint32_t *n, struct mq_err *err)
{
	const char **device = mq_arena_array(c->arena, c->devices, const char *);
	const char **type = mq_arena_array(c->arena, c->devices, const char *);
	struct mq_probe_request r = { .n_devices = c->devices,
				      .device_name = device,
				      .device_type = type,
				      .n_dtypes = 2,
				      .dtype = { MQ_FP32, MQ_FP64 },
				      .speed_flops = 8e10 * (double)mq_or_1(c->call.cores),
				      .largest_B = 32 << 20,
				      .seed = c->call.seed };

	const struct mq_libraries *libraries;
	const struct mq_device_calib *known;
	MQ_TRY(known_gpu(c, &libraries, &known, err));
	if (is_gpu(c)) {
		r.n_dtypes = known && known->peak_flops[MQ_FP8] > 0 ? 5 : 4;
		r.dtype[0] = MQ_BF16;
		r.dtype[1] = MQ_FP16;
		r.dtype[2] = MQ_TF32;
		r.dtype[3] = MQ_FP32;
		r.dtype[4] = MQ_FP8;
		r.speed_flops = 2e14;
		r.largest_B = 1 << 30;
		r.repeats = 4;
	}
	for (uint64_t i = 0; i < c->devices; i++) {
		device[i] = mq_arena_printf(c->arena, "%s%u", is_gpu(c) ? "gpu" : "cpu", (uint32_t)i);
		type[i] = c->type;
	}
	*n = 0;
	for (uint32_t p = 0; p < MQ_N_PROBES; p++) {
		bool wanted = !levels[c->level].probes || strstr(levels[c->level].probes, mq_probe_name[p]);
		struct mq_schedule *s = wanted ? mq_probe_build(&r, p, c->arena) : NULL;

		if (!s) { /* from an earlier run into the same folder */
			unlink(mq_arena_printf(c->arena, "%s/%s.jsonl", c->samples, mq_probe_name[p]));
			continue;
		}
		MQ_TRY(save_probe(c, s, mq_probe_name[p], err));
		name[(*n)++] = mq_probe_name[p];
	}
	return MQ_OK;
}

static enum mq_status run_probes(struct calibrate *c, const char *cpu_types, const char *const *name, uint32_t n,
				 struct mq_err *err)
{
	struct mq_replay_call call = c->call;

	call.dir = c->samples;
	call.warmup = 2;
	call.budget_s = MEASURING * levels[c->level].time_s / (c->cpus ? 3 : 1); /* GPUs, CPUs, between */
	call.first_launch = 1;
	call.cpu_types = cpu_types;
	call.hold = is_gpu(c);
	call.local = c->beside ? c->devices : 0; /* CPUs beside GPUs run without MPI */
	call.n_names = n;
	call.name = name;
	if (c->schedule_only) {
		mq_replay_print(&call);
		return MQ_OK;
	}
	/* Samples of an earlier run into the same folder are none of this one. */
	uint32_t launches;
	const char **launch = mq_folder_names(c->samples, "launch-", "", c->arena, &launches);
	for (uint32_t l = 0; l < launches; l++)
		for (uint32_t p = 0; p < MQ_N_PROBES; p++)
			unlink(mq_arena_printf(c->arena, "%s/%s/%s.timeline.csv", c->samples, launch[l],
					       mq_probe_name[p]));
	return mq_replay_measure(&call, err);
}

static enum mq_status measure(struct calibrate *c, struct mq_err *err)
{
	const char *name[MQ_N_PROBES];
	uint32_t n;

	MQ_TRY(mq_make_dir(c->samples, err));
	MQ_TRY(write_probes(c, name, &n, err));
	return run_probes(c, "", name, n, err);
}

/* ---- CPU devices beside GPUs ----------------------------------------------------------------- */

/* Calibrates the CPU devices separately; their samples are in a folder inside the GPUs'. */
static struct calibrate cpu_part(const struct calibrate *c)
{
	struct calibrate cpu = *c;

	cpu.call.executor = "host";
	cpu.devices = c->cpus;
	cpu.type = c->cpu_type;
	cpu.link_class = "host-sm0";
	cpu.beside = true;
	cpu.call.share_gpu = false;
	cpu.samples = mq_arena_printf(cpu.arena, "%s/cpu", c->samples);
	return cpu;
}

static enum mq_status name_cpus(struct calibrate *c, struct mq_err *err)
{
	const char *text;
	uint32_t n;

	if (!c->call.cores) {
		MQ_TRY(mq_replay_devices("host", c->arena, &n, &text, err));
		c->call.cores = n > c->devices + c->cpus ? (n - c->devices) / c->cpus : 1;
	}
	if (!c->cpu_type)
		c->cpu_type =
			mq_arena_printf(c->arena, "CPU-%s-%uc", c->node.cpu[0] ? c->node.cpu : "node", c->call.cores);
	return MQ_OK;
}

/* Messages and collectives between one GPU and one CPU. */
static enum mq_status measure_between(const struct calibrate *c, struct mq_err *err)
{
	static const char *const device[] = { "gpu0", "cpu0" }, *const name[] = { "comm" };
	const char *type[] = { c->type, c->cpu_type };
	struct calibrate between = *c;
	struct mq_probe_request r = {
		.n_devices = 2, .device_name = device, .device_type = type, .largest_B = 64 << 20, .seed = c->call.seed
	};
	uint32_t comm = 0;

	while (strcmp(mq_probe_name[comm], "comm"))
		comm++;
	between.samples = mq_arena_printf(c->arena, "%s/between", c->samples);
	MQ_TRY(mq_make_dir(between.samples, err));
	MQ_TRY(save_probe(&between, mq_probe_build(&r, comm, c->arena), name[0], err));
	return run_probes(&between, c->cpu_type, name, 1, err);
}

static enum mq_status measure_cpus(struct calibrate *c, struct mq_err *err)
{
	MQ_TRY(name_cpus(c, err));
	struct calibrate cpu = cpu_part(c);

	cpu.call.cores = c->call.cores;
	MQ_TRY(measure(&cpu, err));
	return measure_between(c, err);
}

static const char *with_suffix(const char *path, const char *suffix, struct mq_arena *arena)
{
	size_t n = strlen(path);

	if (n > 5 && !strcmp(path + n - 5, ".json"))
		n -= 5;
	return mq_arena_printf(arena, "%.*s%s", (int)n, path, suffix);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct input {
	struct mq_observations observed;
	uint32_t n_devices;
	struct mq_logs logs;
	const char *environment, *type;
	double run_sigma, launch_interval_s;
	const struct mq_trace *trace; /* the first given trace, NULL = none */
};

/* "key=number" in the record of the environment, or 0. */
static double recorded(const char *environment, const char *key)
{
	const char *at = environment ? strstr(environment, key) : NULL;

	return at ? strtod(at + strlen(key), NULL) : 0;
}

/* Prints the probes with fewer repetitions than asked for, for lack of time. */
static void say_short(const struct mq_samples *samples, double asked)
{
	bool any = false;

	for (uint32_t i = 0; i < samples->n; i++) {
		if (samples->measured[i].n_samples >= asked)
			continue;
		if (!any)
			printf("no time for all %.0f repetitions, there are: ", asked);
		printf("%s%s %u", any ? ", " : "", samples->name[i], samples->measured[i].n_samples);
		any = true;
	}
	if (any)
		puts(" (the next --level has more time)");
}

static enum mq_status add_folder(struct calibrate *c, const char *dir, struct input *in, struct mq_err *err)
{
	struct mq_samples samples;

	MQ_TRY(mq_samples_load(dir, c->arena, &samples, err));
	for (uint32_t i = 0; i < samples.n; i++)
		MQ_TRY(mq_measured_calls(&samples.measured[i], c->arena, &in->observed, err));
	if (strstr(samples.environment, "shared_device=1") && (!c->link_class || strcmp(c->link_class, "loopback")))
		return mq_bad(err,
			      "%s was measured with several ranks on one GPU: its times describe no link and no GPU "
			      "(--link-class loopback to fit a loopback platform)",
			      dir);
	for (uint32_t i = 0; i < samples.n; i++)
		if (samples.measured[i].schedule->n_devices >= in->n_devices) {
			in->n_devices = samples.measured[i].schedule->n_devices;
			in->type = samples.measured[i].schedule->device_type[0];
		}
	for (uint32_t i = 0; i < samples.n; i++) {
		if (!strcmp(samples.name[i], "gemm"))
			in->run_sigma = mq_measured_drift(&samples.measured[i], c->arena);
		if (!strcmp(samples.name[i], "empty") && samples.measured[i].n_samples)
			in->launch_interval_s = mq_measured_interval(&samples.measured[i], c->arena);
	}
	in->environment = samples.environment;
	say_short(&samples, recorded(in->environment, "repetitions=") * samples.n_launches);
	return MQ_OK;
}

/* Reads all given traces, as ranks of one run. */
static enum mq_status add_traces(struct calibrate *c, const char *const *path, uint32_t n, struct input *in,
				 struct mq_err *err)
{
	struct mq_traces *traces = mq_arena_array(c->arena, 1, struct mq_traces);

	MQ_TRY(mq_traces_load(path, n, with_suffix(c->out, ".calls.csv", c->arena), c->arena, traces, err));
	MQ_TRY(mq_traces_observe(traces, c->arena, &in->observed, err));
	in->trace = &traces->trace[0];
	in->n_devices = in->observed.call[in->observed.n - 1].schedule->n_devices;
	if (in->trace->gpu)
		in->type = gpu_type(in->trace->gpu, c->arena);
	uint32_t gpus = in->trace->gpus > 1 ? in->trace->gpus : 8; /* a process that sees one GPU does not tell */
	if (!c->link_class && in->n_devices > gpus)
		return mq_bad(err,
			      "%s: calls of %u ranks, where a machine has %u GPUs: name the class of the links "
			      "between machines with --link-class",
			      path[0], in->n_devices, gpus);
	if (!c->link_class && in->trace->compute_capability > 0)
		c->link_class = mq_arena_printf(c->arena, "nvlink-sm%.0f", in->trace->compute_capability);
	return MQ_OK;
}

static enum mq_status read_input(struct calibrate *c, struct input *in, struct mq_err *err)
{
	const char **trace = mq_arena_array(c->arena, c->from.n, const char *);
	uint32_t n_traces = 0;

	for (uint32_t i = 0; i < c->from.n; i++) {
		struct stat st;

		if (mq_trace_probe(c->from.item[i])) {
			trace[n_traces++] = c->from.item[i];
			continue;
		}
		if (stat(c->from.item[i], &st))
			return mq_bad(err, "--from %s: %s", c->from.item[i], strerror(errno));
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			return mq_bad(err, "--from %s: a pipe cannot be read twice; save it as a file",
				      c->from.item[i]);
		MQ_TRY(S_ISDIR(st.st_mode) ? add_folder(c, c->from.item[i], in, err) :
					     mq_logs_add(&in->logs, c->from.item[i], c->arena, err));
	}
	MQ_TRY(mq_logs_name(&in->logs, c->link_class, c->arena, err));
	const struct mq_log_group *first = in->logs.first;
	for (uint32_t i = 0; first && i < first->observed.n; i++)
		MQ_PUSH(c->arena, in->observed.call, in->observed.n, in->observed.room, first->observed.call[i]);
	in->n_devices = first ? first->ranks : in->n_devices;
	c->link_class = first ? first->link_class : c->link_class;
	return n_traces ? add_traces(c, trace, n_traces, in, err) : MQ_OK;
}

/* ---- reporting ------------------------------------------------------------------------------- */

static void print_group(const struct mq_fitted *f)
{
	printf("%-16s %4u shapes  median error %5.1f %%, p90 %5.1f %%", f->name, f->n_obs, 100 * f->error.median,
	       100 * f->error.p90);
	if (f->held_out.n)
		printf("  (held out %.1f, %.1f)", 100 * f->held_out.median, 100 * f->held_out.p90);
	putchar('\n');
	for (uint32_t p = 0; p < f->n_params; p++)
		printf("  %-22s %-11.5g [%.5g, %.5g]\n", f->param[p].name, *f->param[p].value, f->param[p].low,
		       f->param[p].high);
}

static void print_fit(const struct mq_calibration *fit)
{
	for (uint32_t i = 0; i < fit->n_fitted; i++) {
		if (fit->fitted[i].n_params)
			print_group(&fit->fitted[i]);
		else
			printf("%-16s whole runs differ by %.1f %%\n", fit->fitted[i].name, 100 * fit->fitted[i].sigma);
	}
	printf("%u calls observed; %u samples dropped (context switches, steal time, throttling)\n", fit->n_observed,
	       fit->n_dropped);
	if (fit->n_weak)
		printf("%u calls had fewer than 3 undisturbed samples: the lower half of all theirs was used%s\n",
		       fit->n_weak,
		       2 * fit->n_weak > fit->n_observed ? "; measure again while nothing else runs here" : "");
}

static enum mq_status write_platform(struct calibrate *c, const struct mq_calibration *fit, struct mq_err *err)
{
	double fixed = 0, none;

	/* Calls have measured times; the link is the memory that they pass through. */
	if (!mq_call_measured(&fit->link, MQ_CALL_P2P, 2, 0, &fixed, &none))
		fixed = 1e-6;
	struct mq_node_platform p = { .n_devices = c->devices,
				      .type = c->type,
				      .name = "this-node",
				      .speed_flops = fit->device.peak_flops[MQ_FP32],
				      .memory_B = c->node.memory_B / (double)c->devices,
				      .node = &c->node,
				      .bw_Bps = fit->device.mem_bw_Bps,
				      .lat_s = fixed };
	MQ_TRY(mq_node_save(&p, c->platform_out, err));
	printf("%s: the platform of this node (%u devices)\n", c->platform_out, c->devices);
	return MQ_OK;
}

/* Links of the cluster that the probes are predicted on: the class that was fitted. */
static enum mq_link_class class_of(const char *link_class)
{
	if (!strncmp(link_class, "nvlink", 6))
		return MQ_LINK_NVSWITCH;
	return strncmp(link_class, "pcie", 4) ? MQ_LINK_HOST : MQ_LINK_PCIE;
}

/* Simulates the probes: parameters that do not reproduce their own benchmark are wrong. */
static enum mq_status check_probes(struct calibrate *c, const struct mq_calibration *fit, struct mq_err *err)
{
	struct mq_node_platform p = { .n_devices = c->devices,
				      .type = fit->device.name,
				      .name = "this-node",
				      .speed_flops = 1,
				      .memory_B = fit->device.memory_B,
				      .node = &c->node,
				      .bw_Bps = fit->device.mem_bw_Bps,
				      .lat_s = 1e-6,
				      .kind = fit->device.kind,
				      .class = class_of(fit->link.name) };
	struct mq_cluster *cluster = mq_node_cluster(&p, c->arena);
	struct mq_calib *calib;
	struct mq_samples samples;

	MQ_TRY(shipped(c, &calib, err));
	MQ_TRY(mq_calib_load(calib, c->out, err));
	MQ_TRY(mq_calib_bind(calib, cluster, err));
	MQ_TRY(mq_samples_load(c->from.item[0], c->arena, &samples, err));
	puts("the probes in the simulator, whole schedules:");
	for (uint32_t i = 0; i < samples.n; i++) {
		struct mq_timeline timeline;
		uint32_t dropped;
		bool weak;

		if (!samples.measured[i].n_samples || samples.measured[i].schedule->n_devices > cluster->n_devices)
			continue;
		double measured = mq_measured_step(&samples.measured[i], c->arena, &dropped, &weak).median;
		MQ_TRY(mq_validation_predict(samples.measured[i].schedule, cluster, calib, c->arena, &timeline, err));
		printf("  %-12s predicted %9.3f ms, measured %9.3f ms, ratio %.3f\n", samples.name[i],
		       1e3 * timeline.step_time_s, 1e3 * measured, timeline.step_time_s / measured);
	}
	return MQ_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum mq_status fit_part(struct calibrate *c, const struct input *in, struct mq_calibration *fit,
			       struct mq_err *err)
{
	double total_B = recorded(in->environment, "memory_total_B=");
	struct mq_calibration_request request = {
		.n_observed = in->observed.n,
		.observed = in->observed.call,
		.type = c->type  ? c->type :
			in->type ? in->type :
				   "unknown",
		.link_class = c->link_class ? c->link_class :
			      is_gpu(c)     ? "nvlink" :
					      "host-sm0",
		.source = mq_arena_printf(c->arena, "maquette calibrate, executor %s", c->call.executor),
		.kind = is_gpu(c) ? MQ_GPU : MQ_CPU,
		.n_draws = c->draws,
		.seed = c->call.seed,
		.run_sigma = in->run_sigma,
		.launch_interval_s = in->launch_interval_s,
		.memory_B = (total_B > 0 ? total_B : c->node.memory_B) / (double)c->devices,
		.cores = (double)c->call.cores
	};

	if (is_gpu(c)) {
		request.memory_B = total_B;
		request.cores = recorded(in->environment, "sm_count=");
		request.compute_capability = recorded(in->environment, "compute_capability=");
	}
	if (in->trace) {
		request.partial = true;
		request.source = mq_arena_printf(c->arena, "maquette calibrate, trace %s", in->trace->path);
		request.memory_B = in->trace->memory_B;
		request.cores = in->trace->sms;
		request.compute_capability = in->trace->compute_capability;
	}
	MQ_TRY(known_gpu(c, &request.libraries, &request.known, err));
	/* Memory of a process beyond its buffers: context and libraries. */
	request.reserve_B = recorded(in->environment, "memory_in_use_B=") - recorded(in->environment, "buffers_B=");
	if (!(recorded(in->environment, "buffers_B=") > 0))
		request.reserve_B = 0;
	MQ_TRY(mq_calibration_fit(&request, c->arena, fit, err));
	print_fit(fit);
	return MQ_OK;
}

/* fit[0]: the CPU devices; fit[1]: the link class between a CPU and a GPU, whose name does not depend on the GPU's
 * compute capability. Samples of CPUs are in folders inside the GPUs' samples. */
static enum mq_status fit_cpus(struct calibrate *c, struct mq_calibration *fit, struct mq_err *err)
{
	const char *dir = c->from.item[0];
	struct calibrate cpu = cpu_part(c), between = *c;
	struct input in = { 0 }, calls = { 0 };

	MQ_TRY(add_folder(&cpu, mq_arena_printf(c->arena, "%s/cpu", dir), &in, err));
	c->cpus = cpu.devices = in.n_devices;
	c->cpu_type = cpu.type = in.type;
	c->call.cores = cpu.call.cores = (uint32_t)fmax(1, recorded(in.environment, "cores_per_device="));
	printf("%u CPU device%s beside the GPUs:\n", c->cpus, c->cpus > 1 ? "s" : "");
	MQ_TRY(fit_part(&cpu, &in, &fit[0], err));
	between.link_class = "pcie-sm0";
	MQ_TRY(add_folder(&between, mq_arena_printf(c->arena, "%s/between", dir), &calls, err));
	puts("between CPU and GPU:");
	return fit_part(&between, &calls, &fit[1], err);
}

/* Writes the platform file of this node. Its links have a class of the GPU's compute capability, so that values
 * measured here take precedence over those of the general class. */
static enum mq_status save_platform(struct calibrate *c, const struct input *in, struct mq_calibration *fit,
				    struct mq_err *err)
{
	const char *link;

	if (is_gpu(c) && in->n_devices && in->environment && !c->call.share_gpu) {
		struct mq_node_gpus node = { .fit = &fit[0],
					     .samples = c->from.item[0],
					     .n_devices = in->n_devices,
					     .n_cpus = c->cpus,
					     .cpu = &fit[1] };

		MQ_TRY(mq_node_gpu_save(&node, c->platform_out, &link, err));
		if (!c->link_class)
			fit->link.name = mq_arena_printf(c->arena, "%s-sm%.0f", link, fit->device.compute_capability);
		return MQ_OK;
	}
	return c->node.cores && !is_gpu(c) ? write_platform(c, fit, err) : MQ_OK;
}

static enum mq_status fit_and_write(struct calibrate *c, const struct input *in, struct mq_err *err)
{
	struct mq_calibration *fit = mq_arena_array(c->arena, 4, struct mq_calibration);
	uint32_t n = c->cpus ? 3 : 1;

	MQ_TRY(fit_part(c, in, &fit[0], err));
	if (c->cpus)
		MQ_TRY(fit_cpus(c, &fit[1], err));
	const struct mq_log_group *second = in->logs.second;
	if (second) { /* the links between nodes, if logs also cover those inside a node */
		struct calibrate between = *c;
		struct input calls = { .observed = second->observed, .n_devices = second->ranks };

		between.link_class = second->link_class;
		printf("between nodes (%u ranks on %u):\n", second->ranks, second->nodes);
		MQ_TRY(fit_part(&between, &calls, &fit[n++], err));
	}
	if (fit->has_device)
		MQ_TRY(save_platform(c, in, fit, err));
	if (in->environment)
		MQ_TRY(mq_text_write(with_suffix(c->out, ".environment.txt", c->arena), in->environment,
				     strlen(in->environment), err));
	if (!fit->has_device && !fit->has_link)
		return mq_bad(err, "nothing can be fitted: a link class needs a collective of two sizes that "
				   "differ by 2, a device the shapes of 8 products and 6 sweeps");
	MQ_TRY(mq_calibration_save(fit, n, c->out, err));
	printf("%s: calibration of %s%s%s", c->out, fit->has_device ? fit->device.name : "links",
	       fit->has_link ? " and link class " : "", fit->has_link ? fit->link.name : "");
	if (c->cpus)
		printf(", of %s and link class %s", c->cpu_type, fit[2].link.name);
	if (second)
		printf(" and %s", fit[n - 1].link.name);
	putchar('\n');
	return fit->has_device && fit->has_link && !in->trace ? check_probes(c, fit, err) : MQ_OK;
}

static enum mq_status calibrate(struct calibrate *c, struct mq_err *err)
{
	const char *baseline = c->against ? with_suffix(c->against, ".samples", c->arena) : NULL;
	struct input in = { 0 };

	if (!c->out)
		return mq_bad(err, "calibrate: -o CALIB.json is missing");
	if (baseline && access(baseline, R_OK))
		return mq_bad(err, "--against %s: no folder %s beside it, which calibrate leaves", c->against,
			      baseline);
	/* Traces and logs of nccl-tests come from GPUs. */
	for (uint32_t i = 0; i < c->from.n; i++)
		if (mq_trace_probe(c->from.item[i]) || mq_logs_probe(c->from.item[i]))
			c->call.executor = "cuda";
	if (!is_gpu(c) && !c->call.cores)
		c->call.cores = 1;
	if (c->cpus && !is_gpu(c))
		return mq_bad(err, "--cpus puts CPU devices beside GPUs: give --executor cuda, or "
				   "--devices N for CPUs alone");
	if (!c->samples)
		c->samples = with_suffix(c->out, ".samples", c->arena);
	if (c->platform_out && c->from.n && !is_gpu(c)) /* on request: the samples come from this node */
		MQ_TRY(mq_node_read(&c->node, err));
	if (!c->platform_out)
		c->platform_out = with_suffix(c->out, ".xml", c->arena);
	if (!c->from.n) {
		MQ_TRY(mq_output_apart("samples in", c->samples, &baseline, 1, err));
		if (c->schedule_only && c->devices && c->type)
			c->node.cores = 0; /* another node, about which nothing is known here */
		else
			MQ_TRY(find_devices(c, err));
		MQ_TRY(measure(c, err));
		if (c->cpus)
			MQ_TRY(measure_cpus(c, err));
		if (c->schedule_only) { /* how to fit the measurements of another node */
			printf("maquette calibrate --executor %s --type %s --from %s -o %s\n", c->call.executor,
			       c->type, c->samples, c->out);
			return MQ_OK;
		}
		c->from.item[c->from.n++] = c->samples;
	} else if (is_gpu(c)) {
		/* The samples of CPU devices, if any, are in this folder. */
		c->cpus = !access(mq_arena_printf(c->arena, "%s/cpu", c->from.item[0]), R_OK);
	}
	MQ_TRY(read_input(c, &in, err));
	if (!c->devices)
		c->devices = in.n_devices ? in.n_devices : 1;
	if (!c->type)
		c->type = in.type;
	MQ_TRY(fit_and_write(c, &in, err));
	return baseline ? mq_probes_against(c->from.item[0], baseline, c->arena, err) : MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct calibrate c = { .arena = &arena };
	const struct mq_args args = { .table = { { rows, &c } },
				      .doc = "Measures this node (or fits samples brought from another) and writes its "
					     "calibration and platform file." };

	mq_args_defaults(rows, &c);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	c.call.launches = c.call.launches ?: levels[c.level].launches;
	c.call.reps = c.call.reps ?: levels[c.level].reps;
	c.draws = c.draws ?: levels[c.level].draws;
	return calibrate(&c, err);
}

MQ_DEFINE_COMMAND(calibrate, "measure hardware and fit its parameters");
