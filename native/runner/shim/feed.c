/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/shim/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { CHUNK = 64 * 1024 };

static char chunk[CHUNK];

static uint64_t published(const struct sk_runner_feed *feed)
{
	/* Pairs with the spawner's release store after its pwrite. */
	return atomic_load_explicit(&feed->control->stdin_bytes, memory_order_acquire);
}

static bool open_file(struct sk_runner_feed *feed)
{
	int folder;

	if (feed->file >= 0)
		return true;
	folder = open(feed->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	feed->file = folder < 0 ? -1 : openat(folder, "in", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (folder >= 0)
		close(folder);
	return feed->file >= 0;
}

/** Copy one chunk; false when the pipe is full or closed or there is nothing to send. */
static bool pump_chunk(struct sk_runner_feed *feed)
{
	uint64_t waiting = published(feed) - feed->sent;
	ssize_t got, wrote;

	if (!waiting || !open_file(feed))
		return false;
	got = pread(feed->file, chunk, waiting < CHUNK ? (size_t)waiting : CHUNK,
		    (off_t)feed->sent);
	if (got <= 0)
		return false;
	wrote = write(feed->pipe, chunk, (size_t)got);
	if (wrote < 0 && errno != EAGAIN && errno != EINTR)
		sk_runner_feed_close(feed);
	if (wrote <= 0)
		return false;
	feed->sent += (uint64_t)wrote;
	return true;
}

void sk_runner_feed_pump(struct sk_runner_feed *feed)
{
	uint32_t eof;

	if (feed->pipe < 0)
		return;
	/* Read the flag before the length: once it is set, no further byte is published. */
	eof = atomic_load_explicit(&feed->control->stdin_eof, memory_order_acquire);
	while (feed->pipe >= 0 && pump_chunk(feed))
		;
	if (eof && feed->pipe >= 0 && published(feed) == feed->sent)
		sk_runner_feed_close(feed);
}

bool sk_runner_feed_waits(const struct sk_runner_feed *feed)
{
	return feed->pipe >= 0 && published(feed) > feed->sent;
}

void sk_runner_feed_close(struct sk_runner_feed *feed)
{
	if (feed->pipe >= 0)
		close(feed->pipe);
	if (feed->file >= 0)
		close(feed->file);
	feed->pipe = feed->file = -1;
}
