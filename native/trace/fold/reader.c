/* SPDX-License-Identifier: Apache-2.0 */
/* Checked copies of the parts of a hostile file; see reader.h. */
#include "trace/fold/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT_BYTES_MAX = 1 << 30 };

bool sk_trace_reader_parse(const char *name, uint32_t *pid, uint64_t *starttime, uint32_t *number)
{
	char again[64];

	if (strlen(name) >= sizeof(again) - 1 ||
	    sscanf(name, "%" SCNu32 "-%" SCNu64 "-%" SCNu32, pid, starttime, number) != 3)
		return false;
	sk_trace_reader_name(*pid, *starttime, *number, again);
	return !strcmp(name, again); /* one spelling per segment */
}

void sk_trace_reader_name(uint32_t pid, uint64_t starttime, uint32_t number, char *ret)
{
	snprintf(ret, 64, "%" PRIu32 "-%" PRIu64 "-%" PRIu32 ".seg", pid, starttime, number);
}

static int copy(struct sk_trace_reader *reader, void *into, size_t bytes, uint64_t offset)
{
	ssize_t got = pread(reader->fd, into, bytes, (off_t)offset);

	if (got == (ssize_t)bytes)
		return 0;
	return got < 0 && errno != EINTR ? -errno : -EBADMSG;
}

static int copy_part(struct sk_trace_reader *reader, struct sk_segment *view, size_t from,
		     size_t to)
{
	return copy(reader, (char *)view + from, to - from, from);
}

/* Order the copies before it against those after it; pairs with the writer's release stores. */
static void fence(void)
{
	atomic_thread_fence(memory_order_acquire);
}

static bool header_sensible(const struct sk_trace_reader *reader,
			    const struct sk_segment_header *header)
{
	return header->version == SK_SEGMENT_VERSION && header->segment_bytes <= reader->bytes &&
	       header->segment_bytes >= sizeof(struct sk_segment) && header->slots >= 1 &&
	       header->slots <= SK_SEGMENT_SLOTS && header->slots_used <= header->slots &&
	       header->names <= SK_SEGMENT_NAMES && header->devices <= SK_SEGMENT_DEVICES;
}

/* Copy rows [0, count) of a table of the segment. */
static int copy_rows(struct sk_trace_reader *reader, struct sk_segment *view, size_t table,
		     size_t row, uint32_t count)
{
	return count ? copy_part(reader, view, table, table + count * row) : 0;
}

int sk_trace_reader_load(struct sk_trace_reader *reader, struct sk_segment *view)
{
	const struct sk_segment_header *header = &view->header;
	int error = copy_part(reader, view, 0, offsetof(struct sk_segment_header, reserved));

	if (error)
		return error;
	if (!header->magic)
		return -EAGAIN;
	if (header->magic != SK_SEGMENT_MAGIC || !header_sensible(reader, header))
		return -EBADMSG;
	fence();
	error = copy_rows(reader, view, offsetof(struct sk_segment, devices),
			  sizeof(view->devices[0]), header->devices);
	return error ? error : sk_trace_reader_load_slots(reader, view);
}

int sk_trace_reader_load_slots(struct sk_trace_reader *reader, struct sk_segment *view)
{
	int error = copy_rows(reader, view, offsetof(struct sk_segment, slots),
			      sizeof(view->slots[0]), view->header.slots_used);

	fence();
	return error;
}

int sk_trace_reader_load_names(struct sk_trace_reader *reader, struct sk_segment *view,
			       uint32_t from, uint32_t to)
{
	size_t base = offsetof(struct sk_segment, names);

	return copy_part(reader, view, base + from * sizeof(view->names[0]),
			 base + to * sizeof(view->names[0]));
}

int sk_trace_reader_load_windows(struct sk_trace_reader *reader, struct sk_segment *view)
{
	size_t base = offsetof(struct sk_segment, window);

	return copy_part(reader, view, base, base + sizeof(view->window));
}

static int put(struct sk_trace_reader *reader, uint64_t value, size_t at)
{
	return pwrite(reader->fd, &value, sizeof(value), (off_t)at) == sizeof(value) ? 0 : -EBADMSG;
}

