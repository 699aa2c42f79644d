/* program.h - inside lowering: templates of one micro-batch, and how they become a schedule.
 *
 * For each stage and pass there is a template: the tasks of all its devices for ONE micro-batch. The pipeline order of
 * each rank then strings instances of templates together (pipeline.c), so lowering costs one graph walk per stage and a
 * copy per micro-batch.
 *
 *   F       forward                       B        backward (with weight gradients unless these are apart)
 *   F_FIRST forward of the first micro-batch, with the gathering of new parameters that overlaps it
 *   B_FIRST backward of the first micro-batches where it differs: not recomputed (mq_low_keeps_one), without the
 *           gradient of the head's weights (mq_low_deferred)
 *   B_LAST  backward of the last micro-batch, with the gradient reduction that overlaps it
 *   W       weight gradients (zero bubble) W_LAST   the same for the last micro-batch
 *   REDUCE  what follows the last micro-batch: gradients that were left, reductions that nothing overlapped
 *   POST    behind those of all chunks: optimizer, parameter gathering
 *
 * Dependencies inside a template are local; between instances the order of the streams is enough, because a stage
 * boundary is always a send/recv pair. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_PROGRAM_H
#define MQ_LOWERING_PROGRAM_H

#include "base/index.h"
#include "lowering/lower.h"
#include "lowering/mesh.h"
#include "schedule/events.h"

enum mq_pass {
	MQ_PASS_F,
	MQ_PASS_F_FIRST,
	MQ_PASS_B,
	MQ_PASS_B_FIRST,
	MQ_PASS_B_LAST,
	MQ_PASS_W,
	MQ_PASS_W_LAST,
	MQ_PASS_REDUCE,
	MQ_PASS_POST,
	MQ_N_PASSES
};

/* The pass whose messages the passes of a first or last micro-batch exchange. */
static inline enum mq_pass mq_pass_kind(enum mq_pass pass)
{
	return pass == MQ_PASS_F_FIRST                           ? MQ_PASS_F :
	       pass == MQ_PASS_B_FIRST || pass == MQ_PASS_B_LAST ? MQ_PASS_B :
								   pass;
}

/* Part of a compute task before its kernels are made. */
struct mq_piece {
	uint32_t op, config;
	uint8_t phase;     /* enum mq_phase */
	uint8_t only;      /* 0 all kernels, 1 the input gradient, 2 the weight gradient */
	uint8_t again;     /* recomputed: does not count as model FLOPs */
	uint8_t host;      /* optimizer step on the host */
	uint8_t ring;      /* attention: 1 the ring's first step, 2 the later ones; `scale` is the
				  * share of the keys */
	uint8_t parts;     /* > 1: one of so many equal parts of the rows */
	uint8_t exchanged; /* see struct mq_share; known when its template ends */
	uint8_t spare;     /* no padding: pieces are compared as bytes */
	double samples;    /* of the micro-batch on this device */
	double scale;      /* of FLOPs and bytes: optimizer shards */
};

struct mq_owned_piece {
	struct mq_piece piece;
	uint32_t owner; /* local id of its task */
};

struct mq_ttask { /* a task of a template; deps are local ids */
	struct mq_task task;
	uint32_t piece_first, n_pieces; /* COMPUTE, while the template is open */
	bool waited;                    /* a compute task of its device waits for it already */
	double wait_s;                  /* COMPUTE: the device has nothing to do */
};

struct mq_template {
	uint32_t n_tasks, n_deps, task_room, dep_room;
	struct mq_ttask *task;
	uint32_t *dep;
};

/* A list of local task ids, in the scratch arena. */
struct mq_ids {
	uint32_t n, room;
	uint32_t *id;
};

/* One tensor on its way from a producer's layout to a consumer's: shared by all consumers that need the
 * same layout on the same devices. */
