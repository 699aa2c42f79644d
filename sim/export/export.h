/* export.h - writes a plan as launch settings or a trace, and reads launch settings as plans.
 *
 * A target's settings belong to one training software (its file has "target"), and they can express the plans of that
 * software's space: mq_software_runs decides, for verdicts and `runs_in` as for exports. So writers only get plans that
 * they can express: the shape of the plan, and the plan resolved with the software's defaults. FlagScale, the only one
 * with degrees per device type, reads stages and checks them itself. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_EXPORT_EXPORT_H
#define MQ_EXPORT_EXPORT_H

#include <stdio.h>

#include "session/session.h"
#include "maquette/fine_tune.h"
#include "maquette/plan.h"
#include "maquette/software.h"
#include "model/builders/lib/transformer.h"

struct mq_export {
	const struct mq_model *model;
	const struct mq_cluster *cluster;
	const struct mq_train *train;
	struct mq_tuning tuning; /* --train; imports: not read */
	const struct mq_plan *plan;
	struct mq_arena *arena;
	bool fsdp;        /* megatron: its FSDP instead of its distributed optimizer */
	const char *dir;  /* folder for targets that write several files */
	const char *head; /* comment lines: plan, release, prediction, trust */
	/* set by mq_export_open */
	const struct mq_software *software;
	const struct mq_calib *calib;
	struct mq_plan_form form;
	struct mq_shape shape;   /* no degree is 0 */
	struct mq_plan resolved; /* with the software's defaults */
	uint32_t micro_batch;    /* samples of one replica's micro-batch */
	uint32_t *rank, n_ranks; /* devices in the order of ranks */
	bool replica_major;      /* rank order: all stages of a replica first */
};

/* Reads the plan; MQ_EINPUT: q's software does not run it, with the reason. */
enum mq_status mq_export_open(struct mq_export *e, const struct mq_question *q, struct mq_err *err);
/* Builds a shape's plan; decisions that a shape lacks come from `like`. */
enum mq_status mq_export_build(const struct mq_export *e, const struct mq_shape *shape, const struct mq_plan *like,
			       struct mq_plan *plan, struct mq_err *err);
/* MQ_EINPUT: the file trains adapters (LoRA), the question does not. */
enum mq_status mq_export_check_tuning(const struct mq_export *e, const char *path, const char *text,
				      struct mq_err *err);
/* The modules with adapters by a framework's names, quoted and separated by ','; "": full training. names: pairs of a
 * word of --train and the framework's name (NULL: the word itself), ended by NULL. Returns NULL if the framework has no
 * name for a word. Sets lora (the names), rank, alpha and dropout of the template. */
struct mq_template;
const char *mq_export_adapters(const struct mq_export *e, const char *const (*names)[2], struct mq_template *values);
/* Samples of a micro-batch on one of `dp` replicas; MQ_EINPUT: no integer. */
enum mq_status mq_export_micro_batch(const struct mq_export *e, uint32_t dp, uint32_t *samples, struct mq_err *err);

/* The machines of the ranks: one per contiguous range of ranks on a node. */
struct mq_export_node {
	uint32_t node, first, n; /* ranks first ... first + n - 1 */
};
uint32_t mq_export_nodes(const struct mq_export *e, struct mq_export_node **node);
/* Comment lines, each after `comment`: the head, and a line per machine unless its GPUs are all used in order. */
const char *mq_export_head_lines(const struct mq_export *e, const char *comment);
/* "NCCL_ALGO=Ring NCCL_PROTO=Simple ", if the plan forces them; else "". */
const char *mq_export_nccl(const struct mq_export *e);

/* Values of a template for the fields of a description, by name; `yes` and `no` for true and false. Numbers that are 0
 * are "" where `no` is "", reals always. */
void mq_export_fields(struct mq_template *values, const struct mq_transformer *t, const char *yes, const char *no);
/* A file of e->dir; the model as Hugging Face's config.json. MQ_EINPUT: no family matches the model. */
enum mq_status mq_export_put(const struct mq_export *e, const char *name, const char *text, struct mq_err *err);
enum mq_status mq_export_huggingface(const struct mq_export *e, const char **config, struct mq_err *err);

/* Megatron's --recompute-method and --recompute-num-layers of a plan with full recomputation. */
const char *mq_export_recompute(const struct mq_export *e, uint32_t *layers);
/* Megatron's --recompute-modules, separated by spaces, of the software's recompute_ops; and back. NULL: none, or an
 * unknown module, in *unknown. */
const char *mq_export_modules(const struct mq_export *e, const char **unknown);
const char *mq_import_modules(const char *modules, struct mq_arena *arena, const char **unknown);

/* The flags of Megatron-LM for the model. MQ_EINPUT: a part of the model without a flag, by name. */
enum mq_status mq_export_megatron_model(const struct mq_export *e, const char **flags, struct mq_err *err);

/* Values of a template for Megatron-LM's flags of a plan; megatron.sh.in uses them all. MQ_EINPUT: a decision that
 * Megatron lacks, by name. */
