/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the runner's pure parts, built with sanitizers by test_runner_c.py.
 *
 *     validate sizes            layouts as "name size", for agent/jobs/job_launch.py
 *     validate parse            one launch on standard input, its fields or the refusal on output
 *     validate fuzz SEED COUNT  mutated launches: no access outside their bytes
 *     validate table PATH       steps of a slot, torn and corrupt records
 *     validate index SEED       the index against a plain list
 *     validate lease            what the watchdog decides
 *     validate limits FOLDER    limits that nobody asked for, on a folder like a v2 cgroup
 *     validate list             the list on standard input as numbers, or what is wrong
 *     validate take-up          what a watchdog finds where the last was killed
 *     validate clock            instants that lie the wrong way round
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/journal/index.h"
#include "runner/watchdog/lease.h"
#include "runner/cgroup/limit.h"
#include "runner/cgroup/numa.h"
#include "runner/journal/table.h"
#include "runner/wire/wire.h"

static uint64_t state = 1;

/* splitmix64: a seed makes a failing run repeatable. */
static uint64_t chance(uint64_t below)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % below;
}

static int sizes(void)
{
	printf("frame %zu\nlaunch %zu\nevent %zu\nstop %zu\nstdin %zu\n",
	       sizeof(struct sk_runner_frame), sizeof(struct sk_runner_launch),
	       sizeof(struct sk_runner_event), sizeof(struct sk_runner_stop),
	       sizeof(struct sk_runner_stdin));
	printf("acknowledge %zu\nrefusal %zu\ndone %zu\n", sizeof(struct sk_runner_acknowledge),
	       sizeof(struct sk_runner_refusal), sizeof(struct sk_runner_done));
	printf("frame_max %d\nlaunch_max %d\narguments_max %d\ngroups_max %d\ndevices_max %d\n",
	       SK_FRAME_MAX, SK_LAUNCH_MAX, SK_ARGUMENTS_MAX, SK_GROUPS_MAX, SK_DEVICES_MAX);
	printf("path_max %d\nlist_max %d\nreason_max %d\nstdin_max %d\n", SK_PATH_MAX, SK_LIST_MAX,
	       SK_REASON_MAX, SK_STDIN_MAX);
	return 0;
}

static int parse(void)
{
	static _Alignas(8) char bytes[SK_LAUNCH_MAX + 64];
	static char *vectors[SK_ARGUMENTS_MAX + 2];
	size_t size = fread(bytes, 1, sizeof(bytes), stdin);
	struct sk_runner_launch_view view;
	const char *why = "";
	char **envp;
	int error = sk_runner_launch_parse(bytes, size, &view, &why);

	if (error) {
		printf("%s: %s\n", strerror(-error), why);
		return 0;
	}
	printf("%" PRIu64 " %" PRIu32 " %" PRIu32 " placing %" PRIu64 " uid %" PRIu32
	       " gid %" PRIu32 " flags %" PRIu32 " umask %" PRIo32 " cpu %" PRIu32 " pids %" PRIu32
	       " memory %" PRIu64 " time %" PRIu64 " grace %" PRIu64 " output %" PRIu64
	       " user %" PRIu32 "\n",
	       view.fixed->key.job, view.fixed->key.attempt, view.fixed->key.task,
	       view.fixed->key.placing, view.fixed->uid, view.fixed->gid, view.fixed->flags,
	       view.fixed->umask, view.fixed->cpu_milli, view.fixed->pids, view.fixed->memory_bytes,
	       view.fixed->time_limit_ns, view.fixed->grace_ns, view.fixed->output_bytes_max,
	       view.fixed->user_processes);
	for (uint32_t i = 0; i < view.fixed->groups; i++)
		printf("group %" PRIu32 "\n", view.groups[i]);
	for (uint32_t i = 0; i < view.fixed->devices; i++)
		printf("device %" PRIu32 ":%" PRIu32 "\n", view.devices[i].major,
		       view.devices[i].minor);
	printf("cwd %s\nfolder %s\ntrace %s\n", view.cwd, view.folder, view.trace_folder);
	printf("cpus %s\nmemory nodes %s\n", view.cpus, view.memory_nodes);
	sk_runner_launch_vectors(&view, vectors, &envp);
	for (char **at = vectors; *at; at++)
		printf("argv %s\n", *at);
	for (char **at = envp; *at; at++)
		printf("env %s\n", *at);
	return 0;
}

