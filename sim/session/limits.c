/* limits.c - starts under a limit on address space (`ulimit -v`, `ulimit -d`, some batch systems).
 *
 * OpenBLAS allocates 128 MB per thread, retries for ever if that fails, and starts a thread per core when it is loaded,
 * before main. So under a limit this program starts itself again with one BLAS thread, which is all it uses, and makes
 * OpenBLAS allocate its memory first. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gsl/gsl_blas.h>
#include <gsl/gsl_matrix.h>

#define MB      1e6
#define LEAST_B (400 * MB) /* libraries 100 MB, OpenBLAS 130, engines with their libraries 50; rest: search */
enum { LARGE = 200 };      /* rows of a matrix for which OpenBLAS allocates its buffer */

static double limit_B(void)
{
	static const int kinds[] = { RLIMIT_AS, RLIMIT_DATA };
	double least = HUGE_VAL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct rlimit limit;

		if (!getrlimit(kinds[i], &limit) && limit.rlim_cur != RLIM_INFINITY)
			least = fmin(least, (double)limit.rlim_cur);
	}
	return least;
}

static enum mq_status restart_single_threaded(char **argv, struct mq_err *err)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	path[n > 0 ? n : 0] = '\0';
	if (setenv("OPENBLAS_NUM_THREADS", "1", 1) || n <= 0 || execv(path, argv))
		return mq_fail(err, MQ_EBUG, "cannot start with one thread: %s", strerror(errno));
	return MQ_OK;
}

static void warm_up_blas(void)
{
	gsl_matrix *a = gsl_matrix_calloc(LARGE, LARGE), *b = gsl_matrix_calloc(LARGE, LARGE);

	if (a && b)
		gsl_blas_dgemm(CblasNoTrans, CblasNoTrans, 1, a, a, 0, b);
	gsl_matrix_free(a);
	gsl_matrix_free(b);
}

enum mq_status mq_limits_meet(char **argv, struct mq_err *err)
{
	const char *threads = getenv("OPENBLAS_NUM_THREADS");
	double most_B = limit_B();

	if (isinf(most_B))
		return MQ_OK;
	if (most_B < LEAST_B)
		return mq_fail(err, MQ_ENODEV,
			       "memory is limited to %.0f MB (ulimit -v or -d); at least %.0f MB are needed",
			       most_B / MB, LEAST_B / MB);
	if (!threads || strcmp(threads, "1"))
		return restart_single_threaded(argv, err);
	warm_up_blas();
	return MQ_OK;
}
