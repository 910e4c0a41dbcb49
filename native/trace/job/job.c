/* SPDX-License-Identifier: Apache-2.0 */
/* One traced job: opened, fed and closed. drain.c drains it, totals.c sums it up. */
#include "trace/job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int allocate(struct sk_trace_job *job)
{
	/* Large blocks become resident only as far as they are used. */
	job->view = aligned_alloc(alignof(struct sk_segment), sizeof(*job->view));
	job->records = calloc(SK_JOB_BATCH, sizeof(*job->records));
	job->input.intervals = calloc(SK_JOB_WAITING_INTERVALS, sizeof(struct sk_trace_interval));
	job->input.spans = calloc(SK_JOB_WAITING_SPANS, sizeof(struct sk_trace_thread_span));
	job->input.scratch = calloc(SK_JOB_WAITING_INTERVALS, sizeof(struct sk_trace_interval));
	return job->view && job->records && job->input.intervals && job->input.spans &&
			       job->input.scratch
		       ? 0
		       : -ENOMEM;
}

/* Restore the unsettled input as of the last commit. */
static void restore_input(struct sk_trace_job *job)
{
	const struct sk_trace_fold_state *state = job->fold.state;

	job->input.interval_count = state->intervals_used;
	job->input.span_count = state->spans_used;
	memcpy(job->input.intervals, state->intervals,
	       state->intervals_used * sizeof(struct sk_trace_interval));
	memcpy(job->input.spans, state->waiting,
	       state->spans_used * sizeof(struct sk_trace_thread_span));
	job->spans_to_ns = state->causes.frontier_ns;
}

static int open_parts(struct sk_trace_job *job, const char *folder, const char *store,
		      uint32_t mode, uint64_t now_ns)
{
	job->store_fd = open_folder(store);
	if (job->store_fd < 0)
		return job->store_fd;
	int error = sk_trace_fold_open(&job->fold, job->store_fd, mode, now_ns);

	if (error)
		return error;
	job->folder_fd = open_folder(folder);
	/* A finished trace needs no segments any more. */
	if (job->folder_fd < 0 && !job->fold.state->finished)
		return job->folder_fd;
	return allocate(job);
}

int sk_trace_job_open(struct sk_trace_job **ret, const char *folder, const char *store,
		      uint32_t mode, uid_t owner, uint64_t now_ns)
{
	struct sk_trace_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->folder_fd = job->store_fd = job->fold.fd = -1;
	job->owner = owner;
	sk_trace_events_init(&job->events, "events", sizeof(struct sk_trace_event));
	sk_trace_events_init(&job->spans, "spans", sizeof(struct sk_trace_thread_span));
	int error = open_parts(job, folder, store, mode, now_ns);

	if (error) {
		sk_trace_job_close(job);
		return error;
	}
	restore_input(job);
	*ret = job;
	return 0;
}

int sk_trace_job_set_window_from(struct sk_trace_job *job, uint64_t from_ns)
{
	struct sk_trace_causes *causes = &job->fold.state->causes;

	if (causes->origin_ns == from_ns)
		return 0;
	if (causes->frontier_ns != causes->origin_ns || causes->threads || job->input.span_count)
		return -EBUSY;
	uint32_t known[SK_CAUSES_ROWS];

	memcpy(known, causes->device_known, sizeof(known));
	sk_trace_causes_init(causes, from_ns);
	for (unsigned device = 0; device < SK_CAUSES_DEVICES; device++)
		if (known[device])
			sk_trace_causes_know(causes, device);
	return 0;
}

void sk_trace_job_set_window_to(struct sk_trace_job *job, uint64_t to_ns)
{
	struct sk_trace_fold_state *state = job->fold.state;

	if (!state->finished)
		state->window_to_ns =
			to_ns > state->causes.frontier_ns ? to_ns : state->causes.frontier_ns;
}

int sk_trace_job_grant(struct sk_trace_job *job, const char *id)
{
	unsigned device = sk_trace_fold_device(&job->fold, id);

	if (device == SK_NO_DEVICE)
		return -ENOSPC;
	job->fold.state->devices[device].granted = 1;
	return 0;
}

/* Adjust a blocked state: the kernel also waits without being woken by signals where nothing is
 * read or written, for a child that has yet to execute its program or for a device. */
static void look_closer(struct sk_trace_thread_span *span)
{
	static const long WAITS[] = {
		SYS_ioctl,
		SYS_clone,
		SYS_clone3,
#ifdef SYS_vfork
		SYS_vfork,
#endif
	};

	for (size_t i = 0; span->state == 4 && i < sizeof(WAITS) / sizeof(WAITS[0]); i++)
		if (span->detail == WAITS[i])
			span->state = 3;
}