static int list(void)
{
	uint64_t mask[2];
	char text[64] = "";
	int error;

	if (fread(text, 1, sizeof(text) - 1, stdin) == 0)
		text[0] = 0;
	error = sk_runner_list_read(text, mask, 128);
	if (error) {
		printf("%s\n", strerror(-error));
		return 0;
	}
	for (int i = 0; i < 128; i++)
		if (mask[i / 64] >> i % 64 & 1)
			printf("%d\n", i);
	return 0;
}

/** A valid launch in `ret`, which has room; its size. */
static size_t make_launch(char *ret, struct sk_runner_key key)
{
	static const char *const text[] = {"/",		"/tmp/j", "",	 "0-3", "0",
					   "/bin/true", "-x",	  "A=1", "B=2"};
	struct sk_runner_launch fixed = {
		.key = key,
		.uid = 61001,
		.gid = 61001,
		.groups = 2,
		.devices = 1,
		.arguments = 2,
		.variables = 2,
	};
	uint32_t arrays[4] = {1, 2, 195, 3};
	size_t at = sizeof(fixed) + sizeof(arrays);

	memcpy(ret + sizeof(fixed), arrays, sizeof(arrays));
	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		memcpy(ret + at, text[i], strlen(text[i]) + 1);
		at += strlen(text[i]) + 1;
	}
	while (at % 8)
		ret[at++] = 0;
	fixed.size = (uint32_t)at;
	memcpy(ret, &fixed, sizeof(fixed));
	return at;
}

static void mutate(char *bytes, size_t size)
{
	uint64_t changes = 1 + chance(4);

	for (uint64_t i = 0; i < changes; i++) {
		size_t at = chance(2) ? chance(sizeof(struct sk_runner_launch)) : chance(size);

		bytes[at] = (char)(chance(4) ? chance(256) : chance(2) * 255);
	}
}

static int fuzz(uint64_t seed, uint64_t count)
{
	static char *vectors[SK_ARGUMENTS_MAX + 2];
	uint64_t taken = 0;

	state = seed;
	for (uint64_t i = 0; i < count; i++) {
		char model[512];
		size_t size = make_launch(model, (struct sk_runner_key){1 + chance(9), 1, 0, 0});
		size_t cut = chance(3) ? size : chance(size + 1);
		char *exact = malloc(cut ? cut : 1); /* so that the sanitizer sees its end */
		struct sk_runner_launch_view view;
		const char *why;
		char **envp;

		if (chance(8))
			mutate(model, size);
		memcpy(exact, model, cut);
		if (!sk_runner_launch_parse(exact, cut, &view, &why)) {
			sk_runner_launch_vectors(&view, vectors, &envp);
			taken++;
		}
		free(exact);
	}
	printf("%" PRIu64 " of %" PRIu64 " taken\n", taken, count);
	return taken > 0 && taken < count ? 0 : 1;
}

static struct sk_runner_launch_view view_of(char *bytes, struct sk_runner_key key)
{
	struct sk_runner_launch_view view;
	const char *why;
	size_t size = make_launch(bytes, key);

	assert(sk_runner_launch_parse(bytes, size, &view, &why) == 0);
	return view;
}

static void end_with(struct sk_runner_table *table, uint32_t slot, enum sk_runner_cause cause,
		     const char *text)
{
	struct sk_runner_ended ended = {.cause = (uint16_t)cause, .code = 3, .bits = SK_EVENT_CODE};

	ended.text_bytes = (uint32_t)strlen(text);
	memcpy(ended.text, text, ended.text_bytes + 1);
	sk_runner_slot_end(table, slot, &ended);
}

