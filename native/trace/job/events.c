/* SPDX-License-Identifier: Apache-2.0 */
/* Ring files of the timeline; see events.h. */
#include "trace/job/events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void sk_trace_events_init(struct sk_trace_events *events, const char *name, size_t entry_bytes)
{
	*events = (struct sk_trace_events){.fd = -1, .name = name, .entry_bytes = entry_bytes};
}

static int ready(struct sk_trace_events *events, int folder_fd, int flags)
{
	if (events->fd < 0)
		events->fd = openat(folder_fd, events->name,
				    O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return events->fd < 0 ? -errno : 0;
}

unsigned sk_trace_events_flush(struct sk_trace_events *events, int folder_fd)
{
	unsigned count = events->pending;
	size_t bytes = count * events->entry_bytes;
	off_t offset = (off_t)(events->next % SK_EVENTS_CAPACITY * events->entry_bytes);

	events->pending = 0;
	if (!count)
		return 0;
	if (ready(events, folder_fd, O_CREAT))
		return count;
	return pwrite(events->fd, events->batch, bytes, offset) == (ssize_t)bytes ? 0 : count;
}

unsigned sk_trace_events_add(struct sk_trace_events *events, int folder_fd, uint64_t number,
			     const void *entry)
{
	unsigned lost = 0;

	/* A batch is contiguous: it ends where the ring file starts over. */
	if (events->pending == SK_EVENTS_BATCH ||
	    (events->pending && number % SK_EVENTS_CAPACITY == 0))
		lost = sk_trace_events_flush(events, folder_fd);
	if (!events->pending)
		events->next = number;
	memcpy(events->batch + events->pending * events->entry_bytes, entry, events->entry_bytes);
	events->pending++;
	return lost;
}

static int read_piece(struct sk_trace_events *events, uint64_t first, uint64_t count, void *ret)
{
	size_t bytes = count * events->entry_bytes;
	off_t offset = (off_t)(first % SK_EVENTS_CAPACITY * events->entry_bytes);
	ssize_t got = pread(events->fd, ret, bytes, offset);

	if (got < 0)
		return -errno;
	memset((char *)ret + got, 0,
	       bytes - (size_t)got); /* never written, for lack of disk space */
	return 0;
}

int sk_trace_events_copy(struct sk_trace_events *events, int folder_fd, uint64_t first,
			 uint64_t count, void *ret)
{
	uint64_t head = SK_EVENTS_CAPACITY - first % SK_EVENTS_CAPACITY;
	int error;

	if (!count)
		return 0;
	error = ready(events, folder_fd, 0);
	if (error)
		return error == -ENOENT ? 0 : error;
	if (head > count)
		head = count;
	error = read_piece(events, first, head, ret);
	if (!error)
		error = read_piece(events, first + head, count - head,
				   (char *)ret + head * events->entry_bytes);
	return error ? error : (int)count;
}

int sk_trace_events_read(struct sk_trace_events *events, int folder_fd, uint64_t total, void *ret)
{
	uint64_t count = total < SK_EVENTS_CAPACITY ? total : SK_EVENTS_CAPACITY;

	return sk_trace_events_copy(events, folder_fd, total - count, count, ret);
}

void sk_trace_events_close(struct sk_trace_events *events)
{
	if (events->fd >= 0)
		close(events->fd);
	events->fd = -1;
}
