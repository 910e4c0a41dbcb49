/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of names and devices in the segment; a row is filled before its number is published. */
#include "tracer/parts.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = SK_SEGMENT_NAME_BYTES - 4 };

static uint64_t hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* A cut name ends with a hash of the whole, so names that differ only behind the cut stay
 * different. */
static void cut_name(const char *name, char ret[TEXT_MAX])
{
	size_t length = strlen(name);

	if (length < TEXT_MAX)
		memcpy(ret, name, length + 1);
	else
		snprintf(ret, TEXT_MAX, "%.*s~%08x", TEXT_MAX - 10, name,
			 (unsigned)(hash_of(name) & 0xffffffff));
}

/* Return the name's row, 0 when there is no room. Called with `lock` held. */
static unsigned name_row(const char *name)
{
	struct sk_segment *segment = sk_tracer->segment;
	uint32_t count = segment->header.names;
	char text[TEXT_MAX];

	cut_name(name, text);
	for (uint32_t row = 1; row < count; row++)
		if (!strcmp(segment->names[row].text, text))
			return row;
	if (count == SK_SEGMENT_NAMES)
		return 0;
	strcpy(segment->names[count].text, text);
	/* Pairs with the reader's fence after the header: the text is there. */
	atomic_store_explicit(&segment->names[count].length, (uint32_t)strlen(text),
			      memory_order_release);
	atomic_store_explicit(&segment->header.names, count + 1, memory_order_release);
	return count;
}

unsigned sk_tracer_name(const char *text)
{
	pthread_mutex_lock(&sk_tracer->lock);
	unsigned row = name_row(text);

	pthread_mutex_unlock(&sk_tracer->lock);
	return row;
}

static void fill_device(struct sk_segment_device *row, const char *id, const char *name,
			uint32_t type)
{
	strncpy(row->id, id, sizeof(row->id) - 1);
	strncpy(row->name, name, sizeof(row->name) - 1);
	row->type = type;
	strcpy(row->clock, "none yet");
	/* Pairs with the reader's fence after the header: the row is filled. */
	atomic_store_explicit(&row->ready, 1, memory_order_release);
}

/* Called with `lock` held. */
static unsigned device_row(const char *id, const char *name, uint32_t type)
{
	struct sk_segment *segment = sk_tracer->segment;
	uint32_t count = segment->header.devices;

	for (uint32_t row = 0; row < count; row++)
		if (!strncmp(segment->devices[row].id, id, sizeof(segment->devices[row].id) - 1))
			return row;
	if (count == SK_SEGMENT_DEVICES)
		return SK_NO_DEVICE;
	fill_device(&segment->devices[count], id, name, type);
	atomic_store_explicit(&segment->header.devices, count + 1, memory_order_release);
	return count;
}

unsigned sk_tracer_device(const char *id, const char *name, uint32_t type)
{
	pthread_mutex_lock(&sk_tracer->lock);
	unsigned row = device_row(id, name, type);

	pthread_mutex_unlock(&sk_tracer->lock);
	return row;
}

void sk_tracer_clock(unsigned device, const char *clock, int64_t offset_ns, int64_t drift_ppb,
		     uint64_t error_ns)
{
	struct sk_segment_device *row = &sk_tracer->segment->devices[device];

	strncpy(row->clock, clock, sizeof(row->clock) - 1);
	row->offset_ns = offset_ns;
	row->drift_ppb = drift_ppb;
	row->error_ns = error_ns;
	row->refreshed_ns = sk_tracer_now();
}
