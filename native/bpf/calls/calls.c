/* SPDX-License-Identifier: Apache-2.0 */
/* The programs over library calls: loaded, attached and read. See calls.h. */
#include "calls.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "calls.skel.h"
#include "bpf/kernel/reason.h"
#include "bpf/kernel/uprobe.h"

enum { BATCH = 128, COLLECTIVES = SK_CALL_RING_BYTES / sizeof(struct sk_collective) };

struct sk_bpf_calls {
	struct sk_calls_bpf *object; /* NULL until loaded */
	bool one_by_one;
	bool grouped;
	int processors;
	struct sk_bpf_call_reading *readings; /* SK_CALL_KEYS_MAX */
	struct sk_call_key *keys;	      /* BATCH */
	struct sk_call_times *values;	      /* BATCH, for each processor */
	struct ring_buffer *ring;	      /* NULL until loaded */
	struct sk_collective *collectives;    /* COLLECTIVES */
	size_t collectives_used;
};

/* Descriptors of its links: one or two, or as many for each site. */
struct sk_bpf_call_group {
	uint32_t links;
	int fds[];
};

int sk_bpf_calls_new(bool one_by_one, struct sk_bpf_calls **ret)
{
	struct sk_bpf_calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return -ENOMEM;
	calls->one_by_one = one_by_one;
	calls->processors = libbpf_num_possible_cpus();
	if (calls->processors > 0) {
		calls->readings = calloc(SK_CALL_KEYS_MAX, sizeof(*calls->readings));
		calls->keys = calloc(BATCH, sizeof(*calls->keys));
		calls->values =
			calloc((size_t)BATCH * (size_t)calls->processors, sizeof(*calls->values));
	}
	calls->collectives = calloc(COLLECTIVES, sizeof(*calls->collectives));
	if (!calls->readings || !calls->keys || !calls->values || !calls->collectives) {
		sk_bpf_calls_free(calls);
		return -ENOMEM;
	}
	*ret = calls;
	return 0;
}

void sk_bpf_calls_free(struct sk_bpf_calls *calls)
{
	if (!calls)
		return;
	ring_buffer__free(calls->ring);
	sk_calls_bpf__destroy(calls->object);
	free(calls->collectives);
	free(calls->readings);
	free(calls->keys);
	free(calls->values);
	free(calls);
}

static int load(struct sk_bpf_calls *calls, bool grouped)
{
	struct sk_calls_bpf *object = sk_calls_bpf__open();
	int error;

	if (!object)
		return -errno;
	bpf_program__set_autoload(object->progs.on_entry, !grouped);
	bpf_program__set_autoload(object->progs.on_return, !grouped);
	bpf_program__set_autoload(object->progs.on_entry_multi, grouped);
	bpf_program__set_autoload(object->progs.on_return_multi, grouped);
	if (grouped) {
		bpf_program__set_expected_attach_type(object->progs.on_entry_multi,
						      (enum bpf_attach_type)SK_TRACE_UPROBE_MULTI);
		bpf_program__set_expected_attach_type(object->progs.on_return_multi,
						      (enum bpf_attach_type)SK_TRACE_UPROBE_MULTI);
	}
	error = sk_calls_bpf__load(object);
	if (error) {
		sk_calls_bpf__destroy(object);
		return error;
	}
	calls->object = object;
	calls->grouped = grouped;
	return 0;
}

/* Return whether the kernel has links over many sites, by its refusal of a link that is wrong. An
 * older kernel refuses the kind of link, a newer one the file. Loading the program shows nothing,
 * since older kernels load it all the same. */
static bool links_many(const struct sk_bpf_calls *calls)
{
	const uint64_t nothing = 0;
	const struct sk_bpf_uprobes probe = {
		.path = "/",
		.offsets = &nothing,
		.semaphores = &nothing,
		.cookies = &nothing,
		.count = 1,
	};
	int fd = sk_bpf_uprobe_link_many(bpf_program__fd(calls->object->progs.on_entry_multi),
					 &probe);

	if (fd >= 0)
		close(fd);
	return fd ==
	       -EBADF; /* "/" is no regular file: the answer of bpf_uprobe_multi_link_attach */
}

/* A negative answer stops libbpf after this record, which is then consumed. */
static int take_collective(void *context, void *record, size_t size)
{
	struct sk_bpf_calls *calls = context;

	if (size < sizeof(*calls->collectives))
		return 0;
	memcpy(&calls->collectives[calls->collectives_used], record, sizeof(*calls->collectives));
	return ++calls->collectives_used < COLLECTIVES ? 0 : -ENOBUFS;
}