int sk_trace_reader_control(struct sk_trace_reader *reader, uint64_t wanted, uint64_t lease_ns)
{
	/* Write the lease first: a request is never seen under a lease that has expired. */
	int error = put(reader, lease_ns, offsetof(struct sk_segment_header, control.lease_ns));

	if (!error && wanted != reader->wanted)
		error = put(reader, wanted, offsetof(struct sk_segment_header, control.wanted));
	if (error)
		return error;
	reader->wanted = wanted;
	reader->lease_ns = lease_ns;
	return 0;
}

int sk_trace_reader_throttle(struct sk_trace_reader *reader, uint64_t word)
{
	int error = put(reader, word, offsetof(struct sk_segment_header, hold));

	if (!error)
		reader->throttle = word;
	return error;
}

static int open_checked(struct sk_trace_reader *reader, int folder_fd, const char *name,
			uid_t owner)
{
	struct stat status;

	reader->fd =
		openat(folder_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (reader->fd < 0)
		return errno == ELOOP || errno == ENXIO || errno == EISDIR ? -EBADMSG : -errno;
	if (fstat(reader->fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode) || status.st_uid != owner || status.st_nlink != 1)
		return -EBADMSG;
	if (!status.st_size)
		return -EAGAIN;
	if (status.st_size < (off_t)sizeof(struct sk_segment) || status.st_size > SEGMENT_BYTES_MAX)
		return -EBADMSG;
	reader->inode = status.st_ino;
	reader->bytes = (uint64_t)status.st_size;
	return 0;
}

int sk_trace_reader_open(struct sk_trace_reader *reader, int folder_fd, const char *name,
			 uid_t owner, struct sk_segment *view)
{
	memset(reader, 0, offsetof(struct sk_trace_reader, counts));
	int error = open_checked(reader, folder_fd, name, owner);

	if (!error)
		error = sk_trace_reader_load(reader, view);
	if (error)
		sk_trace_reader_close(reader);
	return error;
}

static void add_slot(struct sk_trace_fold_counters *sum, uint64_t head,
		     const struct sk_slot_counters *slot)
{
	sum->launches += slot->launches;
	sum->copies += slot->copies;
	sum->timed += slot->timed;
	sum->made += head + slot->ring_full;
	sum->lost_ns += slot->lost_ns;
	sum->tracer_ns += slot->tracer_ns;
	sum->thread_ns += slot->thread_ns;
	if (slot->opened_ns && slot->seen_ns > slot->opened_ns)
		sum->thread_ns += slot->seen_ns - slot->opened_ns;
	sum->loss[SK_LOSS_ring_full] += slot->ring_full;
	sum->loss[SK_LOSS_pending_full] += slot->pending_full;
	sum->loss[SK_LOSS_failed] += slot->failed;
	sum->loss[SK_LOSS_unstamped] += slot->unstamped;
	sum->loss[SK_LOSS_host_lost] += slot->host_lost;
	sum->loss[SK_LOSS_untimed] += slot->untimed;
}

static void load_answer(struct sk_trace_reader *reader, const struct sk_segment_header *header)
{
	struct sk_trace_reader_answer *to = &reader->answer;

	*to = (struct sk_trace_reader_answer){.applied = header->answer.applied,
					      .since_ns = header->answer.since_ns,
					      .switches = header->answer.switches,
					      .switches_late = header->answer.switches_late,
					      .pinned = header->answer.pinned,
					      .mode = header->answer.mode,
					      .phase = header->answer.phase,
					      .tracer = header->tracer,
					      .stepped_aside = header->stepped_aside,
					      .holds = header->holds == 1,
					      .hold = header->hold,
					      .held = header->held,
					      .held_ns = header->held_ns};
	memcpy(to->holder, header->holder, sizeof(to->holder));
	to->holder[sizeof(to->holder) - 1] = 0;
}

static int load_row(struct sk_trace_reader *reader, struct sk_segment *view, unsigned row)
{
	size_t counts = offsetof(struct sk_segment, counts) + row * sizeof(view->counts[0]);
	size_t copies = offsetof(struct sk_segment, copies) + row * sizeof(view->copies[0]);
	int error = copy(reader, reader->counts[row], sizeof(reader->counts[0]), counts);

	return error ? error : copy(reader, reader->copies[row], sizeof(reader->copies[0]), copies);
}

/* Add the launches of threads that found no slot. */
static void add_shared(struct sk_trace_fold_counters *sum, const struct sk_trace_reader *reader)
{
	for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++)
		sum->launches += reader->counts[SK_SEGMENT_SLOTS][name];
	for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++)
		sum->copies += reader->copies[SK_SEGMENT_SLOTS][kind][0];
}

