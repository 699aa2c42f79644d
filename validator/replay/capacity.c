/* capacity.c - queries of executors: the size of a pool of operands, the owner of ranks. See maquette/executor.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/executor.h"

enum { SPARE_B = 65536 }; /* collectives round up to whole elements on all ranks */

size_t mq_replay_room(const struct mq_replay_session *session, size_t (*kernel_need)(const struct mq_kernel *kernel),
		      bool copies, size_t least)
{
	size_t need = least;

	for (uint32_t i = 0; i < session->n_schedules; i++) {
		const struct mq_schedule *s = session->schedule[i];

		for (uint32_t w = 0; w < s->n_works; w++)
			for (uint32_t k = 0; k < s->work[w].n_kernels; k++) {
				size_t n = kernel_need(&s->work[w].kernel[k]);

				need = n > need ? n : need;
			}
		for (uint32_t t = 0; t < s->n_tasks; t++)
			if (s->task[t].kind != MQ_TASK_COMPUTE && (copies || s->task[t].kind != MQ_TASK_COPY) &&
			    s->task[t].bytes + SPARE_B > (double)need)
				need = (size_t)s->task[t].bytes + SPARE_B;
	}
	return need;
}

bool mq_replay_own(const struct mq_replay_session *session, uint32_t rank, uint32_t n, const uint32_t *ranks)
{
	/* Ranks beyond the devices are idle ranks of the first executor. */
	const struct mq_replay_executor *own = session->owner[rank < session->n_devices ? rank : 0];

	for (uint32_t i = 0; i < n; i++)
		if (session->owner[ranks[i]] != own)
			return false;
	return true;
}
