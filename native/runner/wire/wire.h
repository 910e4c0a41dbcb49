/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Frames between the agent and the spawner, and the parser of launches.
 *
 * Layouts are little endian with natural alignment. The parser is pure: it checks every length and
 * keeps pointers into the caller's bytes.
 */
#ifndef SK_RUNNER_WIRE_WIRE_H
#define SK_RUNNER_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SK_WIRE_VERSION = 4,
	SK_FRAME_MAX = 1 << 20,
	SK_LAUNCH_MAX = 384 * 1024,
	SK_ARGUMENTS_MAX = 32768, /* argv, env, the three paths and two lists together */
	SK_GROUPS_MAX = 256,
	SK_DEVICES_MAX = 256,
	SK_PATH_MAX = 255,  /* folder and trace folder */
	SK_LIST_MAX = 1023, /* a list of CPUs or of memory nodes */
	SK_REASON_MAX = 95, /* a stop's reason */
	SK_TEXT_MAX = 255,  /* the text of an ended job */
	SK_STDIN_MAX = 256 * 1024,
};

/** Total bytes of input one job can be given. */
#define SK_STDIN_TOTAL_MAX ((uint64_t)1 << 40)

enum sk_runner_frame_kind {
	SK_HELLO = 1,
	SK_START = 2,
	SK_STOP = 3,
	SK_STDIN = 4,
	SK_ACKNOWLEDGE = 5,
	SK_KNOWN = 6,
	SK_RELEASE = 7, /* keys of tasks that may run; those that are not here are passed over */
	SK_FEATURES = 17,
	SK_TAKEN = 18,
	SK_DONE = 19,
	SK_SLOT = 20,
	SK_SLOTS_END = 21,
	SK_EVENT = 32,
};

struct sk_runner_frame {
	uint32_t size; /* with this header */
	uint16_t kind;
	uint16_t count; /* entries in the payload */
	uint64_t request;
};
_Static_assert(sizeof(struct sk_runner_frame) == 16, "frame header");

/** One start of one task of a job: what every request and every record is about.
 *
 * Job, attempt and task are its name, which its cgroup and its folder bear. A name is given again
 * after a cluster was restored from an older log; the placing tells such starts apart. */
struct sk_runner_key {
	uint64_t job;	  /* from 1 */
	uint32_t attempt; /* from 1 */
	uint32_t task;	  /* from 0 */
	uint64_t placing; /* from the hash of the log entry that placed it; opaque here */
};
_Static_assert(sizeof(struct sk_runner_key) == 24, "key");

static inline bool sk_runner_same_name(const struct sk_runner_key *a, const struct sk_runner_key *b)
{
	return a->job == b->job && a->attempt == b->attempt && a->task == b->task;
}

static inline bool sk_runner_key_equal(const struct sk_runner_key *a, const struct sk_runner_key *b)
{
	return sk_runner_same_name(a, b) && a->placing == b->placing;
}

enum sk_runner_launch_flag {
	SK_LAUNCH_STDIN = 1,
	SK_LAUNCH_MEMORY = 2,
	SK_LAUNCH_PIDS = 4,
	SK_LAUNCH_CPU = 8,
	SK_LAUNCH_TIME = 16,
	SK_LAUNCH_PIDS_DEFAULT = 32,   /* `pids` was not requested: set only where that is cheap */
	SK_LAUNCH_MEMORY_DEFAULT = 64, /* the same for `memory_bytes` */
	SK_LAUNCH_FENCED = 128,	       /* frozen when the node's lease ends */
	SK_LAUNCH_GATHER = 256,	       /* made ready, it waits for its release: one of a gang, or
					  a job that is traced from its first instruction */
	SK_LAUNCH_NUMA = 512,	       /* it runs bound as the lists say, or not at all */
	SK_LAUNCH_FLAGS = 1023,
};

/** A launch, followed by u32 groups[], struct sk_runner_device devices[], then NUL-terminated
 * strings: cwd, folder, trace folder, CPUs, memory nodes, argv, env; padded to 8. The two lists are
 * as the kernel writes them, `0-3,8`; an empty one binds nothing. */
struct sk_runner_launch {
	uint32_t size;
	uint32_t flags;
	struct sk_runner_key key;
	uint32_t uid;
	uint32_t gid;
	uint32_t umask;
	uint32_t cpu_milli;
	uint32_t pids;
	uint32_t user_processes; /* processes and threads of `uid` in all, 0: no bound */
	uint64_t memory_bytes;
	uint64_t time_limit_ns;
	uint64_t grace_ns;
	uint64_t output_bytes_max;
	uint16_t groups;
	uint16_t devices;
	uint32_t arguments;
	uint32_t variables;
	uint32_t spare;
};
_Static_assert(sizeof(struct sk_runner_launch) == 104, "launch");
_Static_assert(offsetof(struct sk_runner_launch, memory_bytes) == 56, "launch");

