/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/journal/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "stkslots";

/* CRC-32C (Castagnoli, reflected 0x82f63b78), four bits at a time. */
static const uint32_t CRC_NIBBLE[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
	0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t sk_runner_crc32c(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < size; i++) {
		crc ^= at[i];
		crc = (crc >> 4) ^ CRC_NIBBLE[crc & 15];
		crc = (crc >> 4) ^ CRC_NIBBLE[crc & 15];
	}
	return ~crc;
}

static uint32_t header_crc(const struct sk_runner_table *table)
{
	return sk_runner_crc32c(table, offsetof(struct sk_runner_table, crc));
}

/* Texts are covered up to their length, because the CRC is computed for every job. */
static uint32_t taken_crc(const struct sk_runner_taken *taken)
{
	if (taken->folder_bytes > SK_PATH_MAX)
		return ~taken->crc;
	return sk_runner_crc32c(taken,
				offsetof(struct sk_runner_taken, folder) + taken->folder_bytes);
}

static uint32_t ended_crc(const struct sk_runner_ended *ended)
{
	if (ended->text_bytes > SK_TEXT_MAX)
		return ~ended->crc;
	return sk_runner_crc32c(ended, offsetof(struct sk_runner_ended, text) + ended->text_bytes);
}

static uint32_t started_crc(const struct sk_runner_started *started)
{
	return sk_runner_crc32c(started, offsetof(struct sk_runner_started, crc));
}

/** The blocks are written, not only reserved, so that no later store meets a full disk. */
static int fill(int fd)
{
	static const char zeros[65536];
	size_t left = sizeof(struct sk_runner_table);

	while (left) {
		ssize_t wrote = write(fd, zeros, left < sizeof(zeros) ? left : sizeof(zeros));

		if (wrote < 0)
			return -errno;
		left -= (size_t)wrote;
	}
	return 0;
}

/** A new file gets its name only when it is whole. */
static int create(const char *path)
{
	char fresh[4096];
	int error, fd;

	if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh))
		return -ENAMETOOLONG;
	fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	error = fill(fd);
	if (!error && rename(fresh, path))
		error = -errno;
	if (error) {
		unlink(fresh);
		close(fd);
		return error;
	}
	return fd;
}

static int check_header(const struct sk_runner_table *table, char *ret_why)
{
	static const char no_boot[SK_BOOT_ID];

	if (memcmp(table->magic, MAGIC, sizeof(MAGIC)) || table->crc != header_crc(table))
		snprintf(ret_why, SK_TEXT_MAX, "its header is not one of a stoker journal");
	else if (table->version != SK_TABLE_VERSION)
		snprintf(ret_why, SK_TEXT_MAX, "it has version %u, this program reads version %u",
			 table->version, SK_TABLE_VERSION);
	else if (table->slot_bytes != sizeof(struct sk_runner_slot) ||
		 table->slots != SK_SLOTS_MAX || table->forgotten_slots != SK_FORGOTTEN ||
		 !memcmp(table->boot_id, no_boot, 1))
		snprintf(ret_why, SK_TEXT_MAX, "its geometry is not this program's");
	else
		return 0;
	return -EBADMSG;
}

static void initialise(struct sk_runner_table *table, const char *boot_id)
{
	memcpy(table->magic, MAGIC, sizeof(MAGIC));
	table->version = SK_TABLE_VERSION;
	table->slot_bytes = sizeof(struct sk_runner_slot);
	table->slots = SK_SLOTS_MAX;
	table->forgotten_slots = SK_FORGOTTEN;
	snprintf(table->boot_id, sizeof(table->boot_id), "%s", boot_id);
	table->crc = header_crc(table);
}

int sk_runner_table_open(const char *path, struct sk_runner_table **ret, char *ret_why)
{
	struct sk_runner_table *table;
	struct stat info;
	bool fresh = false;
	int error = 0;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	snprintf(ret_why, SK_TEXT_MAX, "it cannot be opened or mapped");
	if (fd < 0 && errno == ENOENT) {
		fd = create(path);
		if (fd < 0)
			return fd;
		fresh = true;
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &info)) {
		error = -errno;
		goto out;
	}
	if (info.st_size != sizeof(*table)) {
		snprintf(ret_why, SK_TEXT_MAX, "it has %lld bytes, not %zu",
			 (long long)info.st_size, sizeof(*table));
		error = -EBADMSG;
		goto out;
	}
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED) {
		error = -errno;
		goto out;
	}
	/* The magic is zero only if the maker of the file was killed before its first stamp. */
	if (fresh || table->magic[0] == 0)
		initialise(table, "none");
	error = check_header(table, ret_why);
	if (error)
		munmap(table, sizeof(*table));
	else
		*ret = table;
out:
	close(fd);
	return error;
}

bool sk_runner_table_same_boot(const struct sk_runner_table *table, const char *boot_id)
{
	return strncmp(table->boot_id, boot_id, sizeof(table->boot_id)) == 0;
}

void sk_runner_table_stamp(struct sk_runner_table *table, const char *boot_id)
{
	initialise(table, boot_id);
}