/* The mapping of the ring and the table of the programs keep it after its descriptor is closed. */
static int make_ring(struct sk_bpf_calls *calls, int fd)
{
	const uint32_t first = 0;
	int error;

	calls->ring = ring_buffer__new(fd, take_collective, calls, NULL);
	if (!calls->ring)
		return -errno;
	if (!bpf_map_update_elem(bpf_map__fd(calls->object->maps.collectives), &first, &fd,
				 BPF_ANY))
		return 0;
	error = -errno;
	ring_buffer__free(calls->ring);
	calls->ring = NULL;
	return error;
}

/* Make the ring of records if these sites are the first ones that fill it. */
static int open_ring(struct sk_bpf_calls *calls, const struct sk_bpf_call_site *sites,
		     uint32_t count)
{
	bool told = false;
	int error, fd;

	for (uint32_t i = 0; i < count; i++)
		told = told || sites[i].told;
	if (!told || calls->ring)
		return 0;
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "collective_ring", 0, 0, SK_CALL_RING_BYTES,
			    NULL);
	if (fd < 0)
		return -errno;
	error = make_ring(calls, fd);
	close(fd);
	return error;
}

size_t sk_bpf_calls_collectives(struct sk_bpf_calls *calls, const struct sk_collective **ret)
{
	calls->collectives_used = 0;
	*ret = calls->collectives;
	if (calls->ring)
		ring_buffer__consume(calls->ring);
	return calls->collectives_used;
}

void sk_bpf_calls_load(struct sk_bpf_calls *calls, struct sk_bpf_probe_state *ret)
{
	int error = 0;

	ret->answer = SK_ANSWER_ATTACHED;
	ret->reason[0] = 0;
	if (calls->object)
		return;
	sk_bpf_reason_listen();
	if (!calls->one_by_one && !load(calls, true) && !links_many(calls)) {
		sk_calls_bpf__destroy(calls->object);
		calls->object = NULL;
	}
	if (!calls->object) {
		sk_bpf_reason_forget();
		error = load(calls, false);
	}
	if (error) {
		ret->answer = SK_ANSWER_REFUSED;
		sk_bpf_reason_write(ret->reason, sizeof(ret->reason), "loading", error);
	}
	sk_bpf_reason_restore();
	malloc_trim(0); /* all types of the kernel were in memory */
}

bool sk_bpf_calls_grouped(const struct sk_bpf_calls *calls)
{
	return calls->grouped;
}

struct sk_bpf_list {
	uint64_t offsets[SK_CALL_SITES_MAX];
	uint64_t semaphores[SK_CALL_SITES_MAX];
	uint64_t cookies[SK_CALL_SITES_MAX];
	uint32_t count;
};

static void fill(const struct sk_bpf_call_site *sites, uint32_t count, bool on_return,
		 struct sk_bpf_list *ret)
{
	ret->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (on_return && sites[i].entry_only)
			continue;
		ret->offsets[ret->count] = sites[i].offset;
		ret->semaphores[ret->count] = sites[i].semaphore;
		ret->cookies[ret->count++] =
			sites[i].call |
			(uint64_t)(sites[i].entry_only ? SK_CALL_ENTRY_ONLY : sites[i].told) << 32;
	}
}

static int keep(struct sk_bpf_call_group *group, int fd)
{
	if (fd < 0)
		return fd;
	group->fds[group->links++] = fd;
	return 0;
}

static int link_all(const struct sk_bpf_calls *calls, struct sk_bpf_uprobes *uprobes,
		    struct sk_bpf_call_group *group)
{
	const struct sk_calls_bpf *object = calls->object;
	bool on_return = uprobes->on_return;
	const struct bpf_program *program;
	int error = 0;

	if (calls->grouped) {
		program = on_return ? object->progs.on_return_multi : object->progs.on_entry_multi;
		return keep(group, sk_bpf_uprobe_link_many(bpf_program__fd(program), uprobes));
	}
	program = on_return ? object->progs.on_return : object->progs.on_entry;
	for (uint32_t i = 0; i < uprobes->count && !error; i++)
		error = keep(group, sk_bpf_uprobe_link_one(bpf_program__fd(program), uprobes, i));
	return error;
}

/* Attach returns first: an entry without its return would look like a call in progress. */
static int attach(const struct sk_bpf_calls *calls, struct sk_bpf_uprobes *uprobes,
		  const struct sk_bpf_call_site *sites, uint32_t count,
		  struct sk_bpf_call_group *group)
{
	struct sk_bpf_list list;
	int error = 0;