struct sk_runner_device {
	uint32_t major;
	uint32_t minor;
};

enum sk_runner_cause {
	SK_CAUSE_EXITED = 1,
	SK_CAUSE_SIGNALLED = 2,
	SK_CAUSE_TIMEOUT = 3,
	SK_CAUSE_STOPPED = 4,
	SK_CAUSE_START_FAILED = 5,
	SK_CAUSE_NEVER_STARTED = 6,
	SK_CAUSE_LOST = 7,
};

enum sk_runner_event_bit {
	SK_EVENT_STARTED = 1,
	SK_EVENT_ENDED = 2,
	SK_EVENT_CODE = 4,
	SK_EVENT_SIGNAL = 8,
	SK_EVENT_USAGE = 16,
	SK_EVENT_READY =
		32, /* all that its first process needs is there: it waits for its release */
	SK_EVENT_CLEARED = 64, /* its folder of trace segments was empty and is removed */
	SK_EVENT_NODE = 128,   /* it did not start for the sake of the node, whatever the job is: no
				  instruction of it has run */
};

/** An event, followed by text_bytes of text. */
struct sk_runner_event {
	struct sk_runner_key key;
	uint32_t pid;
	uint16_t bits;
	uint16_t cause;
	int32_t code;
	int32_t signal;
	uint32_t state; /* 1 starting, 2 running, 3 ended */
	uint32_t text_bytes;
	uint64_t cgroup_id;
	uint64_t started_ns;
	uint64_t t_ns;
	uint64_t cpu_ns;
	uint64_t memory_peak;
	uint64_t out_bytes;
	uint64_t err_bytes;
	uint64_t dropped_bytes;
};
_Static_assert(sizeof(struct sk_runner_event) == 112, "event");

struct sk_runner_stop {
	struct sk_runner_key key;
	uint32_t reason_bytes;
	uint32_t signal;   /* what tells the job to save its work first; 0: nothing does */
	uint64_t grace_ns; /* until the kill; with a `signal` other than SIGTERM, until SIGTERM */
};
_Static_assert(sizeof(struct sk_runner_stop) == 40, "stop");

struct sk_runner_stdin {
	struct sk_runner_key key;
	uint32_t eof;
	uint32_t spare;
	uint64_t offset;
};
_Static_assert(sizeof(struct sk_runner_stdin) == 40, "stdin");

struct sk_runner_acknowledge {
	struct sk_runner_key key;
	uint32_t bits; /* enum sk_runner_event_bit: STARTED or ENDED */
	uint32_t spare;
};
_Static_assert(sizeof(struct sk_runner_acknowledge) == 32, "acknowledge");

struct sk_runner_refusal {
	uint32_t index;
	int32_t error;
	uint32_t text_bytes;
};
_Static_assert(sizeof(struct sk_runner_refusal) == 12, "refusal");

struct sk_runner_done {
	int32_t status; /* 0 or negative errno */
	uint32_t text_bytes;
	uint64_t value;
};
_Static_assert(sizeof(struct sk_runner_done) == 16, "done");

/** A parsed launch. Its pointers lead into the parsed bytes. */
struct sk_runner_launch_view {
	const struct sk_runner_launch *fixed;
	const uint32_t *groups;
	const struct sk_runner_device *devices;
	const char *cwd;
	const char *folder;
	const char *trace_folder;
	const char *cpus;
	const char *memory_nodes;
	const char *arguments; /* first of `fixed->arguments` strings, then the variables */
	const char *end;
};

/** Check one launch of at most `size` bytes at an address aligned to 8.
 *
 * @return 0, or -EBADMSG where lengths contradict one another, -E2BIG past a named maximum, -EINVAL
 * for a value out of range; *ret_why then names the fault, else it is left alone. */
int sk_runner_launch_parse(const void *bytes, size_t size, struct sk_runner_launch_view *ret,
			   const char **ret_why);

/** Fill argv and envp, each NULL-terminated; `ret_argv` has room for SK_ARGUMENTS_MAX + 2. */
void sk_runner_launch_vectors(const struct sk_runner_launch_view *view, char **ret_argv,
			      char ***ret_envp);

#endif
