/* SPDX-License-Identifier: Apache-2.0
 *
 * A seeded stream of requests of every kind, for a small cluster that runs into every limit.
 * Invariant: the same seed and the same state give the same bytes on every machine.
 */
#ifndef SK_TESTS_NATIVE_CORE_STREAM_H
#define SK_TESTS_NATIVE_CORE_STREAM_H

#include "core/state/state.h"

#define STREAM_LIMITS                                                                              \
	{                                                                                          \
		.nodes = 3, .devices = 24, .jobs = 14, .finished = 4, .tasks = 16,                 \
		.node_tasks = 8, .keys = 3, .queues = 4                                            \
	}

struct stream {
	uint64_t random;
	uint64_t now_ns;
};

struct batch {
	uint8_t *bytes;
	size_t size;
};

/* A number below `below`. */
uint64_t stream_chance(struct stream *stream, uint64_t below);
/* One more request, most of them sound for this state. */
void stream_request(struct stream *stream, struct batch *batch, const struct sk_core *core);
/* A group of PLACEs that no policy chose, for apply alone. */
void stream_places(struct stream *stream, struct batch *batch, const struct sk_core *core);

#endif
