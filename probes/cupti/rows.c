/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels, devices and contexts as rows of the segment, found without a lock. */
#include "cupti.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_GPU = 4, NAME_PROBES = 8, CONTEXT_BITS = 8 };

/* The kernel's name comes with every launch. Its address cannot be cached: a module may be unloaded
 * and another one loaded there. */
static uint64_t hash_of(const char *text)
{
	size_t length = strlen(text);
	uint64_t hash = length * UINT64_C(0x9e3779b97f4a7c15), word;

	for (; length >= sizeof(word); length -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, text, length);
	hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 29;
}

unsigned sk_cupti_name(const char *name)
{
	uint64_t hash = name ? hash_of(name) & ~UINT64_C(0xffff) : 0, there = 0;
	unsigned slot = 0, row;

	if (!name || !*name)
		return 0;
	for (unsigned i = 0; i < NAME_PROBES; i++) {
		slot = ((unsigned)(hash >> 16) + i) & (SK_CUPTI_NAMES - 1);
		there = atomic_load_explicit(&sk_cupti->names[slot], memory_order_relaxed);
		if (there && (there & ~UINT64_C(0xffff)) == hash)
			return (unsigned)(there & 0xffff) - 1;
		if (!there)
			break;
	}
	row = sk_tracer_name(name);
	atomic_store_explicit(&sk_cupti->names[slot], hash | (row + 1), memory_order_relaxed);
	return row;
}

static void write_uuid(const char *prefix, const CUuuid *uuid, char *ret, size_t size)
{
	int used = snprintf(ret, size, "%s", prefix);

	for (int i = 0; i < 16; i++)
		used += snprintf(ret + used, size - (size_t)used, "%s%02x",
				 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				 (unsigned char)uuid->bytes[i]);
}

/* The id is NVML's: a whole device has its own, a part of one the part's. */
static bool id_of(int device, char *ret, size_t size)
{
	const struct sk_cupti_cuda *cuda = &sk_cupti->cuda;
	CUuuid whole, part;

	if (!cuda->device_uuid || cuda->device_uuid(&whole, device))
		return false;
	bool is_part = cuda->device_uuid_v2 && !cuda->device_uuid_v2(&part, device) &&
		       memcmp(&whole, &part, sizeof(whole));

	write_uuid(is_part ? "MIG-" : "GPU-", is_part ? &part : &whole, ret, size);
	return true;
}

unsigned sk_cupti_device(int device)
{
	char id[64], name[128] = "NVIDIA GPU";

	if (!id_of(device, id, sizeof(id)))
		return SK_NO_DEVICE;
	if (sk_cupti->cuda.device_name)
		sk_cupti->cuda.device_name(name, sizeof(name), device);
	return sk_tracer_device(id, name, TYPE_GPU);
}

void sk_cupti_learn_context(uint32_t context, unsigned device)
{
	uint64_t word = (uint64_t)context << CONTEXT_BITS | (device + 1);

	if (device != SK_NO_DEVICE)
		atomic_store_explicit(&sk_cupti->contexts[context % SK_CUPTI_CONTEXTS], word,
				      memory_order_relaxed);
}

unsigned sk_cupti_context(uint32_t context, bool is_current)
{
	uint64_t word = atomic_load_explicit(&sk_cupti->contexts[context % SK_CUPTI_CONTEXTS],
					     memory_order_relaxed);
	unsigned row = SK_NO_DEVICE;
	CUdevice device;

	if (word && word >> CONTEXT_BITS == context)
		return (unsigned)(word & ((1 << CONTEXT_BITS) - 1)) - 1;
	if (is_current && sk_cupti->cuda.device_of_context &&
	    !sk_cupti->cuda.device_of_context(&device))
		row = sk_cupti_device(device);
	sk_cupti_learn_context(context, row);
	return row;
}
