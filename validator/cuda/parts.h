/* parts.h - the parts of the cuda executor. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_VALIDATOR_CUDA_PARTS_H
#define MQ_VALIDATOR_CUDA_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "maquette/map.h"
#include "cuda/toolkit.h"
#include "replay/rank.h"
#include "maquette/wire.h"

/* ---- libraries.c -------------------------------------------------------------------- */

/* Opens libcudart (or the file in MAQUETTE_CUDART). MQ_ENODEV: names the missing library. */
enum mq_status cuda_open_runtime(struct mq_toolkit *kit, struct mq_err *err);
enum mq_status cuda_open_blas(struct mq_toolkit *kit, struct mq_err *err); /* MAQUETTE_CUBLAS */
enum mq_status cuda_open_nccl(struct mq_toolkit *kit, struct mq_err *err); /* MAQUETTE_NCCL */
/* MQ_ENODEV: cublasLt (MAQUETTE_CUBLASLT), cuDNN (MAQUETTE_CUDNN) is missing; tells what needs it. */
enum mq_status cuda_open_lt(struct mq_toolkit *kit, struct mq_err *err);
enum mq_status cuda_open_dnn(struct mq_toolkit *kit, struct mq_err *err);
/* NVRTC and the driver's library (MAQUETTE_NVRTC, MAQUETTE_CUDA): are both there? */
bool cuda_open_nvrtc(struct mq_toolkit *kit);
/* Is a library switched off, by VARIABLE=off? */
bool cuda_is_off(const char *variable);
void cuda_open_nvml(struct mq_toolkit *kit); /* optional */
struct cuda;
/* Binds the process to the cores near its GPU (by /sys), unless its launcher has bound it. */
void cuda_pin_near(const struct cuda *c);
/* Is the GPU in MIG mode, so that a process sees one of its compute instances? */
bool cuda_is_mig(const struct mq_toolkit *kit, void *nvml);
/* Number of GPUs; MQ_ENODEV: none, with the reason. */
enum mq_status cuda_count(const struct mq_toolkit *kit, int *count, struct mq_err *err);

/* ---- state ----------------------------------------------------------------------------------- */

/* An NCCL communicator: for a communicator of schedules with the algorithm and protocol of its plan, or for a directed
 * pair and channel. */
struct cuda_comm {
	uint32_t n;
	const uint32_t *rank; /* [n] */
	uint32_t channel;     /* pairs: 1 + channel; 0 = a collective's */
	uint8_t algo, proto;  /* enum mq_algo, enum mq_proto; AUTO: NCCL chooses */
	uint32_t kinds;       /* bit per enum mq_coll_kind that is called on it */
	ncclComm_t comm;      /* NULL: this rank is no member */
};

/* Ends an NCCL call that does not return, see comms.c. */
struct cuda_watch {
	pthread_t thread;
	bool running;
	atomic_bool stop, expired;
	_Atomic int64_t until_ns; /* 0 = no call is running */
};

/* Blocks a stream until the call after it is wholly enqueued, see run.c. */
struct cuda_gate {
	atomic_bool open;
	double deadline_s;
};

struct cuda_script {
	const struct mq_schedule *schedule;
	struct mq_lane lane[MQ_N_STREAMS];
	uint32_t n_local, *local; /* ids of this rank's tasks; event pair i belongs to local[i] */
	uint32_t *slot;           /* [n_tasks] index into local */
	uint32_t *match, *call, *next_call;
	uint8_t *done;           /* [n_tasks] 1 = enqueued */
	struct cuda_comm **comm; /* [n_local] NULL: not run by NCCL */
	bool warm;               /* has run once */
	/* Tasks staged over the wire, see staged.c. */
	uint8_t *staged;  /* [n_tasks] */
	size_t *place;    /* [n_tasks] offset of a collective's buffer in its lane's */
	double *finish_s; /* [n_tasks] of staged tasks, on the common clock */
	uint32_t n_staged;
};

enum { CUDA_PARTS = 2 };

/* A running message or collective over the wire. */
struct cuda_staged {
	uint32_t id;
	int state;
	bool done;
	struct mq_transfer transfer;
	struct mq_wire_coll coll;
	char *device;                     /* the message on the GPU */
	size_t out_B;                     /* bytes of a collective's result */
	size_t part_B[CUDA_PARTS], ahead; /* parts being copied; their sum */
	uint32_t first, n_parts;
	cudaEvent_t copied[CUDA_PARTS];
};

struct cuda_stage {
	struct cuda_staged *task; /* [room], n begun in this step */
	uint32_t n, room;
	cudaStream_t down, up; /* to the host, to the GPU */
	char *in, *out;        /* pinned: buffers of collectives, by lane */
	size_t lane_B[MQ_N_STREAMS], lane_at[MQ_N_STREAMS];
};

/* Types of input operands; fp32, tf32, fp64 and bf16 read words made of two bf16 numbers. */
enum cuda_operand { CUDA_WORDS, CUDA_FP16, CUDA_E4M3, CUDA_E5M2, CUDA_N_OPERANDS };