static void check_steps(struct sk_runner_table *table, char *why)
{
	_Alignas(8) char bytes[512];
	struct sk_runner_launch_view view = view_of(bytes, (struct sk_runner_key){7, 2, 63, 1});
	struct sk_runner_slot *slot = &table->slot[5];
	struct sk_runner_event event;

	assert(sk_runner_slot_state(slot) == SK_SLOT_FREE && !sk_runner_slot_check(table, 5, why));
	sk_runner_slot_take(slot, &view, 100);
	sk_runner_slot_event(slot, &event);
	assert(event.state == 1 && event.bits == 0 && event.key.job == 7 &&
	       event.key.attempt == 2 && event.key.task == 63);
	assert(!strcmp(slot->taken.folder, "/tmp/j") && !sk_runner_slot_check(table, 5, why));
	sk_runner_slot_launch(slot);
	assert(!sk_runner_slot_check(table, 5, why));
	sk_runner_slot_start(slot, 99, 1234, 200);
	sk_runner_slot_event(slot, &event);
	assert(event.state == 2 && event.bits == SK_EVENT_STARTED && event.pid == 99);
	assert(!sk_runner_slot_check(table, 5, why));
	end_with(table, 5, SK_CAUSE_EXITED, "why not");
	sk_runner_slot_event(slot, &event);
	assert(event.state == 3 && event.code == 3 && event.text_bytes == 7);
	assert(event.bits == (SK_EVENT_STARTED | SK_EVENT_ENDED | SK_EVENT_CODE));
	assert(!sk_runner_slot_check(table, 5, why) && (table->ended[0] & (1u << 5)));
}

/** Every bit of every published part is covered by a checksum. */
static void check_corruption(struct sk_runner_table *table, char *why)
{
	unsigned char *taken = (unsigned char *)&table->slot[5].taken;
	unsigned char *ended = (unsigned char *)&table->slot[5].ended;
	size_t folder =
		offsetof(struct sk_runner_taken, folder) + table->slot[5].taken.folder_bytes;
	size_t text = offsetof(struct sk_runner_ended, text) + table->slot[5].ended.text_bytes;

	for (size_t i = 0; i < folder * 8; i++) {
		taken[i / 8] ^= (unsigned char)(1u << (i % 8));
		assert(sk_runner_slot_check(table, 5, why) == -EBADMSG &&
		       strstr(why, "launch record"));
		taken[i / 8] ^= (unsigned char)(1u << (i % 8));
	}
	for (size_t i = 0; i < text * 8; i++) {
		ended[i / 8] ^= (unsigned char)(1u << (i % 8));
		assert(sk_runner_slot_check(table, 5, why) == -EBADMSG && strstr(why, "slot 5"));
		ended[i / 8] ^= (unsigned char)(1u << (i % 8));
	}
	table->slot[5].state = 9;
	assert(sk_runner_slot_check(table, 5, why) == -EBADMSG);
	table->slot[5].state = SK_SLOT_ENDED;
	assert(!sk_runner_slot_check(table, 5, why));
}

static int table(const char *path)
{
	char why[SK_TEXT_MAX + 1];
	struct sk_runner_table *first, *second;

	assert(!sk_runner_table_open(path, &first, why) &&
	       !sk_runner_table_same_boot(first, "boot-a"));
	sk_runner_table_stamp(first, "boot-a");
	check_steps(first, why);
	check_corruption(first, why);
	/* A second mapping, as after a restart, sees all of it. */
	assert(!sk_runner_table_open(path, &second, why) &&
	       sk_runner_table_same_boot(second, "boot-a"));
	assert(sk_runner_slot_state(&second->slot[5]) == SK_SLOT_ENDED);
	sk_runner_slot_forget(second, 5);
	assert(sk_runner_slot_state(&first->slot[5]) == SK_SLOT_FREE &&
	       first->forgotten_count == 1);
	second->version = SK_TABLE_VERSION + 1;
	assert(sk_runner_table_open(path, &first, why) == -EBADMSG && strstr(why, "header"));
	assert(!truncate(path, 4096));
	assert(sk_runner_table_open(path, &first, why) == -EBADMSG && strstr(why, "4096 bytes"));
	return 0;
}

enum { KEYS = 64 };

static struct sk_runner_table heap_table;
static struct sk_runner_index heap_index;

/** Key `number` of the list: of four attempts of four tasks of four placings, so that each has
 * others that differ from it in one part alone. */