enum mq_way { MQ_WAY_STEPS, MQ_WAY_PAIRS, MQ_WAY_BOXES };
struct mq_transfer {
	uint32_t op;                     /* whose output (forward) or output gradient (backward) it is */
	uint32_t from_config, to_config; /* representatives of the layouts */
	struct mq_layout from, to;
	uint8_t way;             /* STEPS: collectives on the same devices; PAIRS: position to position;
				    BOXES: by intersection of what each holds */
	struct mq_step only;     /* STEPS: its one step; size 0 = it has none, or several */
	uint8_t channel;         /* 0 in the forward pass, 1 in the backward pass */
	bool inside;             /* forward: producer and consumers lie in one layer (recomputation) */
	bool again;              /* forward, while the backward pass sends it once more */
	uint32_t parts;          /* > 1: made by so many calls, each beside a part of the GEMM that
				    makes or takes the tensor (overlap_tp) */
	double elems;            /* per sample */
	double elem_B;           /* of an element, where collectives move it */
	uint32_t waits, n_waits; /* backward: producers still to come, and of all */
	uint32_t from_stage;
	uint32_t to_stage;
	uint8_t pass;           /* MQ_PASS_F or MQ_PASS_B: in which it is sent and received */
	struct mq_layout sent;  /* PAIRS: what the senders make of it first */
	double share;           /* PAIRS: of the tensor, in each message */
	struct mq_step gather;  /* PAIRS: what the receivers do; size 0 = nothing */
	uint32_t serial;        /* template in which `arrival` holds */
	struct mq_ids *arrival; /* [seats of to_config] tasks that deliver it there; NULL = there were none yet */
};

struct mq_bucket { /* gradients reduced by one call */
	uint32_t stage, unit;
	uint32_t config;  /* a config with the group's mesh */
	uint32_t n;       /* ranks of the group */
	uint32_t last_op; /* the op whose backward completes it */
	double elems;     /* parameters per rank that are trained */
	double gather_B;  /* of all that ZeRO-3 gathers, frozen ones too */
	double param_B;   /* of the trained ones as ZeRO-1 and 2 gather them */
	uint8_t sync;     /* enum mq_sync */
	bool late;        /* a part of it is made in REDUCE */
	uint32_t shard;   /* ranks over which ZeRO shards it; 1 = whole everywhere */
};

/* A dependency on whatever ran last on a stream of the same device, before this template's instance. */
#define MQ_DEP_STREAM(stream) (0xffffff00u | (uint32_t)(stream))

struct mq_message {
	uint32_t src, dst; /* schedule devices, MQ_NONE where not simulated */
	uint32_t transfer;
	uint32_t seat; /* of the receiver in to_config */
	double bytes;
};

/* Positions of a device list that have tasks: all, or those that stand for the others. */
struct mq_seats {
	uint32_t n;
	uint32_t *position; /* [n], increasing */
	uint32_t *device;   /* [n] schedule devices */
	uint32_t *at;       /* [positions] the seat, MQ_NONE = has no tasks */
};

/* Ranks that call a collective together. */
struct mq_group {
	uint32_t comm;
	uint32_t n_seats, *seat; /* members that have tasks, in their order */
	double fullest;          /* samples of the fullest member over the mean, where groups lie along a stride */
};
struct mq_groups {
	uint32_t n, room;
	struct mq_group *group;
};

/* Who is who. */
struct mq_numbering {
	uint32_t n_stages, n_ranks;       /* pipeline ranks = stages / virtual; mq_low_rank maps stages to them */
	uint32_t *stage_of;               /* [n_ops] */
	uint32_t *unit_of;                /* [n_ops] units inside the model, increasing (mq_low_units) */
	uint32_t *stage_first, *stage_op; /* CSR: ops of each stage in model order */
	uint32_t *devset_of;              /* [n_configs] configs with equal device lists share a number */
	double **samples;                 /* [n_configs][batch coordinates] of one micro-batch */
	uint32_t *rank_of_device;         /* [cluster devices] pipeline rank, MQ_NONE = not in the plan */
	bool explicit_backward;           /* the graph has backward ops of its own */
};

/* Tensors on their way (transfer.c, transfer_emit.c). */
struct mq_moves {
	uint32_t n, room;
	struct mq_transfer *transfer;           /* forward ones first */
	uint32_t *edge_forward, *edge_backward; /* [n_edges] transfer, or MQ_NONE = nothing to do */
	uint32_t *out_first;                    /* [n_ops + 1] the first forward transfer of each op's output */
	uint32_t n_messages, message_room;
	struct mq_message *message; /* sent by one template and received by another, in order of sending */
};

/* Gradients on their way (sync.c), by stage, in the order of the backward pass. */
struct mq_buckets {
	uint32_t n, room;
	struct mq_bucket *bucket;
	uint32_t *first; /* [n_stages + 1] of each stage */
	uint32_t *after; /* [n_ops] the one that the op completes, MQ_NONE = none */
};

