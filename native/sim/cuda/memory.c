/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of the simulated CUDA driver: pages of this process, charged to the card. Copies
 * and fills are done at the call, and take their time in their stream.
 */
#include "sim/cuda/library.h"

#include <string.h>
#include <sys/mman.h>

enum { ALLOCATIONS = 65536, CHARGE = 512, FILL_GB_S = 1000 };

static struct {
	uint64_t address, bytes, charged;
	uint32_t device;
	bool host;
} allocation[ALLOCATIONS];
static uint32_t high; /* places above were never used */

/* Find the allocation around an address, or `high`. */
static uint32_t around(uint64_t address)
{
	uint32_t i = 0;

	while (i < high && (address < allocation[i].address ||
			    address >= allocation[i].address + allocation[i].bytes))
		i++;
	return i;
}

bool sk_cuda_is_device(uint64_t address, uint64_t bytes, uint32_t *ret)
{
	uint32_t i = around(address);

	if (i == high)
		return sk_cuda_is_mapped(address, bytes, ret);
	*ret = allocation[i].device;
	return !allocation[i].host &&
	       bytes <= allocation[i].address + allocation[i].bytes - address;
}

static uint32_t free_place(void)
{
	uint32_t i = 0;

	while (i < ALLOCATIONS && allocation[i].bytes)
		i++;
	if (i < ALLOCATIONS && i >= high)
		high = i + 1;
	return i;
}

/* Allocate memory of a device, or of the host; called with the node locked. */
static int allocate(uint32_t device, uint64_t bytes, bool host, uint64_t *ret)
{
	uint64_t charged = host ? 0 : (bytes + CHARGE - 1) / CHARGE * CHARGE;
	uint32_t place = free_place();
	int result = place < ALLOCATIONS ? 0 : SK_CUDA_OUT_OF_MEMORY;
	void *at;

	if (!bytes || !ret)
		return SK_CUDA_INVALID_VALUE;
	if (!result && charged)
		result = sk_cuda_charge(device, charged);
	if (result)
		return result;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		  -1, 0);
	if (at == MAP_FAILED) {
		sk_cuda_discharge(device, charged);
		return SK_CUDA_OUT_OF_MEMORY;
	}
	allocation[place].address = *ret = (uint64_t)(uintptr_t)at;
	allocation[place].bytes = bytes;
	allocation[place].charged = charged;
	allocation[place].device = device;
	allocation[place].host = host;
	return SK_CUDA_SUCCESS;
}

static int release(uint64_t address, bool host)
{
	uint32_t i = around(address);

	if (i == high || allocation[i].address != address || allocation[i].host != host)
		return SK_CUDA_INVALID_VALUE;
	munmap((void *)(uintptr_t)address, allocation[i].bytes);
	sk_cuda_discharge(allocation[i].device, allocation[i].charged);
	allocation[i].bytes = allocation[i].address = 0;
	return SK_CUDA_SUCCESS;
}

static int allocate_here(const char *function, uint64_t bytes, bool host, uint64_t *ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);

	if (result)
		return result;
	return sk_cuda_end(allocate(context->device, bytes, host, ret));
}

static int release_here(const char *function, uint64_t address, bool host)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);

	if (result)
		return result;
	if (address) /* freeing waits for all work that may use it */
		sk_cuda_wait(sk_cuda_all_done_ns(context));
	return sk_cuda_end(address ? release(address, host) : SK_CUDA_SUCCESS);
}

SK_CUDA cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
	return allocate_here(__func__, bytes, false, ret);
}

SK_CUDA cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned flags)
{
	return allocate_here(__func__, bytes, false, ret);
}

SK_CUDA cuMemAllocAsync(uint64_t *ret, size_t bytes, void *stream)
{
	return allocate_here(__func__, bytes, false, ret);
}

SK_CUDA cuMemFree_v2(uint64_t address)
{
	return release_here(__func__, address, false);
}

SK_CUDA cuMemFreeAsync(uint64_t address, void *stream)
{
	return release_here(__func__, address, false);
}

SK_CUDA cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
	return allocate_here(__func__, bytes, true, (uint64_t *)ret);
}

SK_CUDA cuMemAllocHost_v2(void **ret, size_t bytes)
{
	return allocate_here(__func__, bytes, true, (uint64_t *)ret);
}

SK_CUDA cuMemFreeHost(void *address)
{
	return release_here(__func__, (uint64_t)(uintptr_t)address, true);
}