int sk_trace_reader_load_counts(struct sk_trace_reader *reader, struct sk_segment *view)
{
	struct sk_trace_fold_counters *sum = &reader->counters;
	const struct sk_segment_header *header = &view->header;
	int error = 0;

	memset(sum, 0, sizeof(*sum));
	for (unsigned slot = 0; slot < header->slots_used && !error; slot++) {
		const struct sk_slot_counters *counters = &view->slots[slot].counters;
		uint64_t calls = counters->launches + counters->copies;

		add_slot(sum, view->slots[slot].head, counters);
		if (calls != reader->rows_seen[slot])
			error = load_row(reader, view, slot);
		reader->rows_seen[slot] = calls;
	}
	if (!error && header->threads_refused != reader->rows_seen[SK_SEGMENT_SLOTS])
		error = load_row(reader, view, SK_SEGMENT_SLOTS);
	reader->rows_seen[SK_SEGMENT_SLOTS] = header->threads_refused;
	if (!error && header->threads_refused)
		add_shared(sum, reader);
	load_answer(reader, header);
	reader->costs.timed_ns = header->timed_call_ns;
	reader->costs.counted_ns = header->counted_call_ns;
	sum->command_buffers = header->command_buffers;
	sum->profiler_ns = header->profiler_ns;
	sum->loss[SK_LOSS_vendor_dropped] = header->vendor_dropped;
	sum->loss[SK_LOSS_unjoined] = header->unjoined;
	sum->loss[SK_LOSS_threads_refused] = header->threads_refused;
	sum->loss[SK_LOSS_names_refused] = header->names_refused;
	sum->loss[SK_LOSS_devices_refused] = header->devices_refused;
	sum->loss[SK_LOSS_queues_refused] = header->queues_refused;
	sum->loss[SK_LOSS_clock_mismatches] = header->clock_mismatches;
	return error;
}

static bool ring_sensible(const struct sk_trace_reader *reader, const struct sk_slot *slot)
{
	uint64_t records = slot->ring_records, bytes = records * sizeof(struct sk_record);

	return records && records <= SK_SEGMENT_RING_MAX && !(records & (records - 1)) &&
	       slot->ring_offset >= sizeof(struct sk_segment) &&
	       slot->ring_offset <= reader->bytes && bytes <= reader->bytes - slot->ring_offset;
}

int sk_trace_reader_records(struct sk_trace_reader *reader, const struct sk_segment *view,
			    unsigned index, uint64_t tail, struct sk_record *ret, unsigned max)
{
	const struct sk_slot *slot = &view->slots[index];
	uint64_t waiting = slot->head - tail, cell;

	if (!waiting)
		return 0;
	if (!ring_sensible(reader, slot) || waiting > slot->ring_records)
		return -EBADMSG;
	cell = tail & (slot->ring_records - 1);
	if (waiting > max)
		waiting = max;
	if (waiting > slot->ring_records - cell)
		waiting = slot->ring_records - cell;
	int error =
		copy(reader, ret, waiting * sizeof(*ret), slot->ring_offset + cell * sizeof(*ret));

	return error ? error : (int)waiting;
}

int sk_trace_reader_consume(struct sk_trace_reader *reader, unsigned slot, uint64_t tail)
{
	off_t offset = (off_t)(offsetof(struct sk_segment, slots) + slot * sizeof(struct sk_slot) +
			       offsetof(struct sk_slot, tail));

	/* Pairs with the producer's acquire load of `tail`: our copies of the cells are complete.
	 */
	atomic_thread_fence(memory_order_release);
	return pwrite(reader->fd, &tail, sizeof(tail), offset) == sizeof(tail) ? 0 : -EBADMSG;
}

bool sk_trace_reader_process_runs(uint32_t pid, uint64_t starttime)
{
	char path[32], text[1024];
	char state;
	unsigned long long threads, started;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno != ENOENT && errno != ESRCH;
	ssize_t got = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[got > 0 ? got : 0] = 0;
	const char *rest = strrchr(text, ')'); /* the command name may hold anything */

	if (!rest || sscanf(rest,
			    ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			    "%llu %*d %llu",
			    &state, &threads, &started) != 3)
		return false;
	/* A leader that ended before its threads is a zombie while they run. */
	return started == starttime && (threads > 1 || (state != 'Z' && state != 'X'));
}

void sk_trace_reader_close(struct sk_trace_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	reader->fd = -1;
}