/* The template being built (template.c). Arrays by schedule device; local ids of its tasks, MQ_NONE = none. */
struct mq_emitter {
	struct mq_template *t;
	uint32_t serial;              /* templates so far */
	uint32_t *open;               /* compute task that may grow */
	uint32_t *last_compute;       /* newest compute task */
	uint32_t *unit_end;           /* newest compute task at the last unit's start */
	uint32_t *copied;             /* last copy to or from the host */
	struct mq_ids *pending;       /* what the next compute task waits for */
	struct mq_ids *kv;            /* gathered keys and values (context parallelism) */
	struct mq_ids *gathered;      /* the next unit's parameters (backward_prefetch) */
	double *owed_s;               /* waits since the newest compute task */
	struct mq_owned_piece *piece; /* of all open tasks, in order of emission */
	uint32_t n_pieces, piece_room;
};

/* What the devices that are active do, but for the order of the passes (mq_low_templates). */
struct mq_program {
	const bool *active;           /* [cluster devices] that have tasks; NULL = all of the plan */
	uint32_t *index_of;           /* [cluster devices] schedule index, MQ_NONE = has no tasks */
	struct mq_schedule *schedule; /* devices, communicators, works; tasks once they are strung together */
	struct mq_seats **seats;      /* [n_configs] shared by configs with equal device lists */
	struct mq_index *group_index; /* requests for groups -> groups[] */
	uint32_t n_groups, group_room;
	struct mq_groups *groups;
	struct mq_members *member; /* [schedule's communicators] where only some devices are active */
	uint32_t member_room;
	struct mq_index *comm_index, *work_index; /* by content */
	struct mq_template *pass;                 /* [n_stages * MQ_N_PASSES] */
	uint32_t *firsts;                         /* [n_stages] micro-batches whose backward pass is B_FIRST */
	/* For instances from the first on that has gradients reduced or parameters gathered beside it: pass[] as it
	 * was before somebody changed it (folding/fuse.h); NULL where that makes no difference */
	struct mq_template *whole;
	bool *reduces;     /* [n_stages * MQ_N_PASSES] such a template */
	double tasks_each; /* of a device, in the templates that were made last; 0 = none were */
};

/* Activations that wait on the host (offload.c). */
struct mq_offload {
	double *leaves_B; /* of each unit of the stage, by schedule device; NULL = none does */
	uint32_t *copied; /* likewise, the tasks of the pass at hand */
	uint32_t window;  /* units from the one that leaves to the one that waits until it has left */
};

/* A plan on its way to a schedule. */
struct mq_low {
	struct mq_lower_request rq;
	struct mq_question q; /* with the model as the software pads it; software is not NULL */
	const struct mq_model *model;
	const struct mq_plan *plan; /* with the software's defaults */
	struct mq_plan *resolved;   /* the same, while it is made */
	const struct mq_train *train;
	const struct mq_software *software;
	struct mq_arena *arena; /* of the result */
	struct mq_arena scratch;
	struct mq_lowered *out;
	struct mq_numbering num;
	struct mq_moves moves;
	struct mq_buckets buckets;
	struct mq_offload *offload; /* [n_stages] */
	struct mq_emitter emit;
	struct mq_program prog;
};

/* ---- numbering.c: who is who ------------------------------------------------------------------------- */
/* Fills low->num and the devices of the result; REFUSED: a device works for two pipeline ranks. */
void mq_low_number(struct mq_low *low);
/* The unit of each op, unit_of[n_ops]: a layer, as many layers of a stage as uniform recomputation takes together, or
 * what stands between layers. Of `low`, the plan, the model and num.stage_of are read. */
void mq_low_units(const struct mq_low *low, uint32_t *unit_of);
static inline const struct mq_config *mq_low_config(const struct mq_low *low, uint32_t op)
{
	return &low->plan->config[low->plan->config_of[op]];
}
/* The pipeline rank of a stage, and the stage that is a rank's chunk (mq_pipeline_rank). */
uint32_t mq_low_rank(const struct mq_low *low, uint32_t stage);
uint32_t mq_low_stage(const struct mq_low *low, uint32_t rank, uint32_t chunk);
/* Is the micro-batch whose backward pass comes first not recomputed? In the order of gpipe it is the last. */
bool mq_low_keeps_one(const struct mq_low *low);
/* So many micro-batches, from the first on, leave the gradient of the op's weights to REDUCE: those of the head under
 * defer_embedding_wgrad_compute, 0 of other ops. */
