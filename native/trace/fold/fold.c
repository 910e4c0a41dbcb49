/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of the fold: open, commit, and its tables; fold.h says why it survives kill -9. */
#include "trace/fold/fold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLD_MAGIC UINT64_C(0x31646c6f66656b6f) /* "okefold1" */

struct file_header {
	uint64_t magic;
	uint64_t serial; /* of the current copy, which is serial % 2 */
	uint32_t version;
	uint32_t state_bytes;
};

enum { HEADER_BYTES = 4096 };

static off_t copy_offset(uint64_t serial)
{
	return HEADER_BYTES +
	       (off_t)(serial % 2) *
		       (off_t)((sizeof(struct sk_trace_fold_state) + 4095) / 4096 * 4096);
}

static int read_all(int fd, void *into, size_t bytes, off_t offset)
{
	while (bytes) {
		ssize_t got = pread(fd, into, bytes, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got) { /* behind the last part ever written: zeros, as in a hole */
			memset(into, 0, bytes);
			return 0;
		}
		into = (char *)into + got;
		bytes -= (size_t)got;
		offset += got;
	}
	return 0;
}

static int write_all(int fd, const void *from, size_t bytes, off_t offset)
{
	while (bytes) {
		ssize_t put = pwrite(fd, from, bytes, offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		from = (const char *)from + put;
		bytes -= (size_t)put;
		offset += put;
	}
	return 0;
}

static bool sensible(const struct sk_trace_fold_state *state, const struct file_header *header)
{
	return state->serial == header->serial && state->mode <= SK_MODE_DORMANT &&
	       state->segments_used <= SK_FOLD_SEGMENTS &&
	       state->devices_used <= SK_CAUSES_DEVICES && state->names_used <= SK_FOLD_NAMES &&
	       state->processes_used <= SK_FOLD_PROCESSES && state->host_used <= SK_FOLD_HOST &&
	       state->intervals_used <= SK_FOLD_INTERVALS && state->spans_used <= SK_FOLD_SPANS &&
	       state->causes.threads <= SK_CAUSES_THREADS && sk_trace_causes_check(&state->causes);
}

static off_t device_offset(unsigned device)
{
	return (off_t)(offsetof(struct sk_trace_causes, device) +
		       device * sizeof(struct sk_trace_causes_device));
}

/* Parts are read one at a time, so that pages of unused parts are never touched. */
static int read_state(struct sk_trace_fold *fold, off_t base)
{
	struct sk_trace_fold_state *state = fold->state;
	size_t fixed = offsetof(struct sk_trace_fold_state, segments);
	int error = read_all(fold->fd, state, fixed, base);

#define PART(field, count)                                                                         \
	if (!error && (count) <= sizeof(state->field) / sizeof(state->field[0]))                   \
	error = read_all(fold->fd, state->field, (count) * sizeof(state->field[0]),                \
			 base + (off_t)offsetof(struct sk_trace_fold_state, field))
	PART(segments, state->segments_used);
	PART(names, state->names_used);
	PART(kernels, state->names_used);
	PART(copies, SK_COPY_KINDS);
	PART(intervals, state->intervals_used);
	PART(waiting, state->spans_used);
#undef PART
	base += (off_t)offsetof(struct sk_trace_fold_state, causes);
	if (!error)
		error = read_all(fold->fd, &state->causes, offsetof(struct sk_trace_causes, device),
				 base);
	for (unsigned d = 0; d < SK_CAUSES_ROWS && !error; d++)
		if (state->causes.device_known[d])
			error = read_all(fold->fd, &state->causes.device[d],
					 sizeof(struct sk_trace_causes_device),
					 base + device_offset(d));
	return error;
}

static int load(struct sk_trace_fold *fold)
{
	struct file_header header;
	int error = read_all(fold->fd, &header, sizeof(header), 0);

	if (error)
		return error;
	if (!header.magic && !header.serial)
		return -ENODATA; /* killed before the first commit */
	if (header.magic != FOLD_MAGIC || header.version != SK_FOLD_VERSION ||
	    header.state_bytes != sizeof(struct sk_trace_fold_state))
		return -EBADMSG;
	error = read_state(fold, copy_offset(header.serial));
	if (error)
		return error;
	return sensible(fold->state, &header) ? 0 : -EBADMSG;
}

static void start(struct sk_trace_fold_state *state, uint32_t mode, uint64_t now_ns)
{
	memset(state, 0, offsetof(struct sk_trace_fold_state, segments));
	state->mode = mode;
	state->names_used = 1;
	strcpy(state->names[0], "(other)");
	sk_trace_causes_init(&state->causes, now_ns);
}

int sk_trace_fold_open(struct sk_trace_fold *fold, int store_fd, uint32_t mode, uint64_t now_ns)
{
	int error = -ENODATA;

	memset(fold, 0, sizeof(*fold));
	fold->state = calloc(1, sizeof(*fold->state));
	if (!fold->state)
		return -ENOMEM;
	fold->fd = openat(store_fd, "fold", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fold->fd >= 0)
		error = load(fold);
	else if (errno != ENOENT)
		error = -errno;
	if (error == -ENODATA) {
		start(fold->state, mode, now_ns);
		error = 0;
	}
	if (error)
		sk_trace_fold_close(fold);
	return error;
}

static int write_stats(struct sk_trace_fold *fold, uint64_t serial,
		       const struct sk_trace_stat *stats, unsigned count, unsigned first,
		       off_t offset)
{
	uint64_t *written = fold->written[serial % 2] + first;
	int error = 0;

	for (unsigned row = 0; row < count && !error; row++) {
		if (!stats[row].changed || written[row] == stats[row].changed + 1)
			continue;
		error = write_all(fold->fd, &stats[row], sizeof(stats[row]),
				  offset + (off_t)(row * sizeof(stats[row])));
		if (!error)
			written[row] = stats[row].changed + 1;
	}
	return error;
}

static int write_causes(struct sk_trace_fold *fold, off_t base)
{
	const struct sk_trace_causes *causes = &fold->state->causes;
	int error = write_all(fold->fd, causes, offsetof(struct sk_trace_causes, device), base);

	for (unsigned d = 0; d < SK_CAUSES_ROWS && !error; d++)
		if (causes->device_known[d])
			error = write_all(fold->fd, &causes->device[d], sizeof(causes->device[d]),
					  base + device_offset(d));
	return error;
}

static int write_state(struct sk_trace_fold *fold)
{
	const struct sk_trace_fold_state *state = fold->state;
	off_t base = copy_offset(state->serial);
	int error =
		write_all(fold->fd, state, offsetof(struct sk_trace_fold_state, segments), base);

#define PART(field, count)                                                                         \
	if (!error)                                                                                \
	error = write_all(fold->fd, state->field, (count) * sizeof(state->field[0]),               \
			  base + (off_t)offsetof(struct sk_trace_fold_state, field))
	PART(segments, state->segments_used);
	PART(names, state->names_used);
	PART(intervals, state->intervals_used);
	PART(waiting, state->spans_used);
#undef PART
	if (!error)
		error = write_causes(fold,
				     base + (off_t)offsetof(struct sk_trace_fold_state, causes));
	if (!error)
		error = write_stats(fold, state->serial, state->kernels, state->names_used, 0,
				    base + (off_t)offsetof(struct sk_trace_fold_state, kernels));
	if (!error)
		error = write_stats(fold, state->serial, state->copies, SK_COPY_KINDS,
				    SK_FOLD_NAMES,
				    base + (off_t)offsetof(struct sk_trace_fold_state, copies));
	return error;
}

int sk_trace_fold_commit(struct sk_trace_fold *fold, int store_fd)
{
	struct file_header header = {.magic = FOLD_MAGIC,
				     .version = SK_FOLD_VERSION,
				     .state_bytes = sizeof(struct sk_trace_fold_state)};

	if (fold->fd < 0)
		fold->fd =
			openat(store_fd, "fold", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fold->fd < 0)
		return -errno;
	fold->state->serial++;
	header.serial = fold->state->serial;
	int error = write_state(fold);

	if (!error) /* within one page, so it is there whole or not at all */
		error = write_all(fold->fd, &header, sizeof(header), 0);
	if (error) {
		/* The next batch has the same serial and must write every part again. */
		memset(fold->written[fold->state->serial % 2], 0, sizeof(fold->written[0]));
		fold->state->serial--;
	}
	return error;
}

void sk_trace_fold_counters_add(struct sk_trace_fold_counters *sum,
				const struct sk_trace_fold_counters *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	_Static_assert(sizeof(*sum) % sizeof(*to) == 0, "nothing but 64-bit counters");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

struct sk_trace_stat *sk_trace_fold_touch(struct sk_trace_fold *fold, bool kernel, unsigned row)
{
	struct sk_trace_stat *stat =
		kernel ? &fold->state->kernels[row] : &fold->state->copies[row];

	stat->changed = fold->state->serial + 1;
	return stat;
}

unsigned sk_trace_fold_name(struct sk_trace_fold *fold, const char *text)
{
	struct sk_trace_fold_state *state = fold->state;

	for (unsigned row = 1; row < state->names_used; row++)
		if (!strcmp(state->names[row], text))
			return row;
	if (state->names_used == SK_FOLD_NAMES)
		return 0;
	strncpy(state->names[state->names_used], text, SK_SEGMENT_NAME_BYTES - 1);
	return state->names_used++;
}

/* Return the row whose name has had the least device time, including what it may lack. */
static unsigned least_row(const struct sk_trace_fold_state *state, uint64_t *ret)
{
	unsigned least = 0;

	*ret = UINT64_MAX;
	for (unsigned row = 1; row < state->names_used; row++) {
		const struct sk_trace_stat *stat = &state->kernels[row];
		uint64_t ns = sk_trace_stat_weighted_ns(stat) + stat->missing_ns;

		if (ns < *ret) {
			least = row;
			*ret = ns;
		}
	}
	return least;
}

/* Let every name of every process that had `row` count as "(other)" from now on. */
static void forget_row(struct sk_trace_fold_state *state, unsigned row)
{
	for (unsigned s = 0; s < state->segments_used; s++)
		for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++)
			if (state->segments[s].names[name] == row)
				state->segments[s].names[name] = 0;
}

/* Space-saving (Metwally, Agrawal, El Abbadi, 2005), by device time: the newcomer may have had as
 * much before as the name it replaces. A name with more than a 255th of all device time thus has a
 * row, and a row lacks at most `missing_ns`. */
unsigned sk_trace_fold_contend(struct sk_trace_fold *fold, const char *text, uint64_t ns)
{
	struct sk_trace_fold_state *state = fold->state;
	unsigned row = sk_trace_fold_name(fold, text);
	uint64_t least_ns;

	if (row || !ns)
		return row;
	row = least_row(state, &least_ns);
	struct sk_trace_stat *stat = sk_trace_fold_touch(fold, true, row);
	struct sk_trace_stat *other = sk_trace_fold_touch(fold, true, 0);
	uint64_t changed = stat->changed;

	sk_trace_stat_merge(other, stat);
	forget_row(state, row);
	memset(stat, 0, sizeof(*stat));
	stat->changed = changed;
	stat->missing_ns = least_ns + ns;
	state->turns[row]++;
	memset(state->names[row], 0, sizeof(state->names[row]));
	strncpy(state->names[row], text, SK_SEGMENT_NAME_BYTES - 1);
	state->retired.loss[SK_LOSS_job_names_refused]++;
	return row;
}

unsigned sk_trace_fold_process(struct sk_trace_fold *fold, uint32_t pid, uint64_t starttime,
			       const char *comm)
{
	struct sk_trace_fold_state *state = fold->state;
	unsigned row = 0;

	while (row < state->processes_used && row < SK_FOLD_PROCESSES - 1 &&
	       (state->processes[row].pid != pid || state->processes[row].starttime != starttime))
		row++;
	if (row == state->processes_used)
		state->processes_used++;
	struct sk_trace_fold_process *process = &state->processes[row];

	if (row == SK_FOLD_PROCESSES - 1) {
		strcpy(process->comm, "(other)");
		return row;
	}
	process->pid = pid;
	process->starttime = starttime;
	memcpy(process->comm, comm, sizeof(process->comm));
	return row;
}

unsigned sk_trace_fold_device(struct sk_trace_fold *fold, const char *id)
{
	struct sk_trace_fold_state *state = fold->state;

	for (unsigned row = 0; row < state->devices_used; row++)
		if (!strcmp(state->devices[row].id, id))
			return row;
	if (state->devices_used == SK_CAUSES_DEVICES)
		return SK_NO_DEVICE;
	strncpy(state->devices[state->devices_used].id, id, sizeof(state->devices[0].id) - 1);
	sk_trace_causes_know(&state->causes, state->devices_used);
	return state->devices_used++;
}

void sk_trace_fold_close(struct sk_trace_fold *fold)
{
	if (fold->fd >= 0)
		close(fold->fd);
	fold->fd = -1;
	free(fold->state);
	fold->state = NULL;
}
