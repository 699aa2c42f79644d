/* calib_fields.h - the fields of a calibration entry through their table. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_CALIB_FIELDS_H
#define MQ_HARDWARE_CALIB_FIELDS_H

#include "maquette/calib.h"

/* The address of the field in an entry. */
static inline double *mq_calib_at(const struct mq_calib_field *field, const void *entry)
{
	return (double *)((uintptr_t)entry + field->offset);
}

/* NULL: no field has that name. */
static inline const struct mq_calib_field *mq_calib_find(const struct mq_calib_field *fields, const char *name)
{
	while (fields->name && strcmp(fields->name, name))
		fields++;
	return fields->name ? fields : NULL;
}

static inline void mq_calib_defaults(const struct mq_calib_field *fields, void *entry)
{
	for (; fields->name; fields++)
		*mq_calib_at(fields, entry) = fields->initial;
}

#endif