SK_CUDA cuMemGetInfo_v2(size_t *free, size_t *total)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(__func__, &context);
	const struct sk_sim_card *card;

	if (result)
		return result;
	card = sk_cuda_card(context->device);
	if (free)
		*free = card->model.memory_bytes - card->now.memory_used;
	if (total)
		*total = card->model.memory_bytes;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint32_t i;

	if (result)
		return result;
	i = around(address);
	if (i == high)
		return sk_cuda_end(SK_CUDA_NOT_FOUND);
	if (base)
		*base = allocation[i].address;
	if (bytes)
		*bytes = allocation[i].bytes;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuPointerGetAttribute(void *ret, int attribute, uint64_t address)
{
	enum { CONTEXT = 1, TYPE = 2, ORDINAL = 9, HOST = 1, DEVICE = 2 };
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(__func__, &context);
	uint32_t device = 0, i;
	bool is;

	if (result)
		return result;
	i = around(address);
	is = sk_cuda_is_device(address, 1, &device);
	if (!ret || (!is && i == high))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	if (attribute == CONTEXT)
		*(void **)ret = context;
	else if (attribute == TYPE)
		*(uint32_t *)ret = is ? DEVICE : HOST;
	else if (attribute == ORDINAL)
		*(int32_t *)ret = (int32_t)device;
	else
		return sk_cuda_end(SK_CUDA_NOT_SUPPORTED);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

/* Speed of a copy in bytes a second: over PCIe, between linked cards, or within one. */
static double rate_of(const struct sk_cuda_context *context, uint64_t to, uint64_t from)
{
	const double pcie_gb_s[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563}; /* of a lane */
	const struct sk_sim_model *model = &sk_cuda_card(context->device)->model;
	uint32_t a = 0, b = 0;
	bool both = sk_cuda_is_device(to, 1, &a) && sk_cuda_is_device(from, 1, &b);

	if (both && a == b)
		return (double)model->bandwidth_gb_s * 1e9 / 2;
	if (both && model->links)
		return (double)model->link_gb_s * model->links * 1e9;
	return pcie_gb_s[model->pcie_gen % 7] * model->pcie_width * 1e9;
}

enum need { ANY, TO = 1, FROM = 2 };

/* Return whether the sides that must be device memory are; called with the node locked. */
static bool fits(uint64_t to, uint64_t from, uint64_t bytes, enum need need)
{
	uint32_t device;

	if (!bytes)
		return true;
	return to && from && (!(need & TO) || sk_cuda_is_device(to, bytes, &device)) &&
	       (!(need & FROM) || sk_cuda_is_device(from, bytes, &device));
}

/* Return the kind of a copy as CUpti_ActivityMemcpyKind numbers it. */
static uint8_t kind_of(uint64_t to, uint64_t from)
{
	enum { WRITE = 1, READ = 2, WITHIN = 8, OF_HOST = 9 };
	uint32_t device;

	if (sk_cuda_is_device(to, 1, &device))
		return sk_cuda_is_device(from, 1, &device) ? WITHIN : WRITE;
	return sk_cuda_is_device(from, 1, &device) ? READ : OF_HOST;
}

struct copy {
	uint64_t to, from, bytes;
	void *stream;
	unsigned need;
	bool wait;
};

static int carry_out(const char *function, const struct copy *copy, struct sk_cuda_work *ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);
	struct sk_cuda_stream *stream;
	uint64_t ns;

	if (result)
		return result;
	stream = sk_cuda_stream(context, copy->stream);
	if (!stream)
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (!fits(copy->to, copy->from, copy->bytes, copy->need))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	sk_cuda_pause();
	if (copy->bytes)
		memmove((void *)(uintptr_t)copy->to, (const void *)(uintptr_t)copy->from,
			copy->bytes);
	sk_cuda_resume();
	ns = (uint64_t)((double)copy->bytes * 1e9 / rate_of(context, copy->to, copy->from));
	sk_cuda_enqueue(stream, ns);
	sk_cuda_work_in(ret, copy->bytes ? SK_CUDA_WORK_COPY : 0, stream, ns);
	ret->bytes = copy->bytes;
	ret->copy_kind = kind_of(copy->to, copy->from);
	if (copy->wait)
		sk_cuda_wait(ret->end);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int copy(const char *function, uint32_t id, const struct copy *wanted)
{
	const uint64_t arguments[] = {wanted->to, wanted->from, wanted->bytes,
				      (uintptr_t)wanted->stream};
	struct sk_cuda_work work = {0};
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, id, function, arguments, NULL);
	result = carry_out(function, wanted, &work);
	return sk_cuda_call_end_work(&call, result, &work);
}

SK_CUDA cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	struct copy wanted = {.to = to, .from = from, .bytes = bytes, .wait = true};

	return copy(__func__, SK_CUDA_ID_COPY, &wanted);
}

SK_CUDA cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	struct copy wanted = {.to = to, .from = from, .bytes = bytes, .stream = stream};

	return copy(__func__, SK_CUDA_ID_COPY_ASYNC, &wanted);
}

SK_CUDA cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	struct copy wanted = {.to = to,
			      .from = (uint64_t)(uintptr_t)from,
			      .bytes = bytes,
			      .need = TO,
			      .wait = true};

	return copy(__func__, SK_CUDA_ID_WRITE, &wanted);
}

SK_CUDA cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	struct copy wanted = {.to = (uint64_t)(uintptr_t)to,
			      .from = from,
			      .bytes = bytes,
			      .need = FROM,
			      .wait = true};

	return copy(__func__, SK_CUDA_ID_READ, &wanted);
}