struct cuda_pool {
	char *in[CUDA_N_OPERANDS], *out; /* NULL: no kernel reads this type */
	size_t size, in_at, out_at;      /* of each */
};

/* Objects that a kernel needs, made before it is timed. */
struct cuda_prepared {
	struct cuda_lt *lt; /* one of these */
	struct cuda_dnn *dnn;
	struct cuda_attention *attention;
	struct cuda_grouped *grouped;
};

enum cuda_own { CUDA_OWN_SWEEP, CUDA_OWN_ROWS, CUDA_OWN_NARROW, CUDA_OWN_ADAM, CUDA_OWN_GATHER, CUDA_N_OWN };

struct cuda {
	struct mq_toolkit kit;
	const struct mq_ranks *ranks;
	double deadline_s;
	const struct mq_replay_session *session;
	struct cuda_script *script;
	struct cuda_comm *comms;
	uint32_t n_comms, comm_room, n_events;
	cudaStream_t stream[MQ_N_STREAMS];
	cudaEvent_t *begin, *end, base; /* [n_events] */
	cublasHandle_t blas;
	cublasLtHandle_t lt_handle; /* NULL: not asked for */
	cudnnHandle_t dnn;          /* likewise */
	CUmodule own_module;        /* NULL: without NVRTC */
	CUfunction own[CUDA_N_OWN];
	float *scale;               /* scale of fp8 operands: a 1 in device memory */
	struct mq_map prepared_map; /* of kernels, to the table */
	struct cuda_prepared *prepared;
	uint32_t n_prepared, prepared_room;
	void *workspace[MQ_N_STREAMS];
	size_t workspace_B[MQ_N_STREAMS];
	int sms;
	struct cuda_pool pool;
	struct cuda_stage stage;
	struct cuda_gate *gate; /* [n_events], if calls are held */
	struct cuda_watch watch;
	void *pinned, *reserved, *nvml;
	size_t pinned_B;
	int device;
};

/* ---- state.c --------------------------------------------------------------------------------- */

double cuda_now(const struct cuda *c); /* seconds on rank 0's clock */
/* The error of a failed CUDA call. MQ_ENODEV: out of memory. MQ_ETIME: any other. */
enum mq_status cuda_failed(const struct cuda *c, const char *call, int error, struct mq_err *err);
/* Waits until all enqueued work has run, or until until_s (*late). MQ_ETIME: the work, or a rank, failed. */
enum mq_status cuda_wait(struct cuda *c, cudaStream_t stream, double until_s, const char *what, bool *late,
			 struct mq_err *err);
