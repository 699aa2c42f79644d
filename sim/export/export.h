/* export.h - a plan as a launcher's settings.
 *
 * A target's settings are those of one training software (its file says "target"), and what they can say is that
 * software's space: mq_software_runs decides, for verdicts and `runs_in` as for exports. So a writer is handed plans
 * that it can say: the shape that builds the plan, and the plan resolved with what it leaves to the software.
 * FlagScale, which alone has degrees per device type, reads stages and says itself what it refuses.
 * SPDX-License-Identifier: Apache-2.0 */
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
	const char *head; /* lines for the reader: plan, release, prediction, trust */
	/* by mq_export_open */
	const struct mq_software *software;
	struct mq_plan_form form;
	struct mq_shape shape;   /* no degree is 0 */
	struct mq_plan resolved; /* with what the software decides */
	uint32_t micro_batch;    /* samples of one replica's */
	uint32_t *rank, n_ranks; /* devices in the order of ranks */
	bool replica_major;      /* ranks go through a replica's stages first */
};

/* Reads the plan; MQ_EINPUT: q's software does not run it, and why. */
enum mq_status mq_export_open(struct mq_export *e, const struct mq_question *q, struct mq_err *err);
/* Builds a shape's plan with the switches that a shape does not hold taken from `like`. */
enum mq_status mq_export_build(const struct mq_export *e, const struct mq_shape *shape, const struct mq_plan *like,
			       struct mq_plan *plan, struct mq_err *err);
/* MQ_EINPUT: the text of this file trains adapters (LoRA), and the question does not. */
enum mq_status mq_export_check_tuning(const struct mq_export *e, const char *path, const char *text,
				      struct mq_err *err);
/* The modules that adapters stand at by a framework's names, in quotes and with ',' between; "": all is trained. `names`
 * pairs words of --train with the framework's name (NULL: the word itself) and ends with NULL. Returns NULL where the
 * framework has no name for a word. Sets lora (the names), rank, alpha and dropout of the template. */
struct mq_template;
const char *mq_export_adapters(const struct mq_export *e, const char *const (*names)[2], struct mq_template *values);
/* Samples of a micro-batch on one of `dp` replicas; MQ_EINPUT where that is no whole number. */
enum mq_status mq_export_micro_batch(const struct mq_export *e, uint32_t dp, uint32_t *samples, struct mq_err *err);

/* The machines of the ranks: one per run of ranks of a node. */
struct mq_export_node {
	uint32_t node, first, n; /* ranks first ... first + n - 1 */
};
uint32_t mq_export_nodes(const struct mq_export *e, struct mq_export_node **node);
/* Comment lines, `comment` before each: the head, and a line per machine where its GPUs are not simply all in order. */
const char *mq_export_head_lines(const struct mq_export *e, const char *comment);
/* "NCCL_ALGO=Ring NCCL_PROTO=Simple " of what the plan forces, or "". */
const char *mq_export_nccl(const struct mq_export *e);

/* A file of e->dir; and the model's stack of blocks as Hugging Face's config.json. MQ_EINPUT: no family of its has it. */
enum mq_status mq_export_put(const struct mq_export *e, const char *name, const char *text, struct mq_err *err);
enum mq_status mq_export_huggingface(const struct mq_export *e, const char **config, struct mq_err *err);

/* Megatron's --recompute-method and --recompute-num-layers of a plan that recomputes fully. */
const char *mq_export_recompute(const struct mq_export *e, uint32_t *layers);
/* Megatron's --recompute-modules, spaces between, that the software's recompute_ops are; the same back. NULL: there are
 * none, or no such module, which *unknown names. */
const char *mq_export_modules(const struct mq_export *e, const char **unknown);
const char *mq_import_modules(const char *modules, struct mq_arena *arena, const char **unknown);

/* The flags of Megatron-LM that say the model. MQ_EINPUT: a part of it for which there is none, by name. */
enum mq_status mq_export_megatron_model(const struct mq_export *e, const char **flags, struct mq_err *err);

/* What Megatron-LM's flags say of a plan, as values of a template: megatron.sh.in has them all. MQ_EINPUT: a switch that
 * Megatron does not have, by name. */
enum mq_status mq_export_megatron_values(const struct mq_export *e, struct mq_template *values, struct mq_err *err);

/* Targets: the settings as text, in the arena. MQ_EINPUT: a file beside it cannot be written; flagscale: the reason why
 * it cannot say this plan. */
