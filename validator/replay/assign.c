/* assign.c - assigns ranks to executors, and renumbers schedules accordingly.
 *
 * A rank is a process with one device for all schedules of the run, so the device's kind must be the same in all of
 * them. In a run with both kinds the devices of every schedule are renumbered: first those of the executor asked for,
 * then the CPUs. A schedule with fewer devices than the run leaves the other ranks idle.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "replay/replay.h"

/* ---- plug-ins --------------------------------------------------------------------------------- */

/* Loads PLUGINS/NAME.so and checks its symbol and ABI. */
static enum mq_status load_executor(const char *folder, const char *name, struct mq_arena *arena,
				    const struct mq_replay_executor **executor, struct mq_err *err)
{
	const char *path = mq_arena_printf(arena, "%s/%s.so", folder, name);

	if (strchr(name, '/') || access(path, R_OK)) {
		const char *known = "none";
		uint32_t n;
		const char **file = mq_folder_names(folder, "", ".so", arena, &n);

		for (uint32_t i = 0; i < n; i++)
			known = mq_arena_printf(arena, "%s%s%.*s", i ? known : "", i ? ", " : "",
						(int)strlen(file[i]) - 3, file[i]);
		return mq_bad(err, "--executor %s: no such executor in %s (there are: %s)", name, folder, known);
	}
	/* MPI's own plug-ins resolve symbols globally. */
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!library)
		return mq_fail(err, MQ_ENODEV, "executor '%s' cannot be loaded: %s", name, dlerror());
	char *symbol = mq_arena_printf(arena, "mq_executor_%s", name);
	for (char *c = symbol; *c; c++)
		if (*c == '-')
			*c = '_';
	const struct mq_replay_executor *found = dlsym(library, symbol);
	if (!found)
		return mq_bad(err, "%s exports no symbol %s", path, symbol);
	if (found->abi != MQ_ABI)
		return mq_bad(err,
			      "%s was built for another version of maquette-replay (headers %016" PRIx64
			      ", this program's are %016" PRIx64 "): rebuild it",
			      path, found->abi, MQ_ABI);
	if (strcmp(found->name, name) || !found->check || !found->open || !found->run || !found->close ||
	    !found->describe || !found->memory || !found->in_use || !found->allocate || !found->release)
		return mq_bad(err, "%s lacks a required function", path);
	*executor = found;
	return MQ_OK;
}

/* ---- ranks ------------------------------------------------------------------------------------- */

static bool is_cpu_type(const char *types, const char *type)
{
	size_t n = strlen(type);

	for (const char *at = types; n && (at = strstr(at, type)); at += n)
		if ((at == types || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return false;
}

struct kinds {
	uint32_t cpus, others; /* ranks of each kind that the run needs */
};

static struct kinds count_kinds(const struct replay_job *job)
{
	struct kinds most = { 0 };

	for (uint32_t i = 0; i < job->session.n_schedules; i++) {
		const struct mq_schedule *s = job->session.schedule[i];
		uint32_t cpus = 0;

		for (uint32_t d = 0; d < s->n_devices; d++)
			cpus += is_cpu_type(job->set->options.cpu_types, s->device_type[d]);
		most.cpus = cpus > most.cpus ? cpus : most.cpus;
		if (s->n_devices - cpus > most.others)
			most.others = s->n_devices - cpus;
	}
	return most;
}

static void renumber(const struct replay_job *job, const struct kinds *k, struct mq_schedule *s)
{
	struct mq_arena *arena = job->session.arena;
	uint32_t n = k->cpus + k->others, cpus = 0, others = 0;
	uint32_t *rank = mq_arena_array(arena, s->n_devices, uint32_t);
	uint32_t *device = mq_arena_array(arena, n, uint32_t);
	const char **name = mq_arena_array(arena, n, const char *);
	const char **type = mq_arena_array(arena, n, const char *);

	for (uint32_t i = 0; i < n; i++)
		name[i] = type[i] = "";
	for (uint32_t d = 0; d < s->n_devices; d++) {
		bool cpu = is_cpu_type(job->set->options.cpu_types, s->device_type[d]);

		rank[d] = cpu ? k->others + cpus++ : others++;
		device[rank[d]] = s->device[d];
		name[rank[d]] = s->device_name[d];
		type[rank[d]] = s->device_type[d];
	}
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		s->task[i].device = rank[s->task[i].device];
		if (s->task[i].kind == MQ_TASK_SEND || s->task[i].kind == MQ_TASK_RECV)
			s->task[i].peer = rank[s->task[i].peer];
	}
	for (uint32_t c = 0; c < s->n_comms; c++)
		for (uint32_t i = 0; i < s->comm[c].n; i++)
			s->comm[c].rank[i] = rank[s->comm[c].rank[i]];
	for (uint32_t i = 0; i < s->n_held; i++)
		s->held[i].device = rank[s->held[i].device];
	s->n_devices = n;
	s->device = device;
	s->device_name = name;
	s->device_type = type;
}

enum mq_status replay_assign(struct replay_job *job, struct mq_err *err)
{
	const struct replay_settings *set = job->set;
	struct mq_replay_session *s = &job->session;
	const struct mq_replay_executor *cpu, **owner;
	struct kinds k = { .others = s->n_devices };
	const char *first = set->executor;

	if (set->options.cpu_types[0] && strcmp(first, "host"))
		k = count_kinds(job);
	if (k.cpus && !k.others)
		first = "host";
	MQ_TRY(load_executor(set->plugins, first, s->arena, &job->executor, err));
	cpu = job->executor;
	if (k.cpus && k.others)
		MQ_TRY(load_executor(set->plugins, "host", s->arena, &cpu, err));
	s->n_devices = k.cpus + k.others;
	s->owner = owner = mq_arena_array(s->arena, s->n_devices + 1, const struct mq_replay_executor *);
	for (uint32_t i = 0; i < s->n_devices; i++)
		owner[i] = i < k.others ? job->executor : cpu;
	for (uint32_t i = 0; i < s->n_schedules && k.cpus && k.others; i++)
		renumber(job, &k, s->schedule[i]);
	s->n_own = k.others ? k.others : k.cpus;
	/* MPI connects only ranks that it started. */
	job->spawn = (k.cpus && k.others) || job->executor->launcher == MQ_LAUNCH_SPAWN || set->local_ranks ||
		     getenv("MAQUETTE_RANK");
	return MQ_OK;
}

void replay_take_rank(struct replay_job *job, uint32_t rank)
{
	struct mq_replay_session *s = &job->session;
	uint32_t before = 0;

	if (rank >= s->n_devices) /* ranks beyond the devices are idle ranks of the first executor */
		return;
	job->executor = s->owner[rank];
	s->n_own = 0;
	for (uint32_t i = 0; i < s->n_devices; i++) {
		before += i < rank && s->owner[i] == job->executor;
		s->n_own += s->owner[i] == job->executor;
	}
	if (s->n_own < s->n_devices) /* the launcher's index counts ranks of all executors */
		job->set->options.local = before;
}

const char *replay_rank_name(const struct replay_job *job, uint32_t rank)
{
	const struct mq_replay_session *s = &job->session;
	const char *device = "";

	for (uint32_t i = 0; i < s->n_schedules && !*device; i++)
		if (rank < s->schedule[i]->n_devices)
			device = s->schedule[i]->device_name[rank];
	return mq_arena_printf(s->arena, "rank %u (%s on %s)", rank, device,
			       rank < s->n_devices ? s->owner[rank]->name : job->executor->name);
}