/* `bytes` of inputs, which are never overwritten, and of outputs, which are never read. */
void *cuda_pool_in(struct cuda_pool *pool, enum cuda_operand type, size_t bytes);
void *cuda_pool_out(struct cuda_pool *pool, size_t bytes);
#define CUDA_TRY(c, call)                                                     \
	do {                                                                  \
		cudaError_t try_error_ = (c)->kit.call;                       \
		if (try_error_ != cudaSuccess)                                \
			return cuda_failed((c), #call, (int)try_error_, err); \
	} while (0)
/* Releases an object; handles and memory are NULL until made. */
#define CUDA_DROP(c, call, what)             \
	do {                                 \
		if (what)                    \
			(c)->kit.call(what); \
	} while (0)

/* ---- comms.c --------------------------------------------------------------------------------- */

enum mq_status cuda_comms_open(struct cuda *c, struct mq_err *err);
void cuda_comms_close(struct cuda *c, bool failed);
/* MQ_ETIME: an asynchronous error of any communicator, or a dead rank. */
enum mq_status cuda_comms_check(struct cuda *c, struct mq_err *err);
/* Enclose NCCL calls that should only enqueue: one that does not return within the deadline is aborted. `result`,
 * `comm`: of the last call. MQ_ETIME. */
void cuda_watch_begin(struct cuda *c);
enum mq_status cuda_watch_end(struct cuda *c, const struct cuda_comm *comm, int result, const char *what,
			      struct mq_err *err);
/* The key of a task's communicator; its ranks live as long as the schedule and `pair`. */
struct cuda_comm cuda_comm_wanted(const struct mq_schedule *schedule, const struct mq_task *task, uint32_t pair[2]);
/* The communicator of this key, or NULL. */
struct cuda_comm *cuda_comm_find(struct cuda *c, const struct cuda_comm *wanted);

/* ---- calls.c --------------------------------------------------------------------------------- */

/* MQ_EINPUT: NCCL has no such call, or no such type for it. */
enum mq_status cuda_call_check(const struct mq_schedule *schedule, uint32_t task, struct mq_err *err);
struct cuda_operands {
	const void *in;
	void *out;
};
size_t cuda_call_B(const struct mq_task *task, const struct cuda_comm *comm); /* of each operand */
/* Enqueues a message or collective on its communicator; NCCL's result. */
int cuda_call_enqueue(struct cuda *c, const struct mq_task *task, const struct cuda_comm *comm,
		      const struct cuda_operands *data, cudaStream_t stream);
/* Checks every kind of call on every communicator with known results. MQ_ENODEV: a result is wrong. */
enum mq_status cuda_calls_prove(struct cuda *c, struct mq_err *err);

/* ---- kernels.c ------------------------------------------------------------------------------- */

enum mq_status cuda_kernel_check(const struct mq_kernel *kernel, struct mq_err *err);
size_t cuda_kernel_need(const struct mq_kernel *kernel);
enum cuda_operand cuda_operand_of(uint8_t dtype); /* of tensor-core kernels; fp8: forward */
/* Bits of the types that this rank's kernels read. */
uint32_t cuda_operands_read(const struct mq_replay_session *session, uint32_t rank);
/* Bits of optional libraries. */
enum { CUDA_FOUND_DNN = 1, CUDA_FOUND_NVRTC = 2 };
uint32_t cuda_found(void);
/* The name of a kernel's kind if it is replaced by GEMMs, sweeps or copies; NULL: it runs itself. */
const char *cuda_imitates(const struct mq_kernel *kernel, uint32_t found);
/* Opens the libraries that this session's kernels need. MQ_ENODEV: names a missing one. */
enum mq_status cuda_kernels_ask(struct mq_toolkit *kit, const struct mq_replay_session *session, struct mq_err *err);
/* Makes descriptors, algorithms and workspaces for this rank's kernels, before they are timed. */
enum mq_status cuda_kernels_prepare(struct cuda *c, struct mq_err *err);
enum mq_status cuda_kernel_enqueue(struct cuda *c, const struct mq_kernel *kernel, enum mq_stream stream,
				   struct mq_err *err);
void cuda_kernels_release(struct cuda *c);

/* ---- lt.c, dnn.c, attention.c, kernels_own.c ---------------------------------------------------------------------- */

/* Plans live as long as the session; `workspace` has at least workspace_B bytes. */
enum mq_status cuda_lt_prepare(struct cuda *c, const struct mq_kernel *kernel, struct cuda_lt **plan,
			       size_t *workspace_B, struct mq_err *err);
enum mq_status cuda_lt_enqueue(struct cuda *c, const struct cuda_lt *plan, const struct mq_kernel *kernel,
			       void *workspace, cudaStream_t stream, struct mq_err *err);
bool cuda_dnn_runs(const struct mq_kernel *kernel);   /* a convolution whose image is known */
size_t cuda_dnn_need(const struct mq_kernel *kernel); /* bytes of its tensors */
enum mq_status cuda_dnn_prepare(struct cuda *c, const struct mq_kernel *kernel, struct cuda_dnn **plan,
				size_t *workspace_B, struct mq_err *err);
enum mq_status cuda_dnn_enqueue(struct cuda *c, const struct cuda_dnn *plan, const struct mq_kernel *kernel,
				void *workspace, cudaStream_t stream, struct mq_err *err);
bool cuda_attention_runs(const struct mq_kernel *kernel);   /* full or causal, in 16 bits */
size_t cuda_attention_need(const struct mq_kernel *kernel); /* bytes of its tensors; 0: it cannot run */
enum mq_status cuda_attention_prepare(struct cuda *c, const struct mq_kernel *kernel, struct cuda_attention **plan,
				      size_t *workspace_B, struct mq_err *err);
enum mq_status cuda_attention_enqueue(struct cuda *c, const struct cuda_attention *plan, const struct mq_kernel *kernel,
				      void *workspace, cudaStream_t stream, struct mq_err *err);
/* Compiles and loads the kernels for this rank's device. */
enum mq_status cuda_own_open(struct cuda *c, struct mq_err *err);
enum mq_status cuda_own_enqueue(struct cuda *c, const struct mq_kernel *kernel, cudaStream_t stream,
				struct mq_err *err);

/* ---- staged.c -------------------------------------------------------------------------------- */

enum mq_status cuda_staged_build(struct cuda *c, struct cuda_script *script, struct mq_err *err);
enum mq_status cuda_staged_open(struct cuda *c, struct mq_err *err);
void cuda_staged_close(struct cuda *c);
/* The task's begin event is enqueued. */
void cuda_staged_begin(struct cuda *c, struct cuda_script *script, uint32_t id);
/* Advances the tasks begun; *ended: a task that has just ended, MQ_NONE = none. */
enum mq_status cuda_staged_poll(struct cuda *c, struct cuda_script *script, uint32_t *ended, struct mq_err *err);

/* ---- topology.c ------------------------------------------------------------------------------ */

enum mq_status cuda_topology(void *state, const char *path, struct mq_err *err);

/* ---- run.c ----------------------------------------------------------------------------------- */

enum mq_status cuda_script_build(struct cuda *c, const struct mq_schedule *schedule, struct cuda_script *script,
				 struct mq_err *err);
enum mq_status cuda_script_run(struct cuda *c, struct cuda_script *script, double start_s,
			       struct mq_replay_sample *sample, struct mq_err *err);

#endif
