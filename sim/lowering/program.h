/* program.h - shared by the files of lowering: templates of one micro-batch, and how they become a schedule.
 *
 * A template has the tasks of one pass of a stage, on all its devices, for ONE micro-batch. The schedule of a rank is a
 * sequence of instances of templates in its pipeline order (pipeline.c), so lowering costs one graph walk per stage and
 * a copy per micro-batch.
 *
 *   F       forward                       B        backward (with weight gradients unless these are apart)
 *   F_FIRST forward of the first micro-batch, with the gathering of new parameters that overlaps it
 *   B_FIRST backward of the first micro-batches if it differs: not recomputed (mq_low_keeps_one), or without the
 *           gradient of the head's weights (mq_low_deferred)
 *   B_LAST  backward of the last micro-batch, with the gradient reduction that overlaps it
 *   W       weight gradients (zero bubble); W_LAST: of the last micro-batch
 *   REDUCE  after the last micro-batch: deferred weight gradients, and reductions that B_LAST does not overlap
 *   POST    after REDUCE of all chunks: optimizer step, all-gather of parameters
 *
 * Dependencies lie within a template; between instances the order of the streams is enough, because a stage boundary is
 * always a send/recv pair. SPDX-License-Identifier: Apache-2.0 */
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

/* F or B for the variants of the first and last micro-batch, which exchange the same messages; else the pass. */
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
	uint8_t parts;     /* > 1: one of this number of equal parts of the rows */
	uint8_t exchanged; /* see struct mq_share; known when its template ends */
	uint8_t spare;     /* no padding: pieces are compared as bytes */
	double samples;    /* of the micro-batch on this device */
	double scale;      /* factor on FLOPs and bytes (optimizer shards) */
};

struct mq_owned_piece {
	struct mq_piece piece;
	uint32_t owner; /* local id of its task */
};

