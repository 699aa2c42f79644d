/* numbers.h - a list of numbers >= 0, typed on the command line or counted into a file.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_NUMBERS_H
#define MQ_BASE_NUMBERS_H

#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* "5,3,1,1", or a file with numbers separated by blanks, commas or line breaks, where '#' begins a comment
 * that ends with its line. A text that is one number, or has a comma and begins like a number, is the list
 * itself. `what` names the option in messages. MQ_EINPUT: no such file, a word that is no number, a negative
 * one, no number at all, more than `most`. */
MQ_API enum mq_status mq_numbers_read(const char *what, const char *text, uint32_t most, struct mq_arena *arena,
				      double **number, uint32_t *n, struct mq_err *err);
/* "5,3,1,1", each with 17 digits where it needs them: read back, the same. */
MQ_API const char *mq_numbers_text(const double *number, uint32_t n, struct mq_arena *arena);

#endif
