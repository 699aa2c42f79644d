/* trust.h - the index of errors from tables that were scored with their source left out, and how often its intervals
 * hold. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_TRUST_H
#define MQ_SCORE_TRUST_H

#include "trust/trust.h"

/* Reads FOLDER/<table>/trust.csv, fits the distance, writes DIR/trust.csv (the index), intervals.csv (a row per run)
 * and trust_kinds.csv (how often intervals hold, by kind of run), and prints the latter. */
enum mq_status mq_score_trust_index(const char *folder, const char *dir, struct mq_arena *arena,
				    struct mq_err *err) MQ_MUST_CHECK;

#endif
