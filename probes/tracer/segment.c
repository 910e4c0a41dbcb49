/* SPDX-License-Identifier: Apache-2.0 */
/* The segment of this process: a sparse file named after it, given memory part by part. */
#include "tracer/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	PROGRAMS_MAX = 64, /* segments of one process, one for each program that it executes */
	SLOTS_BEFORE_5_14 = 8,
	PAGE = 4096,
	PATH_BYTES = 4096,
};

/* Read the start time (ticks since boot) and the name of the calling process from the kernel. */
static bool read_self(uint64_t *starttime, char comm[16])
{
	char text[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	ssize_t got = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[got > 0 ? got : 0] = 0;
	char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');

	if (!open_at || !close_at || close_at < open_at)
		return false;
	*close_at = 0;
	snprintf(comm, 16, "%.15s", open_at + 1);
	return sscanf(close_at + 1,
		      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
		      "%*d "
		      "%" SCNu64,
		      starttime) == 1;
}

static int create(uint64_t starttime, char path[PATH_BYTES])
{
	const char *folder = getenv("STOKER_TRACE_DIR");

	/* Programs that this process executed earlier have the lower numbers. */
	for (int number = 0; folder && number < PROGRAMS_MAX; number++) {
		int length = snprintf(path, PATH_BYTES, "%s/%d-%" PRIu64 "-%d.seg", folder,
				      (int)getpid(), starttime, number);

		if (length >= PATH_BYTES)
			return -1;
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

/* Set where each slot's ring lies; return the size of the file. */
static size_t lay_out(struct sk_segment *segment, uint32_t mode)
{
	size_t at = sizeof(*segment);

	for (uint32_t slot = 0; slot < SK_SEGMENT_SLOTS; slot++) {
		uint32_t records = sk_segment_ring_records(mode, slot);

		if (segment) {
			segment->slots[slot].ring_offset = at;
			segment->slots[slot].ring_records = records;
		}
		at += records * sizeof(struct sk_record);
	}
	return at;
}

bool sk_tracer_populate(void *from, size_t bytes)
{
	uintptr_t first = (uintptr_t)from / PAGE * PAGE;
	uintptr_t end = ((uintptr_t)from + bytes + PAGE - 1) / PAGE * PAGE;

	if (!sk_tracer->populate)
		return true; /* all of it has had memory since the file was made */
	return !madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}

/* Give memory to all that is written before the first record. Older kernels have no call for the
 * memory of a mapping, so there a few slots get all of theirs at once. */
static bool give_memory(struct sk_segment *segment, int fd)
{
	sk_tracer->populate = true;
	if (sk_tracer_populate(segment, offsetof(struct sk_segment, counts))) {
		segment->header.slots = SK_SEGMENT_SLOTS;
		return true;
	}
	if (errno != EINVAL)
		return false;
	sk_tracer->populate = false;
	size_t bytes = lay_out(NULL, SK_MODE_GOVERNED) - (SK_SEGMENT_SLOTS - SLOTS_BEFORE_5_14) *
								 (size_t)SK_SEGMENT_RING_SMALL *
								 sizeof(struct sk_record);

	if (posix_fallocate(fd, 0, (off_t)bytes))
		return false;
	segment->header.slots = SLOTS_BEFORE_5_14;
	return true;
}

static struct sk_segment *map_file(int fd, size_t bytes)
{
	struct rlimit limit;
	struct sk_segment *segment;

	/* Growing a file beyond this limit would send the application a signal. */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < bytes ||
	    ftruncate(fd, (off_t)bytes))
		return NULL;
	segment = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (segment == MAP_FAILED)
		return NULL;
	/* A child must not be able to touch the segment, and core files do not need it. */
	if (madvise(segment, bytes, MADV_DONTFORK)) {
		munmap(segment, bytes);
		return NULL;
	}
	madvise(segment, bytes, MADV_DONTDUMP);
	return segment;
}

static void describe(struct sk_segment *segment, size_t bytes, const char comm[16])
{
	struct sk_segment_header *header = &segment->header;

	header->version = SK_SEGMENT_VERSION;
	header->pid = (uint32_t)getpid();
	header->segment_bytes = bytes;
	header->created_ns = sk_tracer_now();
	header->mode = sk_tracer->started_mode;
	header->tracer = sk_tracer_options.kind;
	header->holds = sk_tracer_options.throttles;
	memcpy(header->comm, comm, sizeof(header->comm));
	strcpy(segment->names[0].text, "(other)");
	segment->names[0].length = 7;
	header->names = 1;
	lay_out(segment, sk_tracer->populate ? sk_tracer->started_mode : SK_MODE_GOVERNED);
}

static bool make_segment(int fd, const char comm[16])
{
	size_t bytes = lay_out(NULL, sk_tracer->started_mode);
	struct sk_segment *segment = map_file(fd, bytes);

	if (!segment)
		return false;
	if (!give_memory(segment, fd)) {
		munmap(segment, bytes);
		return false;
	}
	describe(segment, bytes, comm);
	sk_tracer->segment = segment;
	sk_tracer->segment_bytes = bytes;
	/* Pairs with the reader's fence after it read the header: the rest is filled. */
	atomic_store_explicit(&segment->header.magic, SK_SEGMENT_MAGIC, memory_order_release);
	return true;
}

bool sk_tracer_make_segment(void)
{
	char comm[16] = "", path[PATH_BYTES];
	uint64_t starttime;
	int fd = read_self(&starttime, comm) ? create(starttime, path) : -1;

	if (fd < 0)
		return false;
	bool made = make_segment(fd, comm);

	if (!made)
		unlink(path);
	close(fd); /* the mapping stays, and the application may close every descriptor it finds */
	return made;
}