struct mq_ttask { /* a task of a template; deps are local ids */
	struct mq_task task;
	uint32_t piece_first, n_pieces; /* COMPUTE, while the template is open */
	bool waited;                    /* a compute task of its device waits for it already */
	double wait_s;                  /* COMPUTE: seconds in which the device idles for its host (handshake_ms) */
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

/* The transfer of a tensor from its producer's layout to a consumer's; shared by all consumers that need the same
 * layout on the same devices. */
enum mq_way { MQ_WAY_STEPS, MQ_WAY_PAIRS, MQ_WAY_BOXES };
struct mq_transfer {
	uint32_t op;                     /* its output (forward) or output gradient (backward) is moved */
	uint32_t from_config, to_config; /* representatives of the layouts */
	struct mq_layout from, to;
	uint8_t way;             /* STEPS: collectives on the same devices; PAIRS: a message per position; BOXES: a
				  * message per intersection of a sender's and a receiver's part */
	struct mq_step only;     /* STEPS: its one step; size 0 = it has none, or several */
	uint8_t channel;         /* 0 in the forward pass, 1 in the backward pass */
	bool inside;             /* forward: producer and consumers lie in one layer (recomputation) */
	bool again;              /* forward: being repeated by the backward pass (mq_transfer_emit_again) */
	uint32_t parts;          /* > 1: number of calls, each of which overlaps a part of the GEMM that produces or
				  * consumes the tensor (overlap_tp) */
	double elems;            /* per sample */
	double elem_B;           /* bytes of an element in collectives */
	uint32_t waits, n_waits; /* backward: producers that are not emitted yet; all producers */
	uint32_t from_stage;
	uint32_t to_stage;
	uint32_t like;          /* the transfer whose messages it uses (mq_low_alike_stages) */
	uint8_t pass;           /* MQ_PASS_F or MQ_PASS_B: the pass that sends and receives it */
	struct mq_layout sent;  /* PAIRS: layout to which the senders convert it first */
	double share;           /* PAIRS: share of the tensor per message */
	struct mq_step gather;  /* PAIRS: collective of the receivers; size 0 = none */
	uint32_t serial;        /* serial number of the template for which `arrival` is valid */
	struct mq_ids *arrival; /* [seats of to_config] tasks that deliver it; NULL = none so far */
};

struct mq_bucket { /* gradients reduced by one call */
	uint32_t stage, unit;
	uint32_t config;  /* a config with the group's mesh */
	uint32_t n;       /* ranks of the group */
	uint32_t last_op; /* the op whose backward completes it */
	double elems;     /* parameters per rank that are trained */
	double gather_B;  /* bytes that ZeRO-3 gathers, frozen parameters included */
	double param_B;   /* bytes of trained parameters that ZeRO-1 and 2 gather */
	uint8_t sync;     /* enum mq_sync */
	bool late;        /* a part of its gradients is computed in REDUCE */
	uint32_t shard;   /* ranks over which ZeRO shards it; 1 = not sharded */
};

/* A dependency on the newest task of a stream of the same device before the template's instance. */
#define MQ_DEP_STREAM(stream) (0xffffff00u | (uint32_t)(stream))

struct mq_message {
	uint32_t src, dst; /* schedule devices, MQ_NONE where not simulated */
	uint32_t transfer;
	uint32_t seat; /* of the receiver in to_config */
	double bytes;
};

/* Seats: the positions of a device list that have tasks. All have, or (folded) the representatives. */
struct mq_seats {
	uint32_t n;
	uint32_t *position; /* [n], increasing */
	uint32_t *device;   /* [n] schedule devices */
	uint32_t *at;       /* [positions] seat; MQ_NONE = no tasks */
};

/* Ranks that call a collective together. */
struct mq_group {
	uint32_t comm;
	uint32_t n_seats, *seat; /* members that have tasks, in order */
	double fullest;          /* of strided groups (mask 0): most samples of a member / mean */
};
struct mq_groups {
	uint32_t n, room;
	struct mq_group *group;
};

/* Numbers of stages, pipeline ranks and units. */
struct mq_numbering {
	uint32_t n_stages, n_ranks;       /* pipeline ranks = stages / virtual; mq_low_rank maps stages to them */
	uint32_t *stage_of;               /* [n_ops] */
	uint32_t *unit_of;                /* [n_ops] units inside the model, increasing (mq_low_units) */
	uint32_t *stage_first, *stage_op; /* CSR: ops of each stage in model order */
	uint32_t *devset_of;              /* [n_configs] equal for configs of equal device lists */
	double **samples;                 /* [n_configs][batch coordinates] of one micro-batch */
	uint32_t *rank_of_device;         /* [cluster devices] pipeline rank, MQ_NONE = not in the plan */
	uint32_t *like[2];                /* [n_stages] see mq_low_template; 0: passes forward, 1: all others */
	bool explicit_backward;           /* the graph has backward ops of its own */
};

/* All transfers (transfer.c, transfer_emit.c). */
struct mq_moves {
	uint32_t n, room;
	struct mq_transfer *transfer;           /* forward ones first */
	uint32_t *edge_forward, *edge_backward; /* [n_edges] transfer; MQ_NONE = none is needed */
	uint32_t *out_first;                    /* [n_ops + 1] the first forward transfer of each op's output */
	uint32_t n_messages, message_room;
	struct mq_message *message; /* sent by one template and received by another, in order of sending */
};

/* All gradient buckets (sync.c), by stage, in the order of the backward pass. */
struct mq_buckets {
	uint32_t n, room;
	struct mq_bucket *bucket;
	uint32_t *first; /* [n_stages + 1] first bucket of each stage */
	uint32_t *after; /* [n_ops] bucket that the op's backward completes; MQ_NONE = none */
};

/* The template being built (template.c). Arrays by schedule device hold local ids of its tasks; MQ_NONE = none. */
struct mq_emitter {
	struct mq_template *t;
	uint32_t serial;              /* templates so far */
	uint32_t *open;               /* compute task to which pieces may be added */
	uint32_t *last_compute;       /* newest compute task */
	uint32_t *unit_end;           /* newest compute task at the last unit's start */
	uint32_t *copied;             /* last copy to or from the host */
	struct mq_ids *pending;       /* dependencies of the next compute task */
	struct mq_ids *kv;            /* gathered keys and values (context parallelism) */
	struct mq_ids *gathered;      /* the next unit's parameters (backward_prefetch) */
	double *owed_s;               /* wait_s to add to the next compute task */
	struct mq_owned_piece *piece; /* of all open tasks, in order of emission */
	uint32_t n_pieces, piece_room;
};

/* The templates of the active devices, and what they refer to (mq_low_templates). */
struct mq_program {
	const bool *active;           /* [cluster devices] has tasks; NULL = all devices of the plan */
	uint32_t *index_of;           /* [cluster devices] schedule index; MQ_NONE = no tasks */
	struct mq_schedule *schedule; /* devices, communicators, works; mq_low_schedule adds the tasks */
	struct mq_seats **seats;      /* [n_configs] shared by configs with equal device lists */
	struct mq_index *group_index; /* requests for groups -> mq_groups */
	struct mq_members *member;    /* [schedule's communicators] all members, if only some devices are active */
	uint32_t member_room;
	struct mq_index *comm_index, *work_index; /* by content */
	struct mq_template *pass;                 /* [n_stages * MQ_N_PASSES] */
	uint32_t *firsts;                         /* [n_stages] micro-batches whose backward pass is B_FIRST */
	/* pass[] before its tasks were fused (folding/fuse.c): for instances from the first one on that reduces
	 * gradients or gathers parameters beside its compute; NULL = not needed */
	struct mq_template *whole;
	bool *reduces;     /* [n_stages * MQ_N_PASSES] the template does */
	double tasks_each; /* tasks per device in the newest templates; 0 = none were made */
};

/* Activations of a stage that are offloaded to the host (offload.c). */
struct mq_offload {
	double *leaves_B; /* [units of the stage][schedule devices] bytes offloaded; NULL = none */
	uint32_t *copied; /* likewise: the copy tasks of the current pass */
	uint32_t window;  /* a unit's compute waits until the unit this number before it has been copied */
};

/* The state of lowering a plan. */
struct mq_low {
	struct mq_lower_request rq;
	struct mq_question q; /* with the model as the software pads it; software is not NULL */
	const struct mq_model *model;
	const struct mq_plan *plan; /* with the software's defaults */
	struct mq_plan *resolved;   /* the same, while the defaults are filled in */
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

/* ---- numbering.c: stages, units, samples -------------------------------------------------------------- */
/* Fills low->num and the devices of the result; REFUSED: a device works for two pipeline ranks. */
void mq_low_number(struct mq_low *low);
/* Fills unit_of[n_ops]. A unit is a layer, the layers of a stage that uniform recomputation treats together, or the ops
 * between layers. Reads only the plan, the model and num.stage_of of `low`. */
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
/* Number of micro-batches, from the first on, that leave the gradient of the op's weights to REDUCE: of the head under
 * defer_embedding_wgrad_compute; 0 for other ops. */
uint32_t mq_low_deferred(const struct mq_low *low, uint32_t op);
/* The stream on which a tensor's messages leave its producer (SEND) or arrive at its consumer (RECV). */
enum mq_stream mq_low_stream(const struct mq_low *low, const struct mq_transfer *t, enum mq_task_kind kind);
/* Samples of a micro-batch at a batch coordinate of a config, and at one of its positions. */
double mq_low_part(const struct mq_low *low, const struct mq_config *config, uint32_t batch_coordinate);
double mq_low_samples(const struct mq_low *low, const struct mq_config *config, uint32_t position);

/* ---- template.c: adds tasks to the open template ------------------------------------------------- */
void mq_template_begin(struct mq_low *low, uint32_t stage, enum mq_pass pass);
void mq_template_end(struct mq_low *low);
/* A task without peer, communicator and micro-batch; a caller whose task has these sets them. */
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
/* Adds a piece of compute on a device: to the open task, or to a new one if none is open or `deps` are new. */
uint32_t mq_emit_compute(struct mq_low *low, uint32_t device, const struct mq_piece *piece, const struct mq_ids *deps);
/* Closes the device's open compute task, because another task will wait for it: later pieces start a new one. Returns
 * the newest compute task (MQ_NONE = none in this template). */
uint32_t mq_emit_seal(struct mq_low *low, uint32_t device);
/* Adds a collective of a group: one task for each member with a seat. after[seat]: local ids that it waits for;
 * done[seat]: receives its task. */
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
/* The communicator of these cluster ranks, in this order; `apart`: a separate one from that of their other calls. */
uint32_t mq_comm_of(struct mq_low *low, const uint32_t *member, uint32_t n, const char *purpose, bool apart);
void mq_ids_add(struct mq_low *low, struct mq_ids *ids, uint32_t id);
void mq_ids_join(struct mq_low *low, struct mq_ids *ids, const struct mq_ids *more);

/* ---- groups.c: seats, and the groups of collectives ------------------------------------------------ */
/* Fills prog.seats; call when prog.active is set, before the templates. */
void mq_low_take_seats(struct mq_low *low);
static inline const struct mq_seats *mq_low_seats(const struct mq_low *low, const struct mq_config *config)
{
	return low->prog.seats[config - low->plan->config];
}
/* The groups of a config's positions that have a seat. */
struct mq_group_request {
	const struct mq_config *config;
	uint32_t mask;         /* members differ along these dimensions of the mesh alone (mq_mesh_group); 0: `size`
				* positions, every stride-th */
	uint32_t stride, size; /* a mesh group is divided: `size` neighbours (stride 1), or every stride-th member */
	bool by_first;         /* groups in the order of their first members, not of their first seats */
	bool apart;            /* separate communicators for these groups */
	const char *purpose;
};
const struct mq_groups *mq_groups_of(struct mq_low *low, const struct mq_group_request *request);

/* ---- transfer.c, transfer_emit.c: tensors between layouts ------------------------------------------ */
void mq_transfers_plan(struct mq_low *low);
/* Emits a transfer; all its producers are emitted. */
void mq_transfer_emit(struct mq_low *low, uint32_t transfer);
/* Emits the k-th of `parts` calls of a transfer whose producer's GEMM is divided into as many parts. */
void mq_transfer_emit_part(struct mq_low *low, uint32_t transfer, uint32_t k);
/* The task that delivers the k-th part of a gathered tensor to a seat; MQ_NONE = the seat's own part (k 0). */
uint32_t mq_transfer_part(struct mq_low *low, uint32_t transfer, uint32_t seat, uint32_t k);
/* Is the transfer a single all-gather of a forward tensor along the sequence (sequence parallelism)? Has this template
 * emitted it? */
bool mq_transfer_gathers_sequence(const struct mq_moves *moves, uint32_t transfer);
bool mq_transfer_here(const struct mq_low *low, uint32_t transfer);
/* Is it a single all-reduce of a gradient in a stage (tensor parallelism without sequence parallelism)? */
bool mq_transfer_sums(const struct mq_moves *moves, uint32_t transfer);
/* Emits a forward transfer again, in a backward pass. */
void mq_transfer_emit_again(struct mq_low *low, uint32_t transfer);
/* Number of parts of the GEMM that consumes (gather) or produces (scatter) this tensor; 1 = undivided. */
uint32_t mq_transfer_parts(const struct mq_moves *moves, uint32_t transfer, bool gather);
/* Emits the receives of messages that other templates send to this stage and pass, in the order of sending. */
void mq_transfer_receive(struct mq_low *low, uint32_t stage, enum mq_pass pass);
/* Adds the tasks that a seat of the consumer must wait for. */
void mq_transfer_arrival(struct mq_low *low, uint32_t transfer, uint32_t seat, struct mq_ids *ids);

/* ---- passes.c: forward, backward, weight gradients of a stage ------------------------------------- */
void mq_pass_forward(struct mq_low *low, uint32_t stage, enum mq_pass pass);
void mq_pass_backward(struct mq_low *low, uint32_t stage, enum mq_pass pass);
/* REDUCE: the deferred weight gradients, then the reductions. */
void mq_pass_reduce(struct mq_low *low, uint32_t stage);
void mq_pass_weights(struct mq_low *low, uint32_t stage, enum mq_pass pass);

/* ---- shards.c: shards of parameters, gradients and optimizer state ------------------------------- */
/* Dimensions along which ranks hold the same parameters but different samples or tokens. */
extern const uint32_t mq_grad_mask;
/* Are the gradients of this config's ops reduced, and kept in shards, in every micro-batch? */
bool mq_reduces_always(const struct mq_low *low, const struct mq_config *config);
/* ZeRO-3: ranks among which the backward pass gathers parameters that `shard` ranks share: `shard`, or fewer that hold
 * a secondary copy together (ZeRO++ hpZ). */
uint32_t mq_secondary(const struct mq_low *low, uint32_t shard);
/* Does ZeRO gather parameters and reduce gradients once per step, because the plan has pipeline stages? */
bool mq_once(const struct mq_low *low);
/* Ranks of a group of n over which this enum mq_sync shards; 1 = it does not. */
uint32_t mq_shard_size(const struct mq_low *low, uint8_t sync, uint32_t n);
/* Number of ranks over which an op's optimizer state (and for ZeRO-2 its gradients, ZeRO-3 its
 * parameters) is sharded; 1 without ZeRO. */
uint32_t mq_shard_of(const struct mq_low *low, uint32_t op);
/* Are new parameters gathered from their shards after the optimizer step (ZeRO-1 and 2)? */
static inline bool mq_gathers_new(uint8_t sync)
{
	return sync == MQ_SYNC_ZERO1 || sync == MQ_SYNC_ZERO2;
}
/* Ranks that each compute the op's gradient for all samples of the group (sync `duplicate`); 1 = another sync. */
uint32_t mq_duplicates(const struct mq_low *low, uint32_t op);

/* ---- offload.c: activations on the host ------------------------------------------------------------ */
void mq_offload_plan(struct mq_low *low);
/* Call when a forward pass begins `unit`, or (MQ_NONE) ends: copies the activations of the unit before to the host, and
 * makes compute wait until those of the unit `window` before have been copied. */
void mq_offload_leave(struct mq_low *low, uint32_t stage, uint32_t unit);
/* Call when a backward pass begins `unit`: makes compute wait for its activations, and starts the copy of those of the
 * unit `window` - 1 before it. */
void mq_offload_return(struct mq_low *low, uint32_t stage, uint32_t unit);

/* ---- sync.c: gradients, optimizer, parameters ------------------------------------------------------ */
void mq_buckets_plan(struct mq_low *low);
/* Reduces the bucket that `op`'s backward completes, if it is due in this pass. */
void mq_sync_after(struct mq_low *low, uint32_t op, bool last);
/* ZeRO-3: gathers the parameters of a unit, one unit ahead of compute. Call at the unit's start; in the stream's order
 * the call follows reductions emitted before. */
void mq_sync_gather(struct mq_low *low, uint32_t stage, uint32_t unit, enum mq_phase phase);
/* The same, called at the start of the unit before (FSDP's BACKWARD_PRE); mq_sync_gathered makes the next compute task
 * wait for it. */
void mq_sync_gather_ahead(struct mq_low *low, uint32_t stage, uint32_t unit);
void mq_sync_gathered(struct mq_low *low);
/* Does the first forward pass overlap the gathering of a bucket of this stage? */
bool mq_sync_gathers_first(const struct mq_low *low, uint32_t stage);
/* Gathers the buckets whose parameters `op` is the first to use in a forward pass, which waits for them. */
void mq_sync_before(struct mq_low *low, uint32_t op);
/* Reduces all buckets that no micro-batch reduces. */
void mq_sync_reduce(struct mq_low *low, uint32_t stage);
void mq_pass_post(struct mq_low *low, uint32_t stage);

/* ---- alike_stages.c: stages that share their templates ---------------------------------------------- */
/* Fills num.like and the transfers' `like`; call it when transfers and buckets are planned. */
void mq_low_alike_stages(struct mq_low *low);
/* Index in prog.pass of the template of a pass of a stage: its own, or that of a stage of its rank that is like it.
 * Templates without use are empty. */
static inline uint32_t mq_low_template(const struct mq_low *low, uint32_t stage, uint32_t pass)
{
	return low->num.like[pass > MQ_PASS_F_FIRST][stage] * MQ_N_PASSES + pass;
}

/* ---- pipeline.c: the order of each rank ------------------------------------------------------------ */
struct mq_slot {
	uint8_t pass; /* MQ_PASS_F, _B or _W */
	bool turns;   /* F: its tasks alternate with those of the next slot, a B (mq_pair_order) */
	uint32_t chunk, micro_batch;
};
/* The slots of a pipeline rank, in order; NULL: refused, `message` tells why. */
struct mq_slot *mq_pipeline_order(const struct mq_plan *plan, uint32_t n_ranks, uint32_t rank, bool infer,
				  struct mq_arena *arena, uint32_t *n, char message[256]);

/* The slots of a rank with their templates. */
struct mq_order {
	struct mq_slot *slot;         /* [n] */
	const struct mq_template **t; /* [n] */
	uint32_t n;
	double tasks; /* of these, and of the rank's REDUCE and POST */
};
/* The order of a rank in a step of `micro_batches`; false: refused, `message` tells why. */
bool mq_low_order(struct mq_low *low, uint32_t rank, uint32_t micro_batches, struct mq_order *order, char message[256]);

/* ---- steady.c: micro-batches that repeat those before them -------------------------------------------- */
/* Replaces order[ranks] by orders of fewer micro-batches, if the passes left out repeat those before them. A period is
 * as many micro-batches as there are pipeline ranks; the first `filling` periods may differ from the others. Returns
 * what is left out; NULL: nothing, and `order` is unchanged. */
const struct mq_steady *mq_low_steady(struct mq_low *low, uint32_t filling, struct mq_order *order);

/* ---- pair.c: a forward and a backward pass whose tasks alternate ------------------------------------ */
/* A common order of both templates' tasks, [tasks of both] local ids; those of `backward` count on from the last of
 * `forward`. Keeps each template's order on every device. */
uint32_t *mq_pair_order(const struct mq_template *forward, const struct mq_template *backward, uint32_t n_devices,
			struct mq_arena *arena);

/* ---- memory.c --------------------------------------------------------------------------------------- */
void mq_low_memory(struct mq_low *low);
/* Fills the schedule's `held`: the memory model's bytes by device and stage. */
void mq_low_held(struct mq_low *low);

/* ---- lower.c: the steps of lowering. Callers add host costs between them (costing/costing.h) and choose the
 * devices (folding/fold.h) ------------------------------------------------------------------------------ */
/* Numbers the plan, judges its memory and plans the tensors between devices. NULL: `lowered` has a final verdict. */
struct mq_low *mq_low_begin(const struct mq_lower_request *request, struct mq_arena *arena, struct mq_lowered *lowered);
/* Makes the templates, communicators and works of the `active` devices ([cluster devices]; NULL = all of the plan). May
 * be called again, for other devices. False: REFUSED, the simulation would take too long, estimated from the tasks of
 * the templates before, or of a part of the new ones. */
bool mq_low_templates(struct mq_low *low, const bool *active);
/* Makes the schedule of these templates; NULL: `lowered` has a verdict. `otherwise`: the remedy for too many tasks,
 * which ends that message. `filling`: as for mq_low_steady, and 0 = leave out no micro-batch; *steady: what is left
 * out, or NULL. May be called again. */
struct mq_schedule *mq_low_schedule(struct mq_low *low, const char *otherwise, uint32_t filling,
				    const struct mq_steady **steady);
/* `otherwise` where the user's options forbid folding. */
#define MQ_LOW_FOLD "; let identical ranks be folded (no --no-fold, no --schedule)"
void mq_low_end(struct mq_low *low);

#endif