enum mq_status mq_export_megatron_values(const struct mq_export *e, struct mq_template *values, struct mq_err *err);

/* Targets: the settings as text, in the arena. MQ_EINPUT: a file beside it cannot be written; flagscale: it cannot
 * express the plan, with the reason. */
enum mq_status mq_export_megatron(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_megatron_bridge(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_deepspeed(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_torchtitan(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_flagscale(const struct mq_export *e, const char **text, struct mq_err *err);
/* A simulated schedule, for other simulators. */
struct mq_schedule;
struct mq_timeline;
struct mq_task;
struct mq_export_run {
	const struct mq_schedule *schedule;
	const struct mq_timeline *timeline; /* without contention */
	const char *dir;
	uint32_t *number;        /* [devices of the schedule] its number in the files */
	bool one_call_at_a_time; /* a device's sends and collectives run one after the other, as in ASTRA-sim */
};
/* One execution trace per device: DIR/chakra.NUMBER.et (protobuf, schema of MLCommons Chakra 1.0.0). */
enum mq_status mq_export_chakra(const struct mq_export_run *run, struct mq_err *err);
/* Bytes of a call in such a trace: an integer per member. */
uint64_t mq_export_comm_size(const struct mq_schedule *schedule, const struct mq_task *task);
/* These traces, and ASTRA-sim's further files for its analytical network. Sets run->number. Prints to `report` its
 * network's times of the plan's calls. MQ_EINPUT: machines of different size, a collective that ASTRA-sim lacks. */
enum mq_status mq_export_astra_sim(struct mq_export_run *run, const struct mq_cluster *cluster, double simulated_s,
				   FILE *report, struct mq_err *err);

/* PyTorch's names of schedules, and their default stages per rank; NULL ends the list. */
extern const struct mq_torch_schedule {
	const char *name;
	uint8_t pipeline;
	uint32_t chunks;
} mq_torch_schedules[];

/* The difference of two descriptions of the model: "rope.kind is linear and none (of -m, and of the flags)"; NULL:
 * none. said NULL: the model is no stack of blocks. */
const char *mq_export_differs(const struct mq_export *e, const struct mq_transformer *said, const char *of);

/* Imports: a plan from exported or a user's own settings. MQ_EINPUT: an error in them, or a conflict with the
 * question's model or batch; batch 0: the launch's. */
struct mq_import_notes {
	const char *skipped;  /* " a b": unread flags or keys */
	const char *question; /* " --dtype bf16 ...": types of the launch that differ from the question */
	double batch;         /* samples of a step */
};
/* The batch of the question, else of the launch (0: none). */
enum mq_status mq_import_batch(const struct mq_export *e, double said, double *batch, struct mq_err *err);
/* Launch settings of any program as words of Megatron-LM's command line, for import_megatron.c. */
struct mq_launch {
	const char *path, *text;
	const char *program; /* the program of the settings: "Megatron-LM", "torchtitan", ... */
	const char **word;   /* NULL-terminated; Megatron's flags and those of the table in launch.c */
	const char **doubt;  /* words of undecided branches of a script */
	const char *unread;  /* " a b c": unread keys */
};

/* Reads shell, YAML, TOML or JSON, told apart by file name and contents. Python recipes and ds_config.json have their
 * own readers (program "torchtitan recipe", "DeepSpeed"). MQ_EINPUT: unreadable or invalid; a setting that plans cannot
 * express, or that refers to another file. */
enum mq_status mq_launch_read(const char *path, struct mq_arena *arena, struct mq_launch *launch, struct mq_err *err);
/* Is the flag present? The number after it; 0 = absent. */
bool mq_launch_has(const struct mq_launch *launch, const char *flag);
double mq_launch_number(const struct mq_launch *launch, const char *flag);

/* Settings as Megatron-LM's flags. MQ_EINPUT also: no setting defines a plan. */
enum mq_status mq_import_megatron(const struct mq_export *e, const struct mq_launch *launch, struct mq_plan *plan,
				  struct mq_import_notes *notes, struct mq_err *err);
/* Words of --data-parallel-sharding-strategy, by enum mq_sync. */
extern const char *const mq_megatron_sharding[];
/* A recipe of `export --to torchtitan`. */
enum mq_status mq_import_torchtitan(const struct mq_export *e, const char *text, struct mq_plan *plan,
				    struct mq_import_notes *notes, struct mq_err *err);
/* A ds_config.json, with hostfile and config.json beside it, if present. */
enum mq_status mq_import_deepspeed(const struct mq_export *e, const char *path, struct mq_plan *plan,
				   struct mq_import_notes *notes, struct mq_err *err);

/* The model of a recipe of `export`. MQ_EINPUT: a setting is missing, or no number. */
enum mq_status mq_titan_read_model(const char *text, struct mq_arena *arena, struct mq_transformer *t,
				   struct mq_err *err);

#endif
