/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One output stream of a job: from its pipe into a file of the job's folder.
 *
 * The file is made with the first byte. No byte is dropped below the job's maximum while the disk
 * takes it; dropped bytes are counted, and the job never blocks on them. Memory: one static buffer
 * for all streams of a shim.
 */
#ifndef SK_RUNNER_SHIM_SINK_H
#define SK_RUNNER_SHIM_SINK_H

#include <stdbool.h>
#include <stdint.h>

/** Shared by the two streams of a job. */
struct sk_runner_sink_budget {
	uint64_t left;	  /* bytes that may still be written */
	uint64_t over;	  /* bytes dropped past the maximum */
	uint64_t refused; /* bytes the file system refused */
	int error;	  /* why: the first negative errno */
};

struct sk_runner_sink {
	int pipe; /* read end, non-blocking; -1 after its end */
	int file; /* -1 until the first byte */
	const char *folder;
	const char *name;
	uint64_t written;
};

/** Move a bounded amount from the pipe to the file; true if more may be waiting. */
bool sk_runner_sink_drain(struct sk_runner_sink *sink, struct sk_runner_sink_budget *budget);

/** Close pipe and file. */
void sk_runner_sink_close(struct sk_runner_sink *sink);

#endif