static struct sk_runner_key key_at(uint64_t number)
{
	return (struct sk_runner_key){1 + number / 64, 1 + (uint32_t)(number / 16 % 4),
				      (uint32_t)(number / 4 % 4), number % 4};
}

static bool is_remembered(uint64_t number)
{
	struct sk_runner_key key = key_at(number);

	return sk_runner_index_is_forgotten(&heap_index, &key);
}

static int index_against_list(uint64_t seed)
{
	static int slot_of[KEYS], gone[KEYS];
	_Alignas(8) char bytes[512];

	state = seed;
	memset(slot_of, 0xff, sizeof(slot_of));
	sk_runner_index_init(&heap_index, &heap_table);
	for (int i = 0; i < 100000; i++) {
		uint64_t number = chance(KEYS);
		struct sk_runner_key key;
		uint32_t slot = (uint32_t)chance(SK_SLOTS_MAX);
		struct sk_runner_launch_view view = view_of(bytes, key_at(number));

		if (slot_of[number] >= 0) {
			bool never = chance(2);

			end_with(&heap_table, (uint32_t)slot_of[number],
				 never ? SK_CAUSE_NEVER_STARTED : SK_CAUSE_EXITED, "");
			sk_runner_index_forget(&heap_index, (uint32_t)slot_of[number]);
			gone[number] |= !never;
			slot_of[number] = -1;
		} else if (sk_runner_slot_state(&heap_table.slot[slot]) == SK_SLOT_FREE) {
			sk_runner_slot_take(&heap_table.slot[slot], &view, 1);
			sk_runner_index_add(&heap_index, slot);
			slot_of[number] = (int)slot;
		}
		number = chance(KEYS);
		key = key_at(number);
		assert(sk_runner_index_find(&heap_index, &key) == slot_of[number]);
		/* The ring holds 16384; a key of 64 comes again long before it is pushed out. */
		assert(is_remembered(number) == (gone[number] != 0));
		key.task += 4;
		assert(sk_runner_index_find(&heap_index, &key) == -1);
	}
	/* A new spawner reads the same from the table. */
	sk_runner_index_init(&heap_index, &heap_table);
	for (int number = 0; number < KEYS; number++)
		assert(is_remembered((uint64_t)number) == (gone[number] != 0));
	return 0;
}

static void renew(struct sk_runner_lease *lease, uint64_t expiry)
{
	lease->expiry_ns = expiry;
	lease->expiry_check = ~expiry;
}

static void thaw(struct sk_runner_lease *lease, uint64_t epoch, uint64_t until)
{
	lease->thaw_epoch = epoch;
	lease->thaw_until_ns = until;
}

/** Gaps between two looks, with and without an agent that looked meanwhile. */
static void gaps(void)
{
	struct sk_runner_lease lease = {0};
	uint64_t gap = SK_LEASE_GAP_MS * SK_MS, now = 10 * gap;

	renew(&lease, 11 * gap);
	assert(sk_runner_lease_after_gap(&lease, now, now - gap) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_after_gap(&lease, now, now - gap - 1) == SK_LEASE_FREEZE);
	lease.agent_seen_ns = now - gap - 1; /* it looked before the gap: it may have been paused */
	assert(sk_runner_lease_after_gap(&lease, now, now - gap - 1) == SK_LEASE_FREEZE);
	lease.agent_seen_ns = now - gap;
	assert(sk_runner_lease_after_gap(&lease, now, now - gap - 1) == SK_LEASE_NOTHING);
	lease.agent_seen_ns = 0;
	lease.frozen_since_ns = 1;
	assert(sk_runner_lease_after_gap(&lease, now, 0) == SK_LEASE_NOTHING);
}

/** A file of another boot: its times mean nothing, its number of freezes goes on. */
static void boots(void)
{
	struct sk_runner_lease lease = {.freeze_epoch = 3, .frozen_since_ns = 7, .thaw_epoch = 2};
	uint64_t here[2] = {1, 2};

	renew(&lease, 100);
	lease.power_expiry_ns = 50;
	sk_runner_lease_bind(&lease, here);
	assert(!sk_runner_lease_valid(&lease, 99) && !lease.frozen_since_ns);
	assert(!sk_runner_lease_power_expiry(&lease) && lease.freeze_epoch == 3);
	renew(&lease, 100);
	sk_runner_lease_bind(&lease, here);
	assert(sk_runner_lease_valid(&lease, 99));
}

