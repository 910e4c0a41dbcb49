/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of segments: finds new files, opens them and gives them rows. The folder is the job's
 * and may hold anything, so each look is bounded, as is the part of the time spent on looks. A file
 * that is not a segment is refused once; after many of them no more are opened. */
#include "trace/job/job_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void sk_trace_job_clean_text(char *text, size_t bytes)
{
	text[bytes - 1] = 0;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

static void remember_bad(struct sk_trace_job *job, ino_t inode)
{
	loss_of(job)[SK_LOSS_segments_damaged]++;
	job->bad[job->bad_used++] = inode;
}

static bool is_bad(const struct sk_trace_job *job, ino_t inode)
{
	for (unsigned i = 0; i < job->bad_used; i++)
		if (job->bad[i] == inode)
			return true;
	return false;
}

static void note_process(struct sk_trace_job *job, struct sk_trace_fold_segment *segment)
{
	char *comm = job->view->header.comm;

	sk_trace_job_clean_text(comm, sizeof(job->view->header.comm));
	segment->process =
		sk_trace_fold_process(&job->fold, segment->pid, segment->starttime, comm);
	state_of(job)->processes[segment->process].tracer = job->view->header.tracer;
}

static struct sk_trace_fold_segment *find_segment(struct sk_trace_fold_state *state, uint32_t pid,
						  uint64_t starttime, uint32_t number)
{
	for (unsigned row = 0; row < state->segments_used; row++) {
		struct sk_trace_fold_segment *segment = &state->segments[row];

		if (segment->state != SK_SEGMENT_FREE && segment->pid == pid &&
		    segment->starttime == starttime && segment->number == number)
			return segment;
	}
	return NULL;
}

static struct sk_trace_fold_segment *free_segment(struct sk_trace_fold_state *state)
{
	for (unsigned row = 0; row < state->segments_used; row++)
		if (state->segments[row].state == SK_SEGMENT_FREE)
			return &state->segments[row];
	return state->segments_used < SK_FOLD_SEGMENTS ? &state->segments[state->segments_used++]
						       : NULL;
}

static int open_new(struct sk_trace_job *job, const struct dirent *entry,
		    struct sk_trace_reader **ret)
{
	struct sk_trace_reader *reader = calloc(1, sizeof(*reader));
	int error = reader ? sk_trace_reader_open(reader, job->folder_fd, entry->d_name, job->owner,
						  job->view)
			   : -ENOMEM;

	if (error)
		free(reader);
	else
		*ret = reader;
	return error;
}

/* Note a found segment whose header is in the view. */
static void note_found(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment)
{
	if (job->found_used < SK_FOLD_SEGMENTS)
		job->found[job->found_used++] =
			(struct sk_trace_job_found){.pid = segment->pid,
						    .starttime = segment->starttime,
						    .made_ns = job->view->header.created_ns};
}

unsigned sk_trace_job_take_found(struct sk_trace_job *job, struct sk_trace_job_found *ret)
{
	unsigned count = job->found_used;

	memcpy(ret, job->found, count * sizeof(*ret));
	job->found_used = 0;
	return count;
}

/* Try to open a file that is not known yet. */
static void admit(struct sk_trace_job *job, const struct dirent *entry,
		  const struct sk_trace_fold_segment *found)
{
	struct sk_trace_fold_state *state = state_of(job);
	struct sk_trace_reader *reader = NULL;
	int error = job->bad_used < SK_JOB_BAD ? open_new(job, entry, &reader) : -ENOSPC;
	struct sk_trace_fold_segment *segment = error ? NULL : free_segment(state);

	if (segment) {
		*segment = *found;
		segment->state = SK_SEGMENT_LIVE;
		state->segments_seen++;
		job->readers[segment - state->segments] = reader;
		job->dirty = true;
		note_process(job, segment);
		note_found(job, segment);
		return;
	}
	if (reader)
		sk_trace_reader_close(reader);
	free(reader);
	if (error == -EBADMSG || error == -EACCES)
		remember_bad(job, entry->d_ino);
	else if (error == -EAGAIN)
		job->folder_quiet = false; /* still being made: look again */
	else if (error != -ENOENT)
		job->refused++;
}

static uint64_t clock_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * 1000 * MS + (uint64_t)time->tv_nsec;
}

/* Return whether the folder cannot have changed since its last scan. Its stamp moves with the timer
 * tick, so a young stamp at the scan may hide a later change. */
static bool folder_unchanged(struct sk_trace_job *job)
{
	struct stat status;
	struct timespec now;

	if (fstat(job->folder_fd, &status))
		return false;
	uint64_t stamp = clock_ns(&status.st_mtim);
	bool same = job->folder_quiet && stamp == job->folder_stamp_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	job->folder_stamp_ns = stamp;
	job->folder_quiet = clock_ns(&now) > stamp + 50 * MS;
	return same;
}

static void scan_entries(struct sk_trace_job *job, DIR *folder)
{
	unsigned seen = 0;
	struct dirent *entry;

	job->refused = 0;
	while ((entry = readdir(folder))) {
		struct sk_trace_fold_segment found = {0};

		if (++seen > SK_JOB_FOLDER_ENTRIES) {
			job->refused++;
			break;
		}
		if (sk_trace_reader_parse(entry->d_name, &found.pid, &found.starttime,
					  &found.number) &&
		    !find_segment(state_of(job), found.pid, found.starttime, found.number) &&
		    !is_bad(job, entry->d_ino))
			admit(job, entry, &found);
	}
	if (job->refused > loss_of(job)[SK_LOSS_segments_refused])
		loss_of(job)[SK_LOSS_segments_refused] = job->refused;
}

static uint64_t now_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return clock_ns(&now);
}

static void scan(struct sk_trace_job *job)
{
	int fd = openat(job->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (folder) {
		scan_entries(job, folder);
		closedir(folder);
		return;
	}
	job->folder_quiet = false;
	if (fd >= 0)
		close(fd);
}

void sk_trace_job_scan(struct sk_trace_job *job)
{
	if (job->folder_fd < 0 || (now_of(CLOCK_MONOTONIC) < job->scan_at_ns && !job->ended))
		return;
	if (folder_unchanged(job))
		return;
	uint64_t began_ns = now_of(CLOCK_THREAD_CPUTIME_ID);

	scan(job);
	uint64_t took_ns = now_of(CLOCK_THREAD_CPUTIME_ID) - began_ns;

	job->scan_at_ns = 0;
	if (took_ns > 2 * MS)
		job->scan_at_ns = now_of(CLOCK_MONOTONIC) + SK_JOB_SCAN_SHARE * took_ns;
}
