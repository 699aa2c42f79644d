/*
 * score_set.h - values in place of those of the calibrations and of the training software, by name.
 *
 * A name is ENTRY.FIELD: ENTRY a device type or a class of links ("A100*": a pattern, all that it fits
 * have the value), FIELD a field of its calibration file; or stack:STACK.FIELD with a column of
 * numbers of stacks.csv.
 */
#ifndef MQ_CMD_SCORE_SCORE_SET_H
#define MQ_CMD_SCORE_SCORE_SET_H

#include "cmd/score/score_runs.h"

/* What a name stands for. */
struct mq_score_knob {
	const char *name;    /* as given */
	const char *unit;
	double value;        /* of the first entry that it fits */
	double min, max;     /* what it may be */
	uint32_t n_entries;  /* that it fits */
	bool differ;         /* they do not all have that value */
	bool stack, link;
};
/* MQ_EINPUT: no such entry or field (the message says which there are). */
enum mq_status mq_score_knob_find(const struct mq_calib *calib, const struct mq_csv *stacks,
				  const char *name, struct mq_arena *arena,
				  struct mq_score_knob *knob, struct mq_err *err) MQ_MUST_CHECK;
/* Does it bear on a row that runs on devices of this type with this software? Links do on all. */
bool mq_score_knob_concerns(const struct mq_score_knob *knob, const struct mq_case *c);

/* Applies "NAME=VALUE" to the entries of `calib`, or to the cells of `stacks`; either may be NULL, then
 * what belongs to it is left alone. MQ_EINPUT as above, and for a value that is none or out of range. */
enum mq_status mq_score_set(struct mq_calib *calib, struct mq_csv *stacks, const char *text,
			    struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif
