/* trace.h - traces of real training steps, read into one table of events.
 *
 * A reader (kineto.c: PyTorch's profiler; nsys.c: Nsight Systems; chakra.c: MLCommons Chakra) fills the table from a
 * stream, so memory grows with the kept events, not with the file. calls.c derives collectives from it, works.c shapes,
 * classes.c the breakdown of a step and of its layers. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_TRACE_TRACE_H
#define MQ_VALIDATOR_TRACE_TRACE_H

#include <string.h>

#include "maquette/map.h"
#include "maquette/arena.h"
#include "maquette/model.h"
#include "maquette/types.h"

enum mq_event_kind {
	MQ_EVENT_KERNEL, /* on a device */
	MQ_EVENT_COPY,   /* memory copied or set by a device */
	MQ_EVENT_LAUNCH, /* a call of the CUDA runtime or driver that has a correlation */
	MQ_EVENT_OP,     /* an operator of the framework: with shapes, a convolution, or an optimizer's step */
	MQ_EVENT_NOTE,   /* the framework's description of a collective */
	MQ_EVENT_STEP,   /* a training step, as its program marked it */
	MQ_EVENT_LAYER   /* a range named after a layer with a number */
};

enum { MQ_TRACE_TENSORS = 6, MQ_TRACE_DIMS = 6 };

struct mq_tensor {
	uint32_t n_dims;
	double dim[MQ_TRACE_DIMS];
};

/* Operands as recorded. */
struct mq_trace_shape {
	uint32_t n;
	struct mq_tensor tensor[MQ_TRACE_TENSORS];
	uint8_t dtype[MQ_TRACE_TENSORS]; /* enum mq_dtype, MQ_N_DTYPES = another or unknown */
	double size_B[MQ_TRACE_TENSORS]; /* of an element; 0 = unknown */
};

/* Description of a collective. */
struct mq_trace_note {
	const char *collective, *group; /* interned; NULL = unknown */
	double in_n, out_n;             /* elements; NAN = unknown */
	double element_B;               /* 0 = unknown */
	uint32_t ranks;                 /* 0 = unknown */
};

struct mq_event {
	double start_us, dur_us;
	uint64_t correlation, external; /* 0 = none */
	const char *name;               /* interned */
	uint32_t device, thread;
	uint32_t shape, note; /* into the tables, MQ_NONE */
	uint8_t kind;
};

struct mq_trace {
	const char *path;
	struct mq_arena *arena;
	uint32_t n, room, n_shapes, shape_room, n_notes, note_room;
	struct mq_event *event; /* by start, after mq_trace_load */
	struct mq_trace_shape *shape;
	struct mq_trace_note *note;
	uint32_t rank, world; /* MQ_NONE, 0 = unknown */
	bool untimed;         /* only durations are known: events are placed one after another */
	uint64_t n_read;      /* events in the file, kept or not */
	/* The number of GPUs that the process sees, and properties of the first one; 0, NULL = unknown. */
	uint32_t gpus;
	const char *gpu;
	double memory_B, sms, compute_capability;
	struct mq_map *names_map;
	const char **names;
	uint32_t n_names, name_room;
};

/* Is this a trace that mq_trace_load reads? By its first bytes, or the suffix .et. */
bool mq_trace_probe(const char *path);
/* PATH of PATH@N, unless a file is named PATH@N; *device: N, else unchanged. */
const char *mq_trace_file(const char *path, struct mq_arena *arena, uint32_t *device);
/* MQ_EINPUT: unreadable, cut short (where), or without any kernel (tells what the file has). */
enum mq_status mq_trace_load(const char *path, struct mq_arena *arena, struct mq_trace *trace, struct mq_err *err);

/* For readers. */
/* Keeps an event, and its note unless that is NULL. */
void mq_trace_add(struct mq_trace *trace, struct mq_event event, const struct mq_trace_note *note);
const char *mq_trace_intern(struct mq_trace *trace, const char *text, size_t size);
enum mq_status mq_kineto_read(struct mq_trace *trace, struct mq_err *err);
enum mq_status mq_nsys_read(struct mq_trace *trace, struct mq_err *err); /* MQ_ENODEV: no SQLite */
enum mq_status mq_chakra_read(struct mq_trace *trace, struct mq_err *err);
/* The kind of a range by its name: NOTE, STEP, OP (an optimizer's step), LAYER, or -1. */
int mq_trace_range_kind(const char *name);
/* 3 of "layers.3", "TransformerLayer_3", "block 3"; MQ_NONE. */
uint32_t mq_trace_layer(const char *name);
/* Elements of an operand; 0: it has no dimensions. */
double mq_tensor_elements(const struct mq_tensor *tensor);
/* float, c10::BFloat16, Half, Long, bf16, f32, ...: bytes of an element, 0 = unknown; dtype may be NULL. */
double mq_trace_type(const char *name, size_t size, uint8_t *dtype);

/* ---- events of a list ------------------------------------------------------------------------- */

static inline bool mq_trace_starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}
/* Is the event's start inside another one? */
static inline bool mq_trace_holds(const struct mq_event *range, const struct mq_event *event)
{
	return range->start_us <= event->start_us && event->start_us < range->start_us + range->dur_us;
}
/* A list of events by start. */
struct mq_trace_list {
	uint32_t *event, n, room;
};
/* The number of events that have begun at this time. */
uint32_t mq_trace_begun(const struct mq_trace *trace, const struct mq_trace_list *list, double time_us);
struct mq_trace_list mq_trace_of_kind(const struct mq_trace *trace, enum mq_event_kind kind, struct mq_arena *arena);
/* Is an event in one of the marked steps? True if there are none. */
bool mq_trace_in_step(const struct mq_trace *trace, const struct mq_trace_list *steps, const struct mq_event *event);
/* Events of one kind by id, the first of each: launches by correlation, others by external id. */
struct mq_trace_named {
	const struct mq_trace *trace;
	enum mq_event_kind kind;
	struct mq_map map;
	struct mq_trace_list list;
};
void mq_trace_name(struct mq_trace_named *named, const struct mq_trace *trace, enum mq_event_kind kind,
		   struct mq_arena *arena);