int sk_runner_slot_check(const struct sk_runner_table *table, uint32_t index, char *ret_why)
{
	const struct sk_runner_slot *slot = &table->slot[index];
	enum sk_runner_slot_state state = sk_runner_slot_state(slot);
	const char *part = NULL;

	if (state > SK_SLOT_ENDED)
		part = "state";
	else if (state >= SK_SLOT_TAKEN && slot->taken.crc != taken_crc(&slot->taken))
		part = "launch";
	else if (state == SK_SLOT_STARTED && slot->started.crc != started_crc(&slot->started))
		part = "start";
	else if (state == SK_SLOT_ENDED && slot->ended.crc != ended_crc(&slot->ended))
		part = "end";
	else if (state == SK_SLOT_ENDED && slot->started.pid &&
		 slot->started.crc != started_crc(&slot->started))
		part = "start";
	if (!part)
		return 0;
	snprintf(ret_why, SK_TEXT_MAX, "the %s record of slot %u contradicts its checksum", part,
		 index);
	return -EBADMSG;
}

enum sk_runner_slot_state sk_runner_slot_state(const struct sk_runner_slot *slot)
{
	return (enum sk_runner_slot_state)atomic_load_explicit(&slot->state, memory_order_acquire);
}

bool sk_runner_slot_waits(const struct sk_runner_slot *slot)
{
	/* Pairs with the release in job_start.c: what was made ready before is there. */
	return sk_runner_slot_state(slot) == SK_SLOT_TAKEN &&
	       atomic_load_explicit(&slot->control.ready_ns, memory_order_acquire);
}

static void publish(struct sk_runner_slot *slot, enum sk_runner_slot_state state)
{
	atomic_store_explicit(&slot->state, state, memory_order_release);
}

void sk_runner_slot_take(struct sk_runner_slot *slot, const struct sk_runner_launch_view *launch,
			 uint64_t t_ns)
{
	struct sk_runner_taken *taken = &slot->taken;

	memset(&slot->started, 0, sizeof(slot->started));
	memset(&slot->control, 0, sizeof(slot->control));
	memset(&slot->ended, 0, offsetof(struct sk_runner_ended, text));
	taken->key = launch->fixed->key;
	taken->uid = launch->fixed->uid;
	taken->flags = launch->fixed->flags;
	taken->t_ns = t_ns;
	taken->folder_bytes = (uint32_t)strlen(launch->folder);
	memcpy(taken->folder, launch->folder, taken->folder_bytes + 1);
	taken->crc = taken_crc(taken);
	publish(slot, SK_SLOT_TAKEN);
}

void sk_runner_slot_launch(struct sk_runner_slot *slot)
{
	publish(slot, SK_SLOT_LAUNCHING);
}

void sk_runner_slot_start(struct sk_runner_slot *slot, uint32_t pid, uint64_t cgroup_id,
			  uint64_t t_ns)
{
	slot->started.pid = pid;
	slot->started.cgroup_id = cgroup_id;
	slot->started.t_ns = t_ns;
	slot->started.crc = started_crc(&slot->started);
	publish(slot, SK_SLOT_STARTED);
}

void sk_runner_slot_end(struct sk_runner_table *table, uint32_t index,
			const struct sk_runner_ended *ended)
{
	struct sk_runner_slot *slot = &table->slot[index];

	memcpy(&slot->ended, ended, offsetof(struct sk_runner_ended, text) + ended->text_bytes);
	slot->ended.text[ended->text_bytes] = 0;
	slot->ended.crc = ended_crc(&slot->ended);
	publish(slot, SK_SLOT_ENDED);
	/* Pairs with the exchange in the spawner's scan: a set bit means that `state` is visible.
	 */
	atomic_fetch_or_explicit(&table->ended[index / 64], (uint64_t)1 << (index % 64),
				 memory_order_release);
}

void sk_runner_slot_forget(struct sk_runner_table *table, uint32_t index)
{
	struct sk_runner_slot *slot = &table->slot[index];

	if (slot->ended.cause != SK_CAUSE_NEVER_STARTED) {
		uint64_t count =
			atomic_load_explicit(&table->forgotten_count, memory_order_relaxed);

		table->forgotten[count % SK_FORGOTTEN] = slot->taken.key;
		atomic_store_explicit(&table->forgotten_count, count + 1, memory_order_release);
	}
	publish(slot, SK_SLOT_FREE);
}

void sk_runner_slot_event(const struct sk_runner_slot *slot, struct sk_runner_event *ret)
{
	enum sk_runner_slot_state state = sk_runner_slot_state(slot);

	memset(ret, 0, sizeof(*ret));
	ret->key = slot->taken.key;
	ret->state = state == SK_SLOT_ENDED ? 3 : state == SK_SLOT_STARTED ? 2 : 1;
	if (sk_runner_slot_waits(slot)) {
		ret->bits |= SK_EVENT_READY;
		ret->t_ns = atomic_load_explicit(&slot->control.ready_ns, memory_order_relaxed);
		ret->cgroup_id = slot->control.cgroup_id;
	}
	if (state >= SK_SLOT_STARTED && slot->started.pid) {
		ret->bits |= SK_EVENT_STARTED;
		ret->pid = slot->started.pid;
		ret->cgroup_id = slot->started.cgroup_id;
		ret->started_ns = slot->started.t_ns;
	}
	if (state != SK_SLOT_ENDED)
		return;
	ret->bits |= SK_EVENT_ENDED | slot->ended.bits;
	ret->cause = slot->ended.cause;
	ret->code = slot->ended.code;
	ret->signal = slot->ended.signal;
	ret->t_ns = slot->ended.t_ns;
	ret->cpu_ns = slot->ended.cpu_ns;
	ret->memory_peak = slot->ended.memory_peak;
	ret->out_bytes = slot->ended.out_bytes;
	ret->err_bytes = slot->ended.err_bytes;
	ret->dropped_bytes = slot->ended.dropped_bytes;
	ret->text_bytes = slot->ended.text_bytes;
}