enum mq_status mq_export_megatron(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_megatron_bridge(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_deepspeed(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_torchtitan(const struct mq_export *e, const char **text, struct mq_err *err);
enum mq_status mq_export_flagscale(const struct mq_export *e, const char **text, struct mq_err *err);
/* A schedule that was simulated, for other simulators. */
struct mq_schedule;
struct mq_timeline;
struct mq_task;
struct mq_export_run {
	const struct mq_schedule *schedule;
	const struct mq_timeline *timeline; /* with nothing in each other's way */
	const char *dir;
	uint32_t *number;        /* [devices of the schedule] what the files call it */
	bool one_call_at_a_time; /* a device's sends and collectives follow each other, as ASTRA-sim runs them */
};
/* One execution trace per device: DIR/chakra.NUMBER.et (protobuf, schema of MLCommons Chakra 1.0.0). */
enum mq_status mq_export_chakra(const struct mq_export_run *run, struct mq_err *err);
/* Bytes of a call as such a trace says them: whole ones for each member. */
uint64_t mq_export_comm_size(const struct mq_schedule *schedule, const struct mq_task *task);
/* Those traces, and what ASTRA-sim needs beside them to run with its analytical network. Sets run->number. Prints to
 * `report` how its network prices the plan's calls. MQ_EINPUT: machines of unlike size, a collective it does not have. */
enum mq_status mq_export_astra_sim(struct mq_export_run *run, const struct mq_cluster *cluster, double simulated_s,
				   FILE *report, struct mq_err *err);

/* PyTorch's names of schedules, and the stages that they have for each rank where nothing is said; NULL at the end. */
extern const struct mq_torch_schedule {
	const char *name;
	uint8_t pipeline;
	uint32_t chunks;
} mq_torch_schedules[];

/* What `of` says otherwise of the model: "rope.kind is linear and none (of -m, and of the flags)"; NULL: nothing. `said`
 * NULL: it is no stack of blocks. */
const char *mq_export_differs(const struct mq_export *e, const struct mq_transformer *said, const char *of);

/* Back: a plan from what was exported, or from a user's own. MQ_EINPUT: what is wrong, or what does not go with the
 * model or the batch of the question, whose batch may be 0: then it is the launch's. */
struct mq_import_notes {
	const char *skipped;  /* " a b": flags or keys that are not read */
	const char *question; /* " --dtype bf16 ...": types that the launch says and the question has otherwise */
	double batch;         /* samples of a step */
};
/* The batch of the question, else what the launch says (0: nothing). */
enum mq_status mq_import_batch(const struct mq_export *e, double said, double *batch, struct mq_err *err);
/* Launch settings of whatever program as words of Megatron-LM's command line, which import_megatron.c reads. */
struct mq_launch {
	const char *path, *text;
	const char *program; /* whose settings these are: "Megatron-LM", "torchtitan", ... */
	const char **word;   /* NULL-terminated; besides Megatron's flags, those of the table in launch.c */
	const char **doubt;  /* words of branches that a script does not decide */
	const char *unread;  /* " a b c": keys that are not read */
};

/* Reads shell, YAML, TOML or JSON, as the name and the text say. A plan is a file that has settings of one; what a
 * Python recipe and ds_config.json have is found by their own readers (program "torchtitan recipe", "DeepSpeed").
 * MQ_EINPUT: cannot be read, broken; a setting that no plan has a word for, or that stands in another file. */
enum mq_status mq_launch_read(const char *path, struct mq_arena *arena, struct mq_launch *launch, struct mq_err *err);
/* Is the flag there? The number behind it; 0 = the launch has none. */
bool mq_launch_has(const struct mq_launch *launch, const char *flag);
double mq_launch_number(const struct mq_launch *launch, const char *flag);

/* Settings as Megatron-LM's flags. MQ_EINPUT too: none of them says a plan. */
enum mq_status mq_import_megatron(const struct mq_export *e, const struct mq_launch *launch, struct mq_plan *plan,
				  struct mq_import_notes *notes, struct mq_err *err);
/* Words of --data-parallel-sharding-strategy, by enum mq_sync. */
extern const char *const mq_megatron_sharding[];
/* A recipe as `export --to torchtitan` writes them. */
enum mq_status mq_import_torchtitan(const struct mq_export *e, const char *text, struct mq_plan *plan,
				    struct mq_import_notes *notes, struct mq_err *err);
/* A ds_config.json, with hostfile and config.json beside it where they are there. */
enum mq_status mq_import_deepspeed(const struct mq_export *e, const char *path, struct mq_plan *plan,
				   struct mq_import_notes *notes, struct mq_err *err);

/* The model of a recipe as `export` writes them. MQ_EINPUT: a setting is missing, or is no number. */
enum mq_status mq_titan_read_model(const char *text, struct mq_arena *arena, struct mq_transformer *t,
				   struct mq_err *err);

#endif
