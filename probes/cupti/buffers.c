/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include <string.h>
#include <sys/mman.h>

static int claim(struct sk_cupti_buffers *buffers)
{
	for (int part = 0; part < SK_CUPTI_BUFFERS / 64; part++) {
		uint64_t taken = atomic_load(&buffers->taken[part]);

		while (~taken) {
			int bit = __builtin_ctzll(~taken);

			if (atomic_compare_exchange_weak(&buffers->taken[part], &taken,
							 taken | UINT64_C(1) << bit))
				return part * 64 + bit;
		}
	}
	return -1;
}

static void release(struct sk_cupti_buffers *buffers, int index)
{
	atomic_fetch_and(&buffers->taken[index / 64], ~(UINT64_C(1) << index % 64));
}

uint8_t *sk_cupti_buffers_take(struct sk_cupti_buffers *buffers)
{
	int index = claim(buffers);
	uint8_t *memory = index < 0 ? NULL : atomic_load(&buffers->memory[index]);

	if (index >= 0 && !memory) {
		memory = mmap(NULL, SK_CUPTI_BUFFER_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED) {
			release(buffers, index);
			memory = NULL;
		}
		if (memory)
			atomic_store(&buffers->memory[index], memory);
	}
	if (!memory)
		atomic_fetch_add(&buffers->refused, 1);
	return memory;
}

bool sk_cupti_buffers_out(const struct sk_cupti_buffers *buffers)
{
	uint64_t taken = 0;

	for (int part = 0; part < SK_CUPTI_BUFFERS / 64; part++)
		taken |= atomic_load(&buffers->taken[part]);
	return taken;
}

void sk_cupti_buffers_give(struct sk_cupti_buffers *buffers, uint8_t *buffer, size_t used)
{
	for (int index = 0; index < SK_CUPTI_BUFFERS; index++)
		if (atomic_load(&buffers->memory[index]) == buffer) {
			memset(buffer, 0,
			       used < SK_CUPTI_BUFFER_BYTES ? used : SK_CUPTI_BUFFER_BYTES);
			release(buffers, index);
			return;
		}
}
