/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer's state in this process: its pages, which are new in a forked child, and its start. */
#include "tracer/parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

struct sk_tracer *sk_tracer;
struct sk_tracer_options sk_tracer_options;

uint64_t sk_tracer_now(void)
{
	return sk_tracer_clock_ns(CLOCK_MONOTONIC);
}

void *sk_tracer_pages(size_t bytes)
{
	bytes = (bytes + PAGE - 1) / PAGE * PAGE;
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	if (madvise(pages, bytes, MADV_WIPEONFORK)) {
		munmap(pages, bytes);
		return NULL;
	}
	return pages;
}

/* Return the mode in the environment; SK_MODE_OFF where there is none, or no folder. */
static uint32_t mode_asked(void)
{
	const char *folder = getenv("STOKER_TRACE_DIR"), *mode = getenv("STOKER_TRACE_MODE");

	if (!folder || !*folder || !mode)
		return SK_MODE_OFF;
	if (!strcmp(mode, "full"))
		return SK_MODE_FULL;
	if (!strcmp(mode, "governed"))
		return SK_MODE_GOVERNED;
	return strcmp(mode, "dormant") ? SK_MODE_OFF : SK_MODE_DORMANT;
}

bool sk_tracer_prepare(const struct sk_tracer_options *options)
{
	if (mode_asked() == SK_MODE_OFF)
		return false;
	sk_tracer_options = *options;
	if (!sk_tracer)
		sk_tracer = sk_tracer_pages(sizeof(*sk_tracer));
	return sk_tracer;
}

/* Called with `lock` held. A mode that has been taken out of the environment since is the cheapest
 * one. */
static bool begin(void)
{
	uint32_t mode = mode_asked();

	sk_tracer->started_mode = mode == SK_MODE_OFF ? SK_MODE_DORMANT : mode;
	if (!sk_tracer_make_segment())
		return false;
	sk_tracer->counter = sk_thread_clock_is_usable();
	sk_tracer_changed(sk_tracer->started_mode, sk_tracer_phase(sk_tracer->started_mode),
			  sk_tracer->segment->header.created_ns, 0);
	sk_tracer->generation = sk_tracer_now() | 1;
	if (!sk_tracer_options.wakes || sk_tracer->started_mode != SK_MODE_DORMANT)
		sk_tracer_start_ticks();
	return true;
}

void sk_tracer_wake(void)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;
	uint64_t wanted = header->control.wanted;
	uint32_t mode = wanted & 0xff;

	if (mode != SK_MODE_GOVERNED && mode != SK_MODE_FULL) {
		atomic_store_explicit(&header->answer.applied, wanted, memory_order_release);
		return;
	}
	if (sk_tracer->ticking)
		return; /* the ticks will answer it */
	pthread_mutex_lock(&sk_tracer->lock);
	if (!sk_tracer->ticking)
		sk_tracer_start_ticks();
	pthread_mutex_unlock(&sk_tracer->lock);
}

bool sk_tracer_ready(void)
{
	if (!sk_tracer)
		return false;
	if (sk_tracer->state == SK_TRACER_NEW) {
		pthread_mutex_lock(&sk_tracer->lock);
		if (sk_tracer->state == SK_TRACER_NEW)
			sk_tracer->state = begin() ? SK_TRACER_READY : SK_TRACER_FAILED;
		pthread_mutex_unlock(&sk_tracer->lock);
	}
	return sk_tracer->state == SK_TRACER_READY;
}