static int lease(void)
{
	struct sk_runner_lease lease = {.expiry_check = ~(uint64_t)0};
	uint64_t most = SK_LEASE_MOST_S * SK_SECOND;

	assert(sk_runner_lease_decide(&lease, 50, 0) == SK_LEASE_FREEZE); /* no lease yet */
	renew(&lease, 100);
	assert(sk_runner_lease_decide(&lease, 99, 0) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 100, 0) == SK_LEASE_FREEZE);
	lease.expiry_ns = 150; /* half of a store: the earlier end counts */
	assert(sk_runner_lease_decide(&lease, 99, 0) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 100, 0) == SK_LEASE_FREEZE);
	renew(&lease, 100 + most); /* no lease is so long */
	assert(sk_runner_lease_decide(&lease, 100, 0) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 99, 0) == SK_LEASE_FREEZE);
	renew(&lease, 100);
	lease.freeze_epoch = 1;
	lease.frozen_since_ns = 100;
	assert(sk_runner_lease_decide(&lease, 150, 0) == SK_LEASE_NOTHING);
	renew(&lease, 1000); /* a new lease alone thaws nothing: the log must be read first */
	assert(sk_runner_lease_decide(&lease, 150, 0) == SK_LEASE_NOTHING);
	thaw(&lease, 1, 1000);
	assert(sk_runner_lease_decide(&lease, 150, 0) == SK_LEASE_THAW);
	renew(&lease, 2000); /* another lease: the log may say more by now */
	assert(sk_runner_lease_decide(&lease, 1000, 0) == SK_LEASE_NOTHING);
	renew(&lease, 120); /* read the log, but the lease ran out again meanwhile */
	assert(sk_runner_lease_decide(&lease, 150, 0) == SK_LEASE_NOTHING);
	lease.freeze_epoch = 2; /* a later freeze needs its own thaw */
	renew(&lease, 1000);
	assert(sk_runner_lease_decide(&lease, 150, 0) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 159, 60) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 160, 60) == SK_LEASE_KILL);
	assert(sk_runner_lease_decide(&lease, 99, 60) ==
	       SK_LEASE_NOTHING); /* frozen later than now */
	gaps();
	boots();
	assert(sk_runner_lease_pause(&lease, 0) <= 100000000u);
	return 0;
}

/** Return the text of a file of the folder; "" if it is not there. */
static const char *said(int dir, const char *name)
{
	static char text[64];

	sk_runner_file_read(dir, name, text, sizeof(text));
	return text;
}

static void make_file(int dir, const char *name)
{
	close(openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600));
}

/** Limits of a launch that asks for `flags`; whether each is on. */
static int limits_of(const struct sk_runner_site *site, const struct sk_runner_tree *tree,
		     uint32_t flags, struct sk_runner_limits *ret)
{
	struct sk_runner_launch launch = {.flags = flags, .pids = 7, .memory_bytes = 4096};
	char why[SK_TEXT_MAX + 1];
	int error = sk_runner_limits_set(ret, site, tree, &launch, why);

	sk_runner_limits_remove(ret);
	return error;
}

