/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/shim/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "runner/site/folder.h"

enum { CHUNK = 64 * 1024, CHUNKS_PER_CALL = 16 };

static char chunk[CHUNK];

static int open_file(struct sk_runner_sink *sink)
{
	int folder = sk_runner_folder_open(sink->folder);

	if (folder < 0)
		return folder;
	/* The file is opened for appending: a later attempt of the same job adds to it. */
	sink->file = openat(folder, sink->name,
			    O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	close(folder);
	return sink->file < 0 ? -errno : 0;
}

/** Write all of it, or return how much the file system took. */
static size_t write_file(struct sk_runner_sink *sink, const char *bytes, size_t size,
			 int *ret_error)
{
	size_t done = 0;

	if (sink->file < 0 && (*ret_error = open_file(sink)))
		return 0;
	while (done < size) {
		ssize_t wrote = write(sink->file, bytes + done, size - done);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0) {
			*ret_error = -errno;
			break;
		}
		done += (size_t)wrote;
	}
	return done;
}

static void store(struct sk_runner_sink *sink, struct sk_runner_sink_budget *budget, size_t size)
{
	size_t take = size < budget->left ? size : (size_t)budget->left, done = 0;
	int error = 0;

	budget->over += size - take;
	if (take)
		done = write_file(sink, chunk, take, &error);
	sink->written += done;
	budget->left -= done;
	budget->refused += take - done;
	if (error && !budget->error)
		budget->error = error;
}

bool sk_runner_sink_drain(struct sk_runner_sink *sink, struct sk_runner_sink_budget *budget)
{
	for (int i = 0; i < CHUNKS_PER_CALL && sink->pipe >= 0; i++) {
		ssize_t got = read(sink->pipe, chunk, sizeof(chunk));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return false;
		if (got <= 0) {
			close(sink->pipe);
			sink->pipe = -1;
			return false;
		}
		store(sink, budget, (size_t)got);
	}
	return sink->pipe >= 0;
}

void sk_runner_sink_close(struct sk_runner_sink *sink)
{
	if (sink->pipe >= 0)
		close(sink->pipe);
	if (sink->file >= 0)
		close(sink->file);
	sink->pipe = sink->file = -1;
}
