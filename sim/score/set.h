/* set.h - values in place of those of the calibrations and of the training software, by name.
 *
 * A name is ENTRY.FIELD: ENTRY a device type or a class of links ("A100*": a pattern, all that it fits have the value),
 * FIELD a field of its calibration file; or software:NAME.FIELD with a field of the software's files, whose value may
 * be a word. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_SET_H
#define MQ_SCORE_SET_H

#include "score/row.h"

/* What a name stands for. */
struct mq_score_knob {
	const char *name; /* as given */
	const char *unit;
	double value;       /* of the first entry that it fits */
	double min, max;    /* what it may be */
	uint32_t n_entries; /* that it fits */
	bool differ;        /* they do not all have that value */
	bool software, link;
};
/* MQ_EINPUT: no such entry or field (the message says which there are), or a field that is no number. */
enum mq_status mq_score_knob_find(const struct mq_score_options *options, const char *name, struct mq_score_knob *knob,
				  struct mq_err *err);
/* Does it bear on a row that runs on devices of this type with this software? Links do on all. */
bool mq_score_knob_concerns(const struct mq_score_knob *knob, const struct mq_case *c);
/* Does the row's software take the field from the file that the value stands in, directly or by inheritance? */
bool mq_score_value_reaches(const struct mq_score_knob *knob, const struct mq_case *c);

/* Checks every --set. MQ_EINPUT: it names nothing, or its value is out of range. */
enum mq_status mq_score_set_check(const struct mq_score_options *options, struct mq_err *err);
/* What --set means for one row: changes as mq_change_apply takes them are appended to `change`, which has room for
 * MQ_CASE_MAX_CHANGES, options of the software to `software`. */
struct mq_score_changes {
	const char **change;
	uint32_t n;
	const char *software;
};
enum mq_status mq_score_change(const struct mq_score_options *options, const struct mq_case *c,
			       struct mq_score_changes *to, struct mq_err *err);
/* Marks those --set of `used`, [options->set.n], that change anything of the row. */
enum mq_status mq_score_set_mark(const struct mq_score_options *options, const struct mq_case *c, bool *used,
				 struct mq_err *err);

#endif
