/*
 * cuda.h - the parts of the cuda executor.
 */
#ifndef MQ_VALIDATOR_CUDA_H
#define MQ_VALIDATOR_CUDA_H

#include "cuda/toolkit.h"
#include "executor.h"

/* ---- libraries.c -------------------------------------------------------------------- */

/* Opens libcudart (or the file that MAQUETTE_CUDART names). MQ_ENODEV: says what is missing. */
enum mq_status cuda_open_runtime(struct mq_toolkit *kit, struct mq_err *err);
enum mq_status cuda_open_blas(struct mq_toolkit *kit, struct mq_err *err); /* MAQUETTE_CUBLAS */
enum mq_status cuda_open_nccl(struct mq_toolkit *kit, struct mq_err *err); /* MAQUETTE_NCCL */
void cuda_open_nvml(struct mq_toolkit *kit);                               /* MAQUETTE_NVML */
/* How many GPUs; MQ_ENODEV with the reason where there is none. */
enum mq_status cuda_count(const struct mq_toolkit *kit, int *count, struct mq_err *err);

/* ---- meet.c: ranks talking without MPI ------------------------------------------------------- */

/* A star of TCP connections with rank 0 in the middle. */
struct cuda_meet {
	uint32_t rank, size;
	double deadline_s;
	int fd[64];            /* rank 0: to rank i; others: fd[0] to rank 0; -1 = none */
	double clock_offset_s; /* own clock + offset = clock of rank 0 */
};
enum mq_status cuda_meet_open(struct cuda_meet *meet, const struct mq_replay_options *options,
                              struct mq_err *err);
void cuda_meet_close(struct cuda_meet *meet);
enum mq_status cuda_meet_barrier(struct cuda_meet *meet, struct mq_err *err);
/* Rank 0's bytes to all. */
enum mq_status cuda_meet_broadcast(struct cuda_meet *meet, void *data, size_t size,
                                   struct mq_err *err);
/* counts[i] numbers of rank i, one after another, on rank 0. */
enum mq_status cuda_meet_gather(struct cuda_meet *meet, const double *mine, double *all,
                                const uint32_t *counts, struct mq_err *err);
/* MQ_ETIME with the name of a rank whose connection closed. Cheap: asks no rank. */
enum mq_status cuda_meet_alive(const struct cuda_meet *meet, struct mq_err *err);
double cuda_meet_now(const struct cuda_meet *meet); /* on rank 0's clock */

/* ---- state ----------------------------------------------------------------------------------- */

/* One NCCL communicator: of a schedule's communicator, or of a directed pair and channel. */
struct cuda_comm {
	uint32_t n;
	const uint32_t *rank; /* [n] */
	uint32_t channel;     /* pairs: 1 + channel; 0 = a collective's */
	ncclComm_t comm;      /* NULL where this rank is no member */
};

struct cuda_lane {
	uint32_t n, next;
	uint32_t *task;
};

struct cuda_script {
	const struct mq_schedule *schedule;
	struct cuda_lane lane[MQ_N_STREAMS];
	uint32_t n_local, *local; /* ids of own tasks; event pair i belongs to local[i] */
	uint32_t *slot;           /* [n_tasks] index into local */
	uint32_t *match, *call, *next_call;
	uint8_t *done;           /* [n_tasks] 1 = enqueued */
	struct cuda_comm **comm; /* [n_comms] */
};

struct cuda_pool {
	char *in, *out;
	size_t size, in_at, out_at;
};

struct cuda {
	struct mq_toolkit kit;
	struct cuda_meet meet;
	const struct mq_replay_session *session;
	struct cuda_script *script;
	struct cuda_comm *comms;
	uint32_t n_comms, comm_room, n_events;
	cudaStream_t stream[MQ_N_STREAMS];
	cudaEvent_t *begin, *end, base; /* [n_events] */
	cublasHandle_t blas;
	struct cuda_pool pool;
	void *pinned, *reserved, *nvml;
	size_t pinned_B;
	int device;
	double *packed, *all;
	uint32_t *counts;
	bool met;
};

#define CUDA_TRY(c, call)                                                                          \
	do {                                                                                       \
		cudaError_t try_error_ = (c)->kit.call;                                            \
		if (try_error_ != cudaSuccess)                                                     \
			return cuda_failed((c), #call, (int)try_error_, err);                      \
	} while (0)
enum mq_status cuda_failed(const struct cuda *c, const char *call, int error, struct mq_err *err);

/* ---- comms.c --------------------------------------------------------------------------------- */

enum mq_status cuda_comms_open(struct cuda *c, struct mq_err *err);
void cuda_comms_close(struct cuda *c, bool failed);
/* MQ_ETIME or MQ_ENODEV-free: an asynchronous error of any communicator, or a dead rank. */
enum mq_status cuda_comms_check(struct cuda *c, struct mq_err *err);
/* Non-blocking calls may still be under way: waits for the communicator under the deadline. */
enum mq_status cuda_comm_settle(struct cuda *c, const struct cuda_comm *comm, int result,
                                const char *what, struct mq_err *err);
struct cuda_comm *cuda_comm_find(struct cuda *c, uint32_t n, const uint32_t *rank,
                                 uint32_t channel);

/* ---- kernels.c ------------------------------------------------------------------------------- */

enum mq_status cuda_kernel_check(const struct mq_kernel *kernel, struct mq_err *err);
size_t cuda_kernel_need(const struct mq_kernel *kernel);
enum mq_status cuda_kernel_enqueue(struct cuda *c, const struct mq_kernel *kernel,
                                   cudaStream_t stream, struct mq_err *err);
void *cuda_pool_in(struct cuda_pool *pool, size_t bytes);
void *cuda_pool_out(struct cuda_pool *pool, size_t bytes);

/* ---- run.c ----------------------------------------------------------------------------------- */

enum mq_status cuda_script_build(struct cuda *c, const struct mq_schedule *schedule,
                                 struct cuda_script *script, struct mq_err *err);
enum mq_status cuda_script_run(struct cuda *c, struct cuda_script *script,
                               struct mq_replay_sample *sample, struct mq_err *err);

#endif