	uprobes->offsets = list.offsets;
	uprobes->semaphores = list.semaphores;
	uprobes->cookies = list.cookies;
	for (int on_return = 1; on_return >= 0 && !error; on_return--) {
		fill(sites, count, on_return, &list);
		uprobes->count = list.count;
		uprobes->on_return = on_return;
		if (list.count)
			error = link_all(calls, uprobes, group);
	}
	return error;
}

int sk_bpf_calls_attach(struct sk_bpf_calls *calls, const char *path, uint32_t pid,
			const struct sk_bpf_call_site *sites, uint32_t count,
			struct sk_bpf_call_group **ret)
{
	struct sk_bpf_uprobes uprobes = {.path = path, .pid = pid};
	struct sk_bpf_call_group *group;
	int error;

	if (!calls->object)
		return -ENODEV;
	if (!count || count > SK_CALL_SITES_MAX || !pid)
		return -EINVAL;
	group = calloc(1, sizeof(*group) + 2 * count * sizeof(int));
	if (!group)
		return -ENOMEM;
	error = open_ring(calls, sites, count);
	error = error ? error : attach(calls, &uprobes, sites, count, group);
	if (error) {
		sk_bpf_calls_detach(group);
		return error;
	}
	*ret = group;
	return 0;
}

/* Detach entries, which were linked last, before returns: a call whose return is no longer probed
 * would look like one in progress. */
void sk_bpf_calls_detach(struct sk_bpf_call_group *group)
{
	if (!group)
		return;
	while (group->links)
		close(group->fds[--group->links]);
	free(group);
}

static void add(struct sk_call_times *sum, const struct sk_call_times *more)
{
	sum->entered += more->entered;
	sum->returned += more->returned;
	sum->total_ns += more->total_ns;
	if (more->longest_ns > sum->longest_ns)
		sum->longest_ns = more->longest_ns;
	for (int i = 0; i < SK_CALL_BUCKETS; i++)
		sum->log2[i] += more->log2[i];
}

static void take(struct sk_bpf_calls *calls, uint32_t from, uint32_t row)
{
	struct sk_bpf_call_reading *reading = &calls->readings[row];

	memset(reading, 0, sizeof(*reading));
	reading->key = calls->keys[from];
	for (int i = 0; i < calls->processors; i++)
		add(&reading->times,
		    &calls->values[(size_t)from * (size_t)calls->processors + (size_t)i]);
}

int sk_bpf_calls_read(struct sk_bpf_calls *calls, const struct sk_bpf_call_reading **ret,
		      uint32_t *ret_count)
{
	uint32_t rows = 0, count, place = 0;
	bool first = true;
	int error = 0;

	*ret = calls->readings;
	*ret_count = 0;
	while (calls->object && !error && rows < SK_CALL_KEYS_MAX) {
		count = SK_CALL_KEYS_MAX - rows < BATCH ? SK_CALL_KEYS_MAX - rows : BATCH;
		error = bpf_map_lookup_batch(bpf_map__fd(calls->object->maps.calls),
					     first ? NULL : &place, &place, calls->keys,
					     calls->values, &count, NULL);
		if (error && error != -ENOENT)
			return error;
		for (uint32_t i = 0; i < count; i++)
			take(calls, i, rows++);
		first = false;
	}
	*ret_count = rows;
	return 0;
}

int sk_bpf_calls_forget(struct sk_bpf_calls *calls, uint32_t pid)
{
	const struct sk_bpf_call_reading *readings;
	uint32_t count;
	int error = sk_bpf_calls_read(calls, &readings, &count);

	for (uint32_t i = 0; i < count && !error; i++)
		if (readings[i].key.pid == pid)
			bpf_map_delete_elem(bpf_map__fd(calls->object->maps.calls),
					    &readings[i].key);
	return error;
}

void sk_bpf_calls_losses(struct sk_bpf_calls *calls, uint64_t ret[SK_CALL_LOSSES])
{
	uint64_t *each = (uint64_t *)calls->values; /* room for more than one number per CPU */

	for (uint32_t what = 0; what < SK_CALL_LOSSES; what++) {
		ret[what] = 0;
		if (!calls->object ||
		    bpf_map_lookup_elem(bpf_map__fd(calls->object->maps.losses), &what, each))
			continue;
		for (int i = 0; i < calls->processors; i++)
			ret[what] += each[i];
	}
}
