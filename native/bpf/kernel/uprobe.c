/* SPDX-License-Identifier: Apache-2.0 */
/* Uprobes by bpf(2) and perf_event_open(2). See uprobe.h. */
#include "uprobe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINK_CREATE = 28, PERF_EVENT = 41, RETURN_FLAG = 1 };

/* union bpf_attr, link_create, as of Linux 6.6. */
struct link_create {
	uint32_t program_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	union {
		struct {
			uint64_t path;
			uint64_t offsets;
			uint64_t semaphores;
			uint64_t cookies;
			uint32_t count;
			uint32_t flags;
			uint32_t pid;
			uint32_t unused;
		} multi;
		uint64_t perf_cookie;
	};
};
_Static_assert(offsetof(struct link_create, multi) == 16, "the union follows the flags");
_Static_assert(sizeof(struct link_create) == 64, "nothing is left unset");

static uint64_t pointer(const void *at)
{
	return (uint64_t)(uintptr_t)at;
}

static int create(struct link_create *attr)
{
	long fd = syscall(SYS_bpf, LINK_CREATE, attr, sizeof(*attr));

	return fd < 0 ? -errno : (int)fd;
}

int sk_bpf_uprobe_link_many(int program_fd, const struct sk_bpf_uprobes *uprobes)
{
	struct link_create attr;

	memset(&attr, 0, sizeof(attr));
	attr.program_fd = (uint32_t)program_fd;
	attr.attach_type = SK_TRACE_UPROBE_MULTI;
	attr.multi.path = pointer(uprobes->path);
	attr.multi.offsets = pointer(uprobes->offsets);
	attr.multi.semaphores = pointer(uprobes->semaphores);
	attr.multi.cookies = pointer(uprobes->cookies);
	attr.multi.count = uprobes->count;
	attr.multi.flags = uprobes->on_return ? RETURN_FLAG : 0;
	attr.multi.pid = uprobes->pid;
	return create(&attr);
}

/* The kernel numbers this source of events anew at each boot. */
static int event_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -EOPNOTSUPP;

	if (!file)
		return -EOPNOTSUPP;
	if (fscanf(file, "%d", &type) != 1)
		type = -EOPNOTSUPP;
	fclose(file);
	return type;
}

static int open_event(const struct sk_bpf_uprobes *uprobes, uint32_t index)
{
	struct perf_event_attr attr;
	int type = event_type();
	long fd;

	if (type < 0)
		return type;
	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = (uint32_t)type;
	attr.config = (uprobes->on_return ? RETURN_FLAG : 0) | uprobes->semaphores[index] << 32;
	attr.uprobe_path = pointer(uprobes->path);
	attr.probe_offset = uprobes->offsets[index];
	fd = syscall(SYS_perf_event_open, &attr, (int)uprobes->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int sk_bpf_uprobe_link_one(int program_fd, const struct sk_bpf_uprobes *uprobes, uint32_t index)
{
	struct link_create attr;
	int event, link;

	if (uprobes->semaphores[index] >> 32) /* it shares a word with the flags */
		return -EOVERFLOW;
	event = open_event(uprobes, index);
	if (event < 0)
		return event;
	memset(&attr, 0, sizeof(attr));
	attr.program_fd = (uint32_t)program_fd;
	attr.target_fd = (uint32_t)event;
	attr.attach_type = PERF_EVENT;
	attr.perf_cookie = uprobes->cookies[index];
	link = create(&attr);
	close(event); /* the link keeps it open */
	return link;
}
