/*
 * software_impl.h - inside the parts of software: what its reader needs of the field table.
 */
#ifndef MQ_SOFTWARE_SOFTWARE_IMPL_H
#define MQ_SOFTWARE_SOFTWARE_IMPL_H

#include "maquette/software.h"

/* Every plan. */
#define MQ_SPACE_INITIAL(key, initial) .key = initial,
#define MQ_SPACE_ALL                                                                                           \
	{                                                                                                      \
		.schedules = UINT32_MAX, .recomputes = UINT32_MAX, .dtypes = UINT32_MAX, .syncs = UINT32_MAX,  \
		.sync_split = UINT32_MAX, .switches = UINT32_MAX, .sequence = UINT32_MAX, .vocab = UINT32_MAX, \
		.models = MQ_MODELS_ANY, .gpu = true, .cpu = true, MQ_SPACE_FLAGS(MQ_SPACE_INITIAL)            \
	}

/* The defaults of the field table, every plan allowed. */
void mq_software_init(struct mq_software *software);
/* Sets one field from text. MQ_EINPUT: an unknown key (with the near one), a bad value with its range. */
enum mq_status mq_software_set_one(struct mq_software *software, const char *what, const char *key, const char *value,
				   struct mq_arena *arena, struct mq_err *err) MQ_MUST_CHECK;

#endif
