/*
 * software_impl.h - inside the parts of software: what its reader needs of the field table.
 */
#ifndef MQ_CORE_SOFTWARE_IMPL_H
#define MQ_CORE_SOFTWARE_IMPL_H

#include "core/software.h"

/* The defaults of the field table, every plan allowed. */
void mq_software_init(struct mq_software *software);
/* Sets one field from text. MQ_EINPUT: an unknown key (with the near one), a bad value with its range. */
enum mq_status mq_software_set_one(struct mq_software *software, const char *what, const char *key,
				   const char *value, struct mq_arena *arena,
				   struct mq_err *err) MQ_MUST_CHECK;

#endif
