/* err.h - errors: how a function reports that it could not answer.
 *
 * Three things are kept apart: an *error* (could not answer: a status and a message), a *verdict* (this plan does not
 * fit: data, see result.h, never an error) and a *bug* (mq_assert, kept in release builds). Nothing below sim/cmd
 * prints or exits; commands turn a status into the exit code. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_ERR_H
#define MAQUETTE_ERR_H

#include <stdarg.h>

/* Functions that engines and other plug-ins may call. */
#define MQ_API __attribute__((visibility("default")))

/* Statuses that are also exit codes: NAME, its number and its meaning to users of a command. */
#define MQ_STATUSES(X)                                     \
	X(MQ_OK, 0, "ok")                                  \
	X(MQ_ENOPLAN, 1, "no feasible plan")               \
	X(MQ_EINPUT, 2, "bad usage or input")              \
	X(MQ_ENODEV, 3, "missing device or library")       \
	X(MQ_ETIME, 4, "time-out, dead rank or simulator") \
	X(MQ_ETHRESHOLD, 5, "error above the threshold")   \
	X(MQ_EBUG, 70, "bug")

/* Makes the compilers that can do so warn of a call whose status is ignored. */
#ifdef __clang__
#define MQ_MUST_CHECK __attribute__((warn_unused_result))
#elif __GNUC__ > 10
#define MQ_MUST_CHECK [[nodiscard]]
#else
#define MQ_MUST_CHECK
#endif
enum MQ_MUST_CHECK mq_status {
#define MQ_STATUS_IS(name, code, words) name = code,
	MQ_STATUSES(MQ_STATUS_IS)
#undef MQ_STATUS_IS
		MQ_DONE = 100 /* not an error: no more plans or records (propose, readers) */
};

struct mq_err {
	enum mq_status status;
	char text[512]; /* one line, no newline; NUL-terminated, cut if longer */
};

#define MQ_ERR_INIT       \
	{                 \
		MQ_OK, "" \
	}

/* Store a formatted message and return `status`: `return mq_fail(err, MQ_EINPUT, "...", ...)`.
 * `err` may be NULL: the message is then lost, the status is not. */
MQ_API enum mq_status mq_fail(struct mq_err *err, enum mq_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* mq_fail for wrong input, the commonest. */
#define mq_bad(err, ...) mq_fail(err, MQ_EINPUT, __VA_ARGS__)

/* Put "context: " before the message and return the status already stored. */
MQ_API enum mq_status mq_wrap(struct mq_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A bug: prints the condition and its place, exits with MQ_EBUG. Never used on input. */
#define mq_assert(condition) ((condition) ? (void)0 : mq_bug(#condition, __FILE__, __LINE__))
MQ_API void mq_bug(const char *condition, const char *file, int line) __attribute__((noreturn));

/* `return` early if a call fails. */
#define MQ_TRY(call)                                 \
	do {                                         \
		enum mq_status try_status_ = (call); \
		if (try_status_ != MQ_OK)            \
			return try_status_;          \
	} while (0)

#endif
