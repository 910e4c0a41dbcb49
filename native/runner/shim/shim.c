/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/shim/shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runner/shim/job.h"

enum { DESCRIPTORS = 1024 };

static char launch_bytes[SK_LAUNCH_MAX] __attribute__((aligned(8)));
static struct sk_runner_job job;

static char *title;
static size_t title_size;

void sk_runner_shim_title(char *arguments, size_t size)
{
	title = arguments;
	title_size = size;
}

static void set_title(void)
{
	prctl(PR_SET_NAME, "stoker-shim");
	if (!title_size)
		return;
	memset(title, 0, title_size);
	strncpy(title, "stoker-shim", title_size - 1);
}

/** Jobs begin with the customary soft limit (select(2) cannot use more) and may raise it. */
static void lower_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur <= DESCRIPTORS)
		return;
	files.rlim_cur = DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &files);
}

static void set_up(void)
{
	sk_runner_job_signals();
	setsid();
	set_title();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int fd = 0; fd < SK_FD_NULL; fd++)
		dup2(SK_FD_NULL, fd);
	syscall(SYS_close_range, SK_FD_FIRST, ~0U, 0);
	lower_descriptors();
	if (chdir("/"))
		abort();
}

/** Read the next launch; 0 when the spawner is gone or has closed the pipe. */
static size_t read_launch(void)
{
	size_t filled = 0, size = sizeof(uint32_t);

	sk_runner_job_idle(SK_FD_LAUNCH);
	while (filled < size) {
		ssize_t got = read(
			SK_FD_LAUNCH, launch_bytes + filled,
			(filled < sizeof(struct sk_runner_launch) ? sizeof(launch_bytes) : size) -
				filled);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		filled += (size_t)got;
		if (filled >= sizeof(uint32_t))
			size = *(uint32_t *)(void *)launch_bytes;
		if (size > sizeof(launch_bytes))
			return 0;
	}
	return filled;
}

_Noreturn void sk_runner_shim_main(const struct sk_runner_site *site, struct sk_runner_table *table,
				   uint32_t index)
{
	struct sk_runner_slot *slot = &table->slot[index];
	uint64_t one = 1;
	size_t size;

	set_up();
	atomic_store_explicit(&slot->shim, (uint32_t)getpid(), memory_order_release);
	while ((size = read_launch())) {
		sk_runner_job_run(&job, site, slot, launch_bytes, size);
		sk_runner_slot_end(table, index, &job.ended);
		/* Without a spawner the eventfd has no reader; the next one reads the slots. */
		if (write(SK_FD_BELL, &one, sizeof(one)) < 0)
			continue;
	}
	_exit(0);
}