uint32_t mq_low_deferred(const struct mq_low *low, uint32_t op);
/* The stream on which a tensor's messages leave its producer (SEND) or arrive at its consumer (RECV). */
enum mq_stream mq_low_stream(const struct mq_low *low, const struct mq_transfer *t, enum mq_task_kind kind);
/* Samples of a micro-batch at a batch coordinate of a config, and at a position of it. */
double mq_low_part(const struct mq_low *low, const struct mq_config *config, uint32_t batch_coordinate);
double mq_low_samples(const struct mq_low *low, const struct mq_config *config, uint32_t position);

/* ---- template.c: the pieces that templates are made of ------------------------------------------- */
void mq_template_begin(struct mq_low *low, uint32_t stage, enum mq_pass pass);
void mq_template_end(struct mq_low *low);
/* A task of no other device, communicator or micro-batch: who makes another sets these. */
static inline struct mq_task mq_task_of(enum mq_task_kind kind, uint32_t device, enum mq_stream stream, uint32_t op,
					enum mq_phase phase)
{
	return (struct mq_task){ .kind = (uint8_t)kind,
				 .device = device,
				 .stream = (uint8_t)stream,
				 .op = op,
				 .phase = (uint8_t)phase,
				 .comm = MQ_NONE,
				 .peer = MQ_NONE,
				 .micro_batch = MQ_NONE };
}
/* Appends a task with its deps; returns its local id. */
uint32_t mq_emit(struct mq_low *low, const struct mq_task *task, const struct mq_ids *deps);
/* A piece of compute on a device: joins the open task where nothing lies between. */
uint32_t mq_emit_compute(struct mq_low *low, uint32_t device, const struct mq_piece *piece, const struct mq_ids *deps);
/* Somebody waits for what this device has computed so far: later pieces start a new task. Returns the
 * newest compute task (MQ_NONE = none in this template). */
uint32_t mq_emit_seal(struct mq_low *low, uint32_t device);
/* A collective among the group's members: one task for each that has a seat. `after` gives the local ids that each
 * waits for, `done` receives its task. */
struct mq_coll_call {
	enum mq_coll_kind kind;
	enum mq_stream stream;
	const struct mq_seats *seats; /* of the group */
	double bytes;
	enum mq_dtype dtype;
	uint32_t op;
	enum mq_phase phase;
	uint32_t root;
};
void mq_emit_collective(struct mq_low *low, const struct mq_coll_call *call, const struct mq_group *group,
			const struct mq_ids *after, uint32_t *done);
/* The communicator of these cluster ranks, in their order; `apart`: another one than that of their other calls. */
uint32_t mq_comm_of(struct mq_low *low, const uint32_t *member, uint32_t n, const char *purpose, bool apart);
void mq_ids_add(struct mq_low *low, struct mq_ids *ids, uint32_t id);
void mq_ids_join(struct mq_low *low, struct mq_ids *ids, const struct mq_ids *more);

/* ---- groups.c: who has tasks, and who calls collectives with whom ---------------------------------- */
/* Before the templates, once it is known who has tasks. */
void mq_low_take_seats(struct mq_low *low);
static inline const struct mq_seats *mq_low_seats(const struct mq_low *low, const struct mq_config *config)
{
	return low->prog.seats[config - low->plan->config];
}
/* Groups of a config's positions in which somebody has a seat. */
struct mq_group_request {
	const struct mq_config *config;
	uint32_t mask;         /* ranks that differ along these dimensions of the mesh alone, as mq_mesh_group;
				* 0: `size` positions, every stride-th */
	uint32_t stride, size; /* of mesh groups, parts: `size` neighbours (stride 1), or every stride-th member */
	bool by_first;         /* in the order of their first members, not of the first that have seats */
	bool apart;            /* with communicators of their own */
	const char *purpose;
};
const struct mq_groups *mq_groups_of(struct mq_low *low, const struct mq_group_request *request);

/* ---- transfer.c, transfer_emit.c: tensors on the move -------------------------------------------------------------- */
void mq_transfers_plan(struct mq_low *low);
/* Everything that its producers have computed goes on its way. */
void mq_transfer_emit(struct mq_low *low, uint32_t transfer);
/* The k-th of `parts` calls of a transfer whose producer makes its output in as many parts. */
void mq_transfer_emit_part(struct mq_low *low, uint32_t transfer, uint32_t k);
/* The task that brings the k-th part of a gathered tensor to a seat, MQ_NONE = its own part (k 0). */
uint32_t mq_transfer_part(struct mq_low *low, uint32_t transfer, uint32_t seat, uint32_t k);
/* Is it one gathering of a forward tensor along the sequence (sequence parallelism)? Has it gone on its way in
 * this template? */
