/* set.h - overrides values of calibrations and of training software by name.
 *
 * A name is ENTRY.FIELD: ENTRY a device type or a link class, or a pattern ("A100*") that sets all matches, FIELD a
 * field of its calibration file; or software:NAME.FIELD with a field of the software's file, whose value may be a word.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SCORE_SET_H
#define MQ_SCORE_SET_H

#include "score/row.h"

/* The value that a name refers to. */
struct mq_score_knob {
	const char *name; /* as given */
	const char *unit;
	double value;       /* of the first matching entry */
	double min, max;    /* its range */
	uint32_t n_entries; /* that match */
	bool differ;        /* their values differ */
	bool software, link;
};
/* MQ_EINPUT: an unknown entry or field (with the known ones), or a field that is no number. */
enum mq_status mq_score_knob_find(const struct mq_score_options *options, const char *name, struct mq_score_knob *knob,
				  struct mq_err *err);
/* Does it concern a row on devices of this type with this software? Links concern all rows. */
bool mq_score_knob_concerns(const struct mq_score_knob *knob, const struct mq_case *c);
/* Does the row's software take the field from the file of the value, directly or by inheritance? */
bool mq_score_value_reaches(const struct mq_score_knob *knob, const struct mq_case *c);

/* Checks every --set. MQ_EINPUT: an unknown name, or a value out of range. */
enum mq_status mq_score_set_check(const struct mq_score_options *options, struct mq_err *err);
/* Translates --set for one row: appends changes for mq_change_apply to `change`, which has room for
 * MQ_CASE_MAX_CHANGES, and options of the software to `software`. */
struct mq_score_changes {
	const char **change;
	uint32_t n;
	const char *software;
};
enum mq_status mq_score_change(const struct mq_score_options *options, const struct mq_case *c,
			       struct mq_score_changes *to, struct mq_err *err);
/* Marks in used[options->set.n] each --set that changes the row. */
enum mq_status mq_score_set_mark(const struct mq_score_options *options, const struct mq_case *c, bool *used,
				 struct mq_err *err);

#endif
