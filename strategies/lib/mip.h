/* mip.h - mixed integer programs, solved by the `cbc` program (COIN-OR branch and cut).
 *
 * The problem is written as an MPS file, `cbc` runs in its own process with a start solution and a time limit, and its
 * answer is read back: its licence does not combine with GPL libraries in one process, and a crash of it costs one
 * answer, not the run. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_STRATEGIES_LIB_MIP_H
#define MQ_STRATEGIES_LIB_MIP_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

struct mq_mip_column {
	double cost, lower, upper;
	bool integer;
};

struct mq_mip_row {
	char sense; /* 'L' <=, 'G' >=, 'E' = */
	double rhs;
};

struct mq_mip_entry {
	uint32_t row, column;
	double value;
};

struct mq_mip {
	struct mq_arena *arena;
	uint32_t n_columns, n_rows, n_entries, column_room, row_room, entry_room;
	struct mq_mip_column *column;
	struct mq_mip_row *row;
	struct mq_mip_entry *entry;
};

uint32_t mq_mip_column(struct mq_mip *mip, double cost, double lower, double upper, bool integer);
uint32_t mq_mip_row(struct mq_mip *mip, char sense, double rhs);
struct mq_mip_term {
	uint32_t column;
	double value;
};

/* A row from its terms: MQ_MIP_ROW(mip, 'G', 0, { y, 1 }, { x, -1 }) means y - x >= 0. */
uint32_t mq_mip_row_of(struct mq_mip *mip, char sense, double rhs, size_t n, const struct mq_mip_term *term);
#define MQ_MIP_ROW(mip, sense, rhs, ...)                                                                           \
	mq_mip_row_of(mip, sense, rhs, sizeof((struct mq_mip_term[]){ __VA_ARGS__ }) / sizeof(struct mq_mip_term), \
		      (struct mq_mip_term[]){ __VA_ARGS__ })
/* Adds to a column's coefficient in a row. */
void mq_mip_add(struct mq_mip *mip, uint32_t row, uint32_t column, double value);

struct mq_mip_options {
	double seconds;      /* +inf = no limit */
	double gap;          /* stop at this relative gap; 0 = prove the optimum */
	const double *start; /* [n_columns] or NULL; only integer columns are used */
	bool (*tick)(void *context, double done, const char *what); /* false = stop; may be NULL */
	void *tick_context;
};

enum mq_mip_verdict { MQ_MIP_OPTIMAL, MQ_MIP_FEASIBLE, MQ_MIP_INFEASIBLE, MQ_MIP_UNKNOWN };

struct mq_mip_result {
	enum mq_mip_verdict verdict;
	double objective; /* NaN without a solution */
	double bound;     /* proven lower bound; -inf = none */
	double *value;    /* [n_columns], or NULL without a solution */
};

/* Minimises. MQ_ENODEV: no cbc; MQ_ETIME: it died or ended without an answer. */
enum mq_status mq_mip_solve(const struct mq_mip *mip, const struct mq_mip_options *options, struct mq_arena *arena,
			    struct mq_mip_result *result, struct mq_err *err);

#endif