bool mq_transfer_gathers_sequence(const struct mq_moves *moves, uint32_t transfer);
bool mq_transfer_here(const struct mq_low *low, uint32_t transfer);
/* Is it one sum of a gradient among the ranks of a stage (tensor parallelism without its sequence)? */
bool mq_transfer_sums(const struct mq_moves *moves, uint32_t transfer);
/* Such a tensor once more, for the backward pass. */
void mq_transfer_emit_again(struct mq_low *low, uint32_t transfer);
/* Parts in which the GEMM runs that takes (gather) or makes (scatter) this tensor; 1 = as one. */
uint32_t mq_transfer_parts(const struct mq_moves *moves, uint32_t transfer, bool gather);
/* Receives what other templates sent to this stage and pass, in the order of sending. */
void mq_transfer_receive(struct mq_low *low, uint32_t stage, enum mq_pass pass);
/* Adds the tasks that a seat of the consumer must wait for. */
void mq_transfer_arrival(struct mq_low *low, uint32_t transfer, uint32_t seat, struct mq_ids *ids);

/* ---- passes.c: forward, backward, weight gradients of a stage ------------------------------------- */
void mq_pass_forward(struct mq_low *low, uint32_t stage, enum mq_pass pass);
void mq_pass_backward(struct mq_low *low, uint32_t stage, enum mq_pass pass);
/* What a step's last micro-batch is followed by: gradients of weights that micro-batches left for it, then reductions. */
void mq_pass_reduce(struct mq_low *low, uint32_t stage);
void mq_pass_weights(struct mq_low *low, uint32_t stage, enum mq_pass pass);

/* ---- shards.c: who holds what -------------------------------------------------------------------- */
/* Dimensions along which ranks hold the same parameters but different samples or tokens. */
extern const uint32_t mq_grad_mask;
/* Are the gradients of this config's ops reduced, and kept in shards, in every micro-batch? */
bool mq_reduces_always(const struct mq_low *low, const struct mq_config *config);
/* ZeRO-3: ranks among which the backward pass gathers parameters that `shard` ranks share; `shard`, or fewer of
 * them that hold a copy together. */
uint32_t mq_secondary(const struct mq_low *low, uint32_t shard);
/* Does ZeRO under these pipeline stages gather parameters and reduce gradients once a step? */
bool mq_once(const struct mq_low *low);
/* Ranks of a group of n over which this enum mq_sync shards; 1 where it does not. */
uint32_t mq_shard_size(const struct mq_low *low, uint8_t sync, uint32_t n);
/* Number of ranks over which an op's optimizer state (and for ZeRO-2 its gradients, ZeRO-3 its
 * parameters) is sharded; 1 without ZeRO. */
uint32_t mq_shard_of(const struct mq_low *low, uint32_t op);
/* Are new parameters gathered from their shards behind the optimizer step (ZeRO-1 and 2)? */
static inline bool mq_gathers_new(uint8_t sync)
{
	return sync == MQ_SYNC_ZERO1 || sync == MQ_SYNC_ZERO2;
}
/* Ranks that form the whole gradient of this op themselves (sync `duplicate`); 1 = not so. */
uint32_t mq_duplicates(const struct mq_low *low, uint32_t op);

/* ---- offload.c: activations on the host ------------------------------------------------------------ */
void mq_offload_plan(struct mq_low *low);
/* A forward pass begins `unit`; MQ_NONE: it ends. What the unit before it keeps leaves beside its compute, which waits
 * until what the unit of a window before has left. */
void mq_offload_leave(struct mq_low *low, uint32_t stage, uint32_t unit);
/* A backward pass begins `unit`: it waits for its activations, those of a unit of a window before it set out. */
void mq_offload_return(struct mq_low *low, uint32_t stage, uint32_t unit);