/* The event with the same id as `event`; NULL: none. */
const struct mq_event *mq_trace_of_name(const struct mq_trace_named *named, const struct mq_event *event);

/* ---- calls.c --------------------------------------------------------------------------------- */

enum { MQ_TRACE_SENDRECV = MQ_N_COLL_KINDS, MQ_TRACE_OTHER_CALL };

/* One NCCL kernel. */
struct mq_trace_call {
	uint32_t event;    /* the kernel */
	uint32_t kind;     /* enum mq_coll_kind, MQ_TRACE_SENDRECV or MQ_TRACE_OTHER_CALL */
	uint32_t ranks;    /* 0 = unknown */
	uint32_t index;    /* ordinal among calls of equal kind, size and group on this rank */
	const char *group; /* NULL = unknown */
	double bytes;      /* as nccl-tests counts; NAN = unknown */
	double element_B;
	double own_s, least_s; /* duration here, and on the rank that came last */
};
enum mq_status mq_trace_calls(const struct mq_trace *trace, struct mq_arena *arena, struct mq_trace_call **call,
			      uint32_t *n, struct mq_err *err);
/* Removes waiting: sets least_s of the i-th call of a kind, size and group to its duration on the rank where it was
 * shortest. Returns the number of calls found on all ranks. */
uint32_t mq_trace_align(struct mq_trace_call *const *call, const uint32_t *n, uint32_t n_traces);
const char *mq_trace_call_name(uint32_t kind);

/* A row of the table of calls: all calls of one kind, size and number of ranks. */
struct mq_trace_row {
	uint32_t kind, ranks, count;
	double bytes, median_s, least_median_s; /* of own_s, least_s; one trace: the shortest own_s */
	double low_s, high_s;                   /* 95 % interval of the latter */
};
uint32_t mq_trace_rows(struct mq_trace_call *const *call, const uint32_t *n, uint32_t n_traces, struct mq_arena *arena,
		       struct mq_trace_row **row);

/* A GEMM, convolution or sweep whose shape was recorded, with its kernel's time. */
struct mq_trace_work {
	struct mq_kernel kernel;
	uint32_t count;
	double median_s, low_s, high_s;
};
/* *without: number of kernels whose operator has no shape. */
enum mq_status mq_trace_works(const struct mq_trace *const *trace, uint32_t n_traces, struct mq_arena *arena,
			      struct mq_trace_work **work, uint32_t *n, uint64_t *without, struct mq_err *err);

/* ---- classes.c ------------------------------------------------------------------------------- */

enum mq_trace_class {
	MQ_CLASS_GEMM,
	MQ_CLASS_CONV,
	MQ_CLASS_ATTENTION,
	MQ_CLASS_ELEMENTWISE,
	MQ_CLASS_OPTIMIZER,
	MQ_CLASS_COPY,
	MQ_CLASS_COMM,
	MQ_CLASS_EXPOSED,
	MQ_CLASS_IDLE_HOST,
	MQ_CLASS_IDLE_WAIT,
	MQ_CLASS_STEP,
	MQ_N_CLASSES
};
const char *mq_trace_class_name(enum mq_trace_class class);
/* The class of a kernel by its name; `op`: the operator that launched it, or NULL. */
enum mq_trace_class mq_trace_class_of(const char *kernel, const char *op);
/* Seconds per step, medians over the marked steps (or the whole trace as one step). */
struct mq_trace_shares {
	bool marked;
	double share_s[MQ_N_CLASSES];
};
void mq_trace_shares(const struct mq_trace *trace, struct mq_arena *arena, struct mq_trace_shares *shares);

/* Seconds per step of each layer's kernels in the forward pass, [n returned]; 0 layers: no ranges are named so. */
uint32_t mq_trace_layers(const struct mq_trace *trace, struct mq_arena *arena, double **forward_s);

/* ---- snapshot.c: PyTorch's memory snapshots, the memory of one process at the recorded peak ---------- */

/* Purpose of a tensor, by the Python frames that allocated it. BEFORE: it existed before the recording, so they are
 * unknown. */
enum mq_snapshot_purpose {
	MQ_SNAPSHOT_PARAMETERS,
	MQ_SNAPSHOT_GRADIENTS,
	MQ_SNAPSHOT_OPTIMIZER,
	MQ_SNAPSHOT_ACTIVATIONS, /* and buffers of the passes */
	MQ_SNAPSHOT_BEFORE,
	MQ_SNAPSHOT_OTHER,
	MQ_N_SNAPSHOT_PURPOSES
};
struct mq_snapshot {
	double of_B[MQ_N_SNAPSHOT_PURPOSES]; /* at the peak */
	double allocated_B;                  /* their sum */
	double reserved_B;                   /* of segments, at the end */
	uint32_t n_events;                   /* of the trace; 0: no trace, and blocks live at the end are counted */
	uint32_t device;
};
/* Loads the snapshot of the device with most events, or else most memory. MQ_EINPUT: no such file, no pickle of plain
 * data (base/pickle.h), no snapshot. */
enum mq_status mq_snapshot_load(const char *path, struct mq_arena *arena, struct mq_snapshot *snapshot,
				struct mq_err *err);

#endif
