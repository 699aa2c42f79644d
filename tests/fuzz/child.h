/*
 * child.h - for readers that lean on libraries which abort or crash on broken files (SimGrid, hwloc): the program
 * reads such files in a process of their own, and so do their targets. The library's end is an answer; a fault in
 * this project's code, a hang or a gigabyte of memory is not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_CHILD_H
#define MQ_TESTS_CHILD_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

/* Of the sanitizers, where they are: libFuzzer's keeps the input of whatever ends. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { FUZZ_CHILD_SECONDS = 30, FUZZ_CHILD_MB = 1024, FUZZ_SANITIZER_CODE = 1 };

/* Runs `body` in a fork; what it prints is shown where it is at fault. `library` is the one that may crash. */
static inline void fuzz_child(void (*body)(const char *path), const char *path, const char *library)
{
	static char text[1 << 16];
	struct rusage usage;
	int said = memfd_create("said", 0), status;
	pid_t pid;

	mq_assert(said >= 0);
	fflush(NULL);
	pid = fork();
	mq_assert(pid >= 0);
	if (!pid) {
		dup2(said, 1);
		dup2(said, 2);
		if (__sanitizer_set_death_callback)
			__sanitizer_set_death_callback(NULL);
		signal(SIGABRT, SIG_DFL); /* a fuzzer's own handlers are for its process */
		signal(SIGALRM, SIG_DFL);
		alarm(FUZZ_CHILD_SECONDS);
		body(path);
		_exit(0);
	}
	while (wait4(pid, &status, 0, &usage) != pid)
		mq_assert(errno == EINTR);
	ssize_t n = pread(said, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	close(said);
	bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
	/* By its exit code: what is said may be words of the file. */
	bool fault = WIFEXITED(status) && WEXITSTATUS(status) == FUZZ_SANITIZER_CODE && !strstr(text, library);
	bool bug = WIFEXITED(status) && WEXITSTATUS(status) == MQ_EBUG;
	if (hangs || fault || bug || usage.ru_maxrss > FUZZ_CHILD_MB * 1024) {
		fprintf(stderr, "%s\nstatus %d, %ld kB\n", text, status, usage.ru_maxrss);
		abort();
	}
}

#endif