/* ---- sync.c: gradients, optimizer, parameters ------------------------------------------------------ */
void mq_buckets_plan(struct mq_low *low);
/* Reduction of the buckets that `op`'s backward completes, in a pass where that is due. */
void mq_sync_after(struct mq_low *low, uint32_t op, bool last);
/* ZeRO-3: the parameters of a unit are gathered, one unit ahead of the compute. Emitted at the unit's start; behind
 * what is reduced before it in the stream's order. */
void mq_sync_gather(struct mq_low *low, uint32_t stage, uint32_t unit, enum mq_phase phase);
/* The same at the start of the unit before it (FSDP's BACKWARD_PRE); mq_sync_gathered makes the next compute task
 * wait for it. */
void mq_sync_gather_ahead(struct mq_low *low, uint32_t stage, uint32_t unit);
void mq_sync_gathered(struct mq_low *low);
/* Is a bucket of this stage gathered beside the first forward pass? */
bool mq_sync_gathers_first(const struct mq_low *low, uint32_t stage);
/* Gathering of the buckets whose parameters `op` is the first to use in a forward pass, which waits for it. */
void mq_sync_before(struct mq_low *low, uint32_t op);
/* Reduction of all buckets that no micro-batch reduces. */
void mq_sync_reduce(struct mq_low *low, uint32_t stage);
void mq_pass_post(struct mq_low *low, uint32_t stage);

/* ---- pipeline.c: the order of each rank ------------------------------------------------------------ */
struct mq_slot {
	uint8_t pass; /* F, B or W */
	bool turns;   /* F of the steady state: takes turns with the B that follows */
	uint32_t chunk, micro_batch;
};
/* The list for pipeline rank `rank`, or NULL with a message (refused). */
struct mq_slot *mq_pipeline_order(const struct mq_plan *plan, uint32_t n_ranks, uint32_t rank, bool infer,
				  struct mq_arena *arena, uint32_t *n, char message[256]);

/* ---- steady.c: micro-batches that repeat those before them -------------------------------------------- */
/* The passes of a rank, the template of each, and the tasks that these and what follows them have. */
struct mq_order {
	struct mq_slot *slot;         /* [n] */
	const struct mq_template **t; /* [n] */
	uint32_t n;
	double tasks;
};
/* Replaces the orders of all ranks by those of fewer micro-batches, where the passes of those that are left out are
 * those of others again. `filling`: periods before those that are to be alike. NULL: no order is changed. */
const struct mq_steady *mq_low_steady(struct mq_low *low, uint32_t filling, struct mq_order *order);

/* ---- pair.c: a forward and a backward pass that take turns ------------------------------------------ */
/* The order in which the tasks of both are begun: [tasks of both], those of `backward` counted on from the
 * forward ones. Keeps the order of each template on every device. */
uint32_t *mq_pair_order(const struct mq_template *forward, const struct mq_template *backward, uint32_t n_devices,
			struct mq_arena *arena);

/* ---- memory.c --------------------------------------------------------------------------------------- */
void mq_low_memory(struct mq_low *low);
/* The schedule's `held`: what device_memory adds up, by device and stage. */
void mq_low_held(struct mq_low *low);

/* ---- lower.c: the steps; costs are put in between them (costing/launch_overhead.h), and views chosen (folding/fold.h) ---------- */
/* Numbers the plan, judges its memory and plans the tensors between devices. NULL: `lowered` has a final verdict. */
struct mq_low *mq_low_begin(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered);
/* The templates, communicators and works of the devices that are `active` ([cluster devices] of the plan, in whose
 * communicators `member` then has everyone), NULL = all of the plan. Any number of times, each from the start. False:
 * REFUSED, so many tasks would take too long; known from those that were made last, or from a part of these. */
bool mq_low_templates(struct mq_low *low, const bool *active);
/* The schedule that these templates make, or NULL and a verdict; `otherwise`: what to do where it has too many tasks,
 * behind the words that say so. `filling`: as for mq_low_steady, 0 = no micro-batch is left out. Any number of
 * times, each from the start. */
struct mq_schedule *mq_low_string(struct mq_low *low, const char *otherwise, uint32_t filling,
				  const struct mq_steady **steady);
/* The order of a rank in a step of so many micro-batches; false: there is none, the message says why. */
bool mq_low_order(struct mq_low *low, uint32_t rank, uint32_t micro_batches, struct mq_order *order, char message[256]);
/* Of no use where nobody may fold. */
#define MQ_LOW_FOLD "; let identical ranks be folded (no --no-fold, no --schedule)"
void mq_low_end(struct mq_low *low);

#endif