static int default_limits(const char *folder)
{
	const uint32_t unasked = SK_LAUNCH_PIDS_DEFAULT | SK_LAUNCH_MEMORY_DEFAULT;
	struct sk_runner_tree tree = {.name = "1.1", .dir = open(folder, O_RDONLY | O_DIRECTORY)};
	static struct sk_runner_site site;
	struct sk_runner_limits limits;

	assert(tree.dir >= 0);
	snprintf(site.mount, sizeof(site.mount), "%s", folder);
	snprintf(site.jobs, sizeof(site.jobs), "%s", folder);
	site.controller[SK_PIDS].where = site.controller[SK_MEMORY].where = SK_V2;
	make_file(tree.dir, "pids.max");
	make_file(tree.dir, "memory.max");
	assert(!limits_of(&site, &tree, 0, &limits) && !limits.on[SK_PIDS]);
	assert(!strcmp(said(tree.dir, "pids.max"), ""));
	assert(!limits_of(&site, &tree, unasked, &limits));
	assert(limits.on[SK_PIDS] && !strcmp(said(tree.dir, "pids.max"), "7"));
	assert(limits.on[SK_MEMORY] && !strcmp(said(tree.dir, "memory.max"), "4096"));
	/* One that cannot be set keeps no job from its start, unless it was asked for. */
	assert(!unlinkat(tree.dir, "pids.max", 0));
	assert(!limits_of(&site, &tree, unasked, &limits) && !limits.on[SK_PIDS]);
	assert(limits.on[SK_MEMORY]);
	assert(limits_of(&site, &tree, SK_LAUNCH_PIDS, &limits) == -ENOENT);
	site.controller[SK_PIDS].where = SK_NOWHERE;
	assert(!limits_of(&site, &tree, unasked, &limits) && !limits.on[SK_PIDS]);
	assert(limits_of(&site, &tree, SK_LAUNCH_PIDS, &limits) == -EOPNOTSUPP);
	/* Moving into a v1 group is not free. */
	site.controller[SK_PIDS].where = SK_V1;
	snprintf(site.controller[SK_PIDS].group, SK_SITE_PATH, "%s/group", folder);
	assert(!limits_of(&site, &tree, unasked, &limits) && !limits.on[SK_PIDS]);
	assert(faccessat(tree.dir, "group", F_OK, 0));
	return 0;
}

/** A watchdog killed at any step: its successor finds what to do in what it left. */
static int take_up(void)
{
	struct sk_runner_lease lease = {.expiry_check = ~(uint64_t)0};

	assert(sk_runner_lease_take_up(&lease, 50, false) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_take_up(&lease, 50, true) == SK_LEASE_RECORD);
	renew(&lease, 100);
	assert(sk_runner_lease_take_up(&lease, 50, true) ==
	       SK_LEASE_RECORD); /* renewed meanwhile */
	lease.freeze_epoch = 1;
	lease.frozen_since_ns = 40;
	assert(sk_runner_lease_take_up(&lease, 50, true) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_take_up(&lease, 50, false) == SK_LEASE_FREEZE);
	thaw(&lease, 1, 100); /* killed after the thaw, before its record was taken away */
	assert(sk_runner_lease_take_up(&lease, 50, false) == SK_LEASE_NOTHING);
	assert(sk_runner_lease_decide(&lease, 50, 0) == SK_LEASE_THAW);
	assert(sk_runner_lease_take_up(&lease, 150, false) == SK_LEASE_FREEZE);
	return 0;
}

static int instants(void)
{
	assert(sk_runner_since(7, 5) == 2 && sk_runner_since(5, 5) == 0 &&
	       sk_runner_since(5, 7) == 0);
	assert(sk_runner_until(5, 7) == 2 && sk_runner_until(7, 5) == 0);
	assert(sk_runner_since(0, UINT64_MAX) == 0 && sk_runner_since(UINT64_MAX, 0) == UINT64_MAX);
	assert(sk_runner_after(5, 2) == 7 && sk_runner_after(5, UINT64_MAX) == UINT64_MAX);
	assert(sk_runner_after(5, UINT64_MAX - 5) == UINT64_MAX);
	assert(sk_runner_timespec(3 * SK_SECOND + 4).tv_sec == 3 &&
	       sk_runner_timespec(4).tv_nsec == 4);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "sizes"))
		return sizes();
	if (!strcmp(what, "parse"))
		return parse();
	if (!strcmp(what, "fuzz") && argc == 4)
		return fuzz(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	if (!strcmp(what, "table") && argc == 3)
		return table(argv[2]);
	if (!strcmp(what, "index") && argc == 3)
		return index_against_list(strtoull(argv[2], NULL, 10));
	if (!strcmp(what, "lease"))
		return lease();
	if (!strcmp(what, "limits") && argc == 3)
		return default_limits(argv[2]);
	if (!strcmp(what, "list"))
		return list();
	if (!strcmp(what, "take-up"))
		return take_up();
	if (!strcmp(what, "clock"))
		return instants();
	return 2;
}
