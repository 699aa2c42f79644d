/* quantity.h - numbers, lists of them, and quantities as people write them: "400Gb/s", "50 GB/s", "80GiB", "2.5us",
 * "989 TFLOPS", "$2.50". SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_BASE_QUANTITY_H
#define MQ_BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"

/* Strict numbers: the whole text, finite, C locale; k/M/G/T suffixes are not accepted. */
MQ_API bool mq_parse_f64(const char *text, double *value);
MQ_API bool mq_parse_u64(const char *text, uint64_t *value);

/* A number with a unit, in `unit`: one of "B", "B/s", "s", "flop/s", "W", "Wh", "$", each with a decimal prefix or
 * none ("GB/s", "us", "Tflop/s", "kWh"). The text's unit may be any of the same kind: bits (b) are an eighth of
 * bytes (B), Ki Mi Gi Ti are powers of 1024, "/s" is also "ps" and "per second". A bare number is in `unit`.
 * False: no number, or a unit of another kind. */
MQ_API bool mq_parse_quantity(const char *text, const char *unit, double *value);

/* The unit that a field's name ends in ("nic_GBps": "GB/s"), or NULL. */
MQ_API const char *mq_unit_of_name(const char *name);

/* Seconds of a monotonic clock, for budgets and reports only. */
double mq_now_s(void);

/* A list of numbers >= 0: "5,3,1,1", or a file with numbers separated by blanks, commas or line breaks, where '#'
 * begins a comment up to the end of its line. A text that is one number, or has a comma and begins like a number, is
 * the list itself. `what` names the option in messages. MQ_EINPUT: no such file, a word that is no number, a negative
 * one, no number at all, more than `most`. */
MQ_API enum mq_status mq_numbers_read(const char *what, const char *text, uint32_t most, struct mq_arena *arena,
				      double **number, uint32_t *n, struct mq_err *err);
/* "5,3,1,1", each with up to 17 digits if needed to read the same number back. */
MQ_API const char *mq_numbers_text(const double *number, uint32_t n, struct mq_arena *arena);

#endif
