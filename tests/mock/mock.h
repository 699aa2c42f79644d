/*
 * mock.h - stand-ins for libcudart, libcublas, libcublasLt, libcudnn, libnvrtc, libcuda and libnccl with a clock of
 * their own.
 *
 * Each stream is a queue of operations in virtual time: an operation starts when its stream is free
 * and lasts as planted. Nothing depends on the wall clock, so times are exact and repeatable. When
 * all queues are empty and an event is recorded, the clock starts anew at 0: that is the beginning
 * of a step on every rank. Calls between ranks meet in a shared file that the communicator's id
 * names.
 *
 * Preloaded (LD_PRELOAD), mock_cudart.so gives ranks of maquette-replay a host clock of the same
 * kind: it stands still except while a rank waits for a time to come. So a rank is never late, and
 * neither load nor a hypervisor enters what it reports. Deadlines of a rank never pass then; that of
 * its launcher does. With MOCK_STEP_S each step takes that clock so many seconds on.
 *
 * Where CPUs take part (cudaHostRegister was called), and with MOCK_REAL_TIME=1, the clock is the machine's:
 * operations take as long as planted, not before they are enqueued. There is nothing to preload then.
 * MOCK_LAUNCH_US is how long the host is kept by enqueuing a call of NCCL.
 *
 * The mocks check meaning: operands lie inside one block of memory (else the device is lost, as a GPU's is);
 * leading dimensions fit; what ranks call on a communicator is the same kind, count, type, root and, of
 * messages, has its counterpart; calls on a communicator run in their order whatever their streams. Data of
 * blocks up to 1 MiB is real, and calls between ranks carry up to 4 KiB of it. MOCK_LOG=DIR: each rank
 * writes what it enqueued to DIR/rank-N.log, for tests/check-replay to hold against the schedule.
 *
 * MOCK_COPY_BPS (host <-> device), MOCK_DEVICES (default 2), MOCK_NOISE (relative standard
 * deviation), MOCK_SEED (of it), MOCK_DRIVER (none, stub, nodevice, of-N: of CUDA N), MOCK_MEMORY_B,
 * MOCK_NCCL_VERSION, and MOCK_FAIL = KIND:RANK:CALL with KIND hang (never ends), stuck (does not return),
 * refuse (returns an error), wrong (a wrong number in the result), error, die (at the CALL-th communication call of the rank),
 * init-hang or init-error plant faults; RANK -1 means all.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_MOCK_H
#define MQ_TESTS_MOCK_H

#include <stdint.h>

#include "cuda/toolkit.h"

#define MOCK_API __attribute__((visibility("default")))

/* Planted truth. */
#define MOCK_PEAK        400e12
#define MOCK_EFF         0.82
#define MOCK_KT          36.0
#define MOCK_A0          14.0
#define MOCK_Q           0.4
#define MOCK_BW_SHARE    0.75
#define MOCK_T0_S        5e-6
#define MOCK_SMS         132.0
#define MOCK_MEM_BPS     2e12
#define MOCK_SWEEP_SHARE 0.8
#define MOCK_LAUNCH_S    3e-6
#define MOCK_COPY_BPS    25e9
#define MOCK_CONTEXT_B   500000000 /* of the driver, in use before anything is allocated */
#define MOCK_CALL_A_S    12e-6
#define MOCK_CALL_BPS    150e9

#define MOCK_CONV_EFF      0.61
#define MOCK_ATTENTION_EFF 0.4
#define MOCK_ADAM_SHARE    0.66 /* of a sweep's speed */

enum mock_kind { MOCK_WORK, MOCK_RECORD, MOCK_WAIT, MOCK_CALL, MOCK_HOST };

struct mock_op {
	enum mock_kind kind;
	double seconds;
	void *event; /* RECORD, WAIT */
	/* CALL: asks whether all ranks came; gives the time at which the last did. */
	int (*arrived)(void *call, double own_s, double *last_s);
	void *call;
	/* HOST: a function that the stream waits for. */
	void (*function)(void *data);
	void *data;
};
/* Puts an operation at the end of a stream; seconds of WORK get the planted noise. */
MOCK_API void mock_enqueue(cudaStream_t stream, struct mock_op op);
/* The planted noise as a factor: the same for every rank that asks with the same key. */
MOCK_API double mock_noise(uint64_t key);

/* Is [pointer, pointer + bytes) device memory? If not, says so and loses the device. */
MOCK_API void mock_extent(const void *pointer, double bytes, const char *what);
/* Operands of a type of so many bits: numbers of about the standard normal distribution? */
MOCK_API void mock_numbers(const void *pointer, int exponent, int mantissa, const char *what);
/* Says what is wrong on standard error and loses the device. */
MOCK_API void mock_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The major version in the name under which the library of a function was opened ("libcublas.so."); 13 where there is none. */
MOCK_API int mock_major(const void *function, const char *library);
/* Where the data of device memory really is; NULL: nowhere. */
MOCK_API void *mock_data(const void *pointer, size_t bytes);
MOCK_API void mock_log(cudaStream_t stream, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