static void add_span(struct sk_trace_job *job, struct sk_trace_thread_span span)
{
	struct sk_trace_fold_state *state = job->fold.state;
	uint64_t *loss = state->retired.loss;
	struct sk_trace_thread_span rest;

	look_closer(&span);
	if (!sk_trace_causes_add_span(&state->causes, &span, &rest))
		return;
	if (span.to_ns > job->spans_to_ns)
		job->spans_to_ns = span.to_ns;
	loss[SK_LOSS_timeline_spans_dropped] +=
		sk_trace_events_add(&job->spans, job->store_fd, state->spans++, &span);
	if (rest.to_ns == rest.from_ns)
		return;
	if (job->input.span_count == SK_JOB_WAITING_SPANS)
		loss[SK_LOSS_spans_dropped]++;
	else
		job->input.spans[job->input.span_count++] = rest;
}

void sk_trace_job_add_spans(struct sk_trace_job *job, const struct sk_trace_thread_span *spans,
			    size_t count)
{
	if (job->fold.state->finished)
		return;
	for (size_t i = 0; i < count; i++) {
		struct sk_trace_thread_span span;

		memcpy(&span, &spans[i], sizeof(span)); /* the caller's bytes may lie anywhere */
		add_span(job, span);
	}
	job->dirty = job->dirty || count;
}

void sk_trace_job_add_open(struct sk_trace_job *job, const struct sk_trace_thread_span *open,
			   size_t count)
{
	struct sk_trace_causes *causes = &job->fold.state->causes;
	struct sk_trace_thread_span span;

	for (size_t i = 0; i < count; i++) {
		memcpy(&span, &open[i], sizeof(span));
		if (!sk_trace_causes_joins(causes, &span))
			continue;
		sk_trace_job_add_spans(job, &span, 1);
		sk_trace_causes_goes_on(causes, &span);
	}
}

void sk_trace_job_add_waits(struct sk_trace_job *job, const struct sk_trace_thread_span *waits,
			    size_t count, uint64_t to_ns)
{
	struct sk_trace_fold_state *state = job->fold.state;

	job->waits_to_ns = to_ns;
	for (size_t i = 0; i < count && !state->finished; i++) {
		struct sk_trace_thread_span wait;

		memcpy(&wait, &waits[i], sizeof(wait));
		if (!sk_trace_causes_add_peer(&state->causes, &wait))
			continue;
		if (job->input.span_count == SK_JOB_WAITING_SPANS)
			state->retired.loss[SK_LOSS_spans_dropped]++;
		else
			job->input.spans[job->input.span_count++] = wait;
		job->dirty = true;
	}
}

void sk_trace_job_fed(struct sk_trace_job *job, uint64_t ns)
{
	job->fed_ns = ns;
}

/* Note the total times of a thread for which spans were lost or left out. */
static void note_missing(const struct sk_trace_causes *causes, struct sk_trace_fold_host *host)
{
	const struct sk_trace_causes_thread *thread = NULL;
	uint64_t unseen[4];

	for (unsigned t = 0; t < causes->threads && !thread; t++)
		if (causes->thread[t].tid == host->tid)
			thread = &causes->thread[t];
	if (!thread)
		return;
	for (int state = 0; state < 4; state++)
		unseen[state] = host->ns[state] > thread->seen[state]
					? host->ns[state] - thread->seen[state]
					: 0;
	if (!host->based && thread->heard && !thread->made)
		memcpy(host->base, unseen, sizeof(unseen));
	host->based |= thread->heard;
	for (int state = 0; state < 4; state++)
		host->missing[state] =
			unseen[state] > host->base[state] ? unseen[state] - host->base[state] : 0;
}

int sk_trace_job_set_host_times(struct sk_trace_job *job, uint32_t tid, const uint64_t ns[4])
{
	struct sk_trace_fold_state *state = job->fold.state;
	unsigned row = 0;

	while (row < state->host_used && state->host[row].tid != tid)
		row++;
	if (row == SK_FOLD_HOST)
		return -ENOSPC;
	if (row == state->host_used)
		state->host_used++;
	state->host[row].tid = tid;
	memcpy(state->host[row].ns, ns, sizeof(state->host[row].ns));
	note_missing(&state->causes, &state->host[row]);
	job->dirty = true;
	return 0;
}

void sk_trace_job_close(struct sk_trace_job *job)
{
	if (!job)
		return;
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row]) {
			sk_trace_reader_close(job->readers[row]);
			free(job->readers[row]);
		}
	sk_trace_events_close(&job->events);
	sk_trace_events_close(&job->spans);
	sk_trace_fold_close(&job->fold);
	free(job->view);
	free(job->records);
	free(job->input.intervals);
	free(job->input.scratch);
	free(job->history);
	free(job->input.spans);
	if (job->folder_fd >= 0)
		close(job->folder_fd);
	if (job->store_fd >= 0)
		close(job->store_fd);
	free(job);
}
