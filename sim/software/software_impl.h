/* software_impl.h - the field table's interface to the reader of software files. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_SOFTWARE_SOFTWARE_IMPL_H
#define MQ_SOFTWARE_SOFTWARE_IMPL_H

#include "maquette/software.h"

/* Sets one field from text. MQ_EINPUT: an unknown key (with the nearest), a bad value (with its range). */
enum mq_status mq_software_set_one(struct mq_software *software, const char *what, const char *key, const char *value,
				   struct mq_arena *arena, struct mq_err *err);

#endif
