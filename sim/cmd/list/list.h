/* list.h - the longer lists of `maquette list`. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_CMD_LIST_LIST_H
#define MQ_CMD_LIST_LIST_H

#include "maquette/arena.h"
#include "maquette/err.h"

/* All values of one software ("NAME" or "NAME,key=value"), each with its unit and where it comes from, and the
 * plans that it runs. */
enum mq_status mq_list_software(const char *dir, const char *text, struct mq_arena *arena, struct mq_err *err);

/* The field tables of calibrations and software as Markdown, so that platforms/ documents what is read. */
void mq_list_parameters(void);

#endif