SK_CUDA cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
	struct copy wanted = {
		.to = to, .from = from, .bytes = bytes, .need = TO | FROM, .wait = true};

	return copy(__func__, SK_CUDA_ID_MOVE, &wanted);
}

SK_CUDA cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
	struct copy wanted = {.to = to,
			      .from = (uint64_t)(uintptr_t)from,
			      .bytes = bytes,
			      .stream = stream,
			      .need = TO};

	return copy(__func__, SK_CUDA_ID_WRITE_ASYNC, &wanted);
}

SK_CUDA cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	struct copy wanted = {.to = (uint64_t)(uintptr_t)to,
			      .from = from,
			      .bytes = bytes,
			      .stream = stream,
			      .need = FROM};

	return copy(__func__, SK_CUDA_ID_READ_ASYNC, &wanted);
}

SK_CUDA cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	struct copy wanted = {
		.to = to, .from = from, .bytes = bytes, .stream = stream, .need = TO | FROM};

	return copy(__func__, SK_CUDA_ID_MOVE_ASYNC, &wanted);
}

/* Write one value, then copy the written part until the range is full. */
static void spread(char *to, const void *value, uint64_t width, uint64_t bytes)
{
	uint64_t done = bytes ? width : 0;

	if (bytes)
		memcpy(to, value, width);
	while (done < bytes) {
		uint64_t more = bytes - done < done ? bytes - done : done;

		memcpy(to + done, to, more);
		done += more;
	}
}

struct fill {
	uint64_t to, count;
	const void *value;
	uint32_t width;
	void *stream;
	bool wait;
};

static int spread_out(const char *function, const struct fill *fill, struct sk_cuda_work *ret)
{
	struct sk_cuda_context *context;
	int result = sk_cuda_begin_context(function, &context);
	struct sk_cuda_stream *stream;
	uint64_t bytes = fill->count * fill->width, ns = bytes / FILL_GB_S;

	if (result)
		return result;
	stream = sk_cuda_stream(context, fill->stream);
	if (!stream)
		return sk_cuda_end(SK_CUDA_INVALID_HANDLE);
	if (fill->count > UINT64_MAX / fill->width || fill->to % fill->width ||
	    !fits(fill->to, fill->to, bytes, TO))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	sk_cuda_pause();
	spread((char *)(uintptr_t)fill->to, fill->value, fill->width, bytes);
	sk_cuda_resume();
	sk_cuda_enqueue(stream, ns);
	sk_cuda_work_in(ret, bytes ? SK_CUDA_WORK_FILL : 0, stream, ns);
	ret->bytes = bytes;
	if (fill->wait)
		sk_cuda_wait(ret->end);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

/* `value` is the fill's, as an argument of the call. */
static int fill(const char *function, uint32_t id, uint64_t value, const struct fill *wanted)
{
	const uint64_t arguments[] = {wanted->to, value, wanted->count, (uintptr_t)wanted->stream};
	struct sk_cuda_work work = {0};
	struct sk_cuda_call call;
	int result;

	sk_cuda_call_begin(&call, id, function, arguments, NULL);
	result = spread_out(function, wanted, &work);
	return sk_cuda_call_end_work(&call, result, &work);
}

SK_CUDA cuMemsetD8_v2(uint64_t to, uint8_t value, size_t count)
{
	struct fill wanted = {
		.to = to, .count = count, .value = &value, .width = sizeof(value), .wait = true};

	return fill(__func__, SK_CUDA_ID_FILL8, value, &wanted);
}

SK_CUDA cuMemsetD16_v2(uint64_t to, uint16_t value, size_t count)
{
	struct fill wanted = {
		.to = to, .count = count, .value = &value, .width = sizeof(value), .wait = true};

	return fill(__func__, SK_CUDA_ID_FILL16, value, &wanted);
}

SK_CUDA cuMemsetD32_v2(uint64_t to, uint32_t value, size_t count)
{
	struct fill wanted = {
		.to = to, .count = count, .value = &value, .width = sizeof(value), .wait = true};

	return fill(__func__, SK_CUDA_ID_FILL32, value, &wanted);
}

SK_CUDA cuMemsetD8Async(uint64_t to, uint8_t value, size_t count, void *stream)
{
	struct fill wanted = {.to = to,
			      .count = count,
			      .value = &value,
			      .width = sizeof(value),
			      .stream = stream};

	return fill(__func__, SK_CUDA_ID_FILL8_ASYNC, value, &wanted);
}

SK_CUDA cuMemsetD16Async(uint64_t to, uint16_t value, size_t count, void *stream)
{
	struct fill wanted = {.to = to,
			      .count = count,
			      .value = &value,
			      .width = sizeof(value),
			      .stream = stream};

	return fill(__func__, SK_CUDA_ID_FILL16_ASYNC, value, &wanted);
}

SK_CUDA cuMemsetD32Async(uint64_t to, uint32_t value, size_t count, void *stream)
{
	struct fill wanted = {.to = to,
			      .count = count,
			      .value = &value,
			      .width = sizeof(value),
			      .stream = stream};

	return fill(__func__, SK_CUDA_ID_FILL32_ASYNC, value, &wanted);
}
