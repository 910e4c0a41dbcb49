/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management of the simulated CUDA driver, by means of the kernel. A reserved range
 * is a mapping without access. An allocation is a memfd, which is mapped over such a range. Access
 * rights are the protection of pages, so a forbidden access faults.
 */
#include "sim/cuda/library.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPACE (1ull << 46) /* more than processes of any machine have */

enum { RANGES = 4096, HANDLES = 16384, MAPPINGS = 65536, PINNED = 1, POSIX_FD = 1 };

struct handle {
	uint64_t bytes, charged;
	uint32_t references; /* of the caller, and one of each mapping */
	uint32_t mappings;   /* alone: they keep what the caller has released */
	int fd;
	struct sk_cuda_allocation properties;
};

static struct {
	uint64_t address, bytes;
} range[RANGES];
static struct handle handle[HANDLES];
static struct {
	uint64_t address, bytes;
	struct handle *of;
	uint32_t access;
} mapping[MAPPINGS];
static uint32_t mappings_high;

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static bool whole(uint64_t bytes)
{
	return bytes && bytes % SK_CUDA_GRANULARITY == 0;
}

SK_CUDA cuMemGetAllocationGranularity(size_t *ret, const struct sk_cuda_allocation *properties,
				      int option)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	if (!ret || !properties || properties->type != PINNED)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = SK_CUDA_GRANULARITY;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

/* Reserve more than requested, then unmap the parts before and after the aligned range. */
static uint64_t reserve(uint64_t bytes, uint64_t alignment, uint64_t wish)
{
	uint64_t all = bytes + alignment, from, aligned;
	void *got;

	if (bytes > SPACE || alignment > SPACE)
		return 0;
	got = mmap(at(wish), all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (got == MAP_FAILED)
		return 0;
	from = (uint64_t)(uintptr_t)got;
	aligned = (from + alignment - 1) / alignment * alignment;
	if (aligned > from)
		munmap(got, aligned - from);
	munmap(at(aligned + bytes), from + all - aligned - bytes);
	return aligned;
}

SK_CUDA cuMemAddressReserve(uint64_t *ret, size_t bytes, size_t alignment, uint64_t wish,
			    unsigned long long flags)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint32_t i = 0;

	if (result)
		return result;
	if (!alignment)
		alignment = SK_CUDA_GRANULARITY;
	if (!ret || !whole(bytes) || flags || alignment & (alignment - 1))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	if (alignment < SK_CUDA_GRANULARITY)
		alignment = SK_CUDA_GRANULARITY;
	while (i < RANGES && range[i].bytes)
		i++;
	*ret = i < RANGES ? reserve(bytes, alignment, wish) : 0;
	if (!*ret)
		return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
	range[i].address = *ret;
	range[i].bytes = bytes;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static bool overlaps(uint64_t address, uint64_t bytes)
{
	for (uint32_t i = 0; i < mappings_high; i++)
		if (mapping[i].bytes && address < mapping[i].address + mapping[i].bytes &&
		    mapping[i].address < address + bytes)
			return true;
	return false;
}

SK_CUDA cuMemAddressFree(uint64_t address, size_t bytes)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	for (uint32_t i = 0; i < RANGES; i++) {
		if (!range[i].bytes || range[i].address != address || range[i].bytes != bytes)
			continue;
		if (overlaps(address, bytes))
			break;
		munmap(at(address), bytes);
		range[i].bytes = 0;
		return sk_cuda_end(SK_CUDA_SUCCESS);
	}
	return sk_cuda_end(SK_CUDA_INVALID_VALUE);
}

static struct handle *free_handle(void)
{
	for (uint32_t i = 0; i < HANDLES; i++)
		if (!handle[i].references)
			return &handle[i];
	return NULL;
}

static bool is_handle(const struct handle *of)
{
	return SK_CUDA_IS_OF(handle, of) && of->references > of->mappings;
}

static void let_go(struct handle *of)
{
	if (--of->references)
		return;
	close(of->fd);
	sk_cuda_discharge((uint32_t)of->properties.location.id, of->charged);
}

/* Called with the node locked. The handle owns `fd` afterwards. */
static int make(struct handle **ret, int fd, uint64_t bytes,
		const struct sk_cuda_allocation *properties)
{
	struct handle *made = free_handle();
	int result = made && fd >= 0 ? 0 : SK_CUDA_OUT_OF_MEMORY;

	if (!result)
		result = sk_cuda_charge((uint32_t)properties->location.id, bytes);
	if (result) {
		if (fd >= 0)
			close(fd);
		return result;
	}
	*made = (struct handle){.bytes = bytes, .charged = bytes, .references = 1, .fd = fd};
	made->properties = *properties;
	*ret = made;
	return SK_CUDA_SUCCESS;
}

static bool is_allocation(const struct sk_cuda_allocation *properties)
{
	return properties && properties->type == PINNED && properties->location.type == 1 &&
	       (uint32_t)properties->location.id < sk_cuda_count();
}

SK_CUDA cuMemCreate(struct handle **ret, size_t bytes, const struct sk_cuda_allocation *properties,
		    unsigned long long flags)
{
	int fd, result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	if (!ret || !whole(bytes) || flags || !is_allocation(properties))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	fd = memfd_create("stoker-sim-cuda", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
		close(fd);
		fd = -1;
	}
	return sk_cuda_end(make(ret, fd, bytes, properties));
}

/* Begin a call of an allocation. */
static int begin(const char *function, struct handle *of)
{
	int result = sk_cuda_begin(function, UINT32_MAX);

	if (result)
		return result;
	return is_handle(of) ? SK_CUDA_SUCCESS : sk_cuda_end(SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuMemRelease(struct handle *of)
{
	int result = begin(__func__, of);

	if (result)
		return result;
	let_go(of);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuMemGetAllocationPropertiesFromHandle(struct sk_cuda_allocation *ret, struct handle *of)
{
	int result = begin(__func__, of);

	if (result)
		return result;
	if (ret)
		*ret = of->properties;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

static bool is_reserved(uint64_t address, uint64_t bytes)
{
	for (uint32_t i = 0; i < RANGES; i++)
		if (range[i].bytes && address >= range[i].address && bytes <= range[i].bytes &&
		    address - range[i].address <= range[i].bytes - bytes)
			return true;
	return false;
}

static int map(uint64_t address, uint64_t bytes, struct handle *of)
{
	uint32_t i = 0;

	if (overlaps(address, bytes))
		return SK_CUDA_ALREADY_MAPPED;
	while (i < MAPPINGS && mapping[i].bytes)
		i++;
	if (i == MAPPINGS ||
	    mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, of->fd, 0) == MAP_FAILED)
		return SK_CUDA_OUT_OF_MEMORY;
	if (i >= mappings_high)
		mappings_high = i + 1;
	mapping[i].address = address;
	mapping[i].bytes = bytes;
	mapping[i].of = of;
	mapping[i].access = 0;
	of->references++;
	of->mappings++;
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuMemMap(uint64_t address, size_t bytes, size_t offset, struct handle *of,
		 unsigned long long flags)
{
	int result = begin(__func__, of);

	if (result)
		return result;
	if (offset || flags || !whole(bytes) || bytes > of->bytes ||
	    address % SK_CUDA_GRANULARITY || !is_reserved(address, bytes))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	return sk_cuda_end(map(address, bytes, of));
}

SK_CUDA cuMemUnmap(uint64_t address, size_t bytes)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint64_t found = 0;

	if (result)
		return result;
	for (uint32_t i = 0; i < mappings_high; i++)
		if (mapping[i].bytes && mapping[i].address >= address &&
		    mapping[i].address + mapping[i].bytes <= address + bytes)
			found += mapping[i].bytes;
	if (!bytes || found != bytes) /* whole mappings without gaps */
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < mappings_high; i++) {
		if (!mapping[i].bytes || mapping[i].address < address ||
		    mapping[i].address >= address + bytes)
			continue;
		mapping[i].bytes = 0;
		mapping[i].of->mappings--;
		let_go(mapping[i].of);
	}
	mmap(at(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	     -1, 0);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static int protect(uint32_t i, uint32_t access)
{
	int bits = (access & 1 ? PROT_READ : 0) | (access & 2 ? PROT_WRITE : 0);

	if (mprotect(at(mapping[i].address), mapping[i].bytes, bits))
		return SK_CUDA_UNKNOWN;
	mapping[i].access = access;
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuMemSetAccess(uint64_t address, size_t bytes, const struct sk_cuda_access *access,
		       size_t count)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint64_t done = 0;

	if (result)
		return result;
	if (!access || !count || access->location.type != 1)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t i = 0; i < mappings_high && !result; i++) {
		if (!mapping[i].bytes || mapping[i].address < address ||
		    mapping[i].address + mapping[i].bytes > address + bytes)
			continue;
		result = protect(i, access->flags);
		done += mapping[i].bytes;
	}
	return sk_cuda_end(result	   ? result
			   : done == bytes ? SK_CUDA_SUCCESS
					   : SK_CUDA_INVALID_VALUE);
}

static uint32_t around(uint64_t address)
{
	uint32_t i = 0;

	while (i < mappings_high && (!mapping[i].bytes || address < mapping[i].address ||
				     address >= mapping[i].address + mapping[i].bytes))
		i++;
	return i;
}

SK_CUDA cuMemGetAccess(unsigned long long *ret, const struct sk_cuda_location *location,
		       uint64_t address)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint32_t i;

	if (result)
		return result;
	i = around(address);
	if (!ret || !location || i == mappings_high)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = mapping[i].access;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

/* Return whether a copy may read and write the whole range. */
bool sk_cuda_is_mapped(uint64_t address, uint64_t bytes, uint32_t *ret)
{
	uint64_t end = address + bytes;
	uint32_t i;

	if (end < address)
		return false;
	while (address < end) {
		i = around(address);
		if (i == mappings_high || mapping[i].access != 3)
			return false;
		*ret = (uint32_t)mapping[i].of->properties.location.id;
		address = mapping[i].address + mapping[i].bytes;
	}
	return true;
}

SK_CUDA cuMemRetainAllocationHandle(struct handle **ret, void *address)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	uint32_t i;

	if (result)
		return result;
	i = around((uint64_t)(uintptr_t)address);
	if (!ret || i == mappings_high)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = mapping[i].of;
	mapping[i].of->references++;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuMemExportToShareableHandle(int *ret, struct handle *of, int type,
				     unsigned long long flags)
{
	int result = begin(__func__, of);

	if (result)
		return result;
	if (!ret || type != POSIX_FD || !(of->properties.requested_handles & POSIX_FD))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = fcntl(of->fd, F_DUPFD_CLOEXEC, 0);
	return sk_cuda_end(*ret < 0 ? SK_CUDA_UNKNOWN : SK_CUDA_SUCCESS);
}

/* Memory that another process exported is charged there, so nothing is charged here. */
SK_CUDA cuMemImportFromShareableHandle(struct handle **ret, void *shared, int type)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	struct handle *made = NULL;
	struct stat found;
	int fd;

	if (result)
		return result;
	fd = (int)(intptr_t)shared;
	if (!ret || type != POSIX_FD || fstat(fd, &found) || !whole((uint64_t)found.st_size))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	made = free_handle();
	fd = made ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (fd < 0)
		return sk_cuda_end(SK_CUDA_OUT_OF_MEMORY);
	*made = (struct handle){.bytes = (uint64_t)found.st_size, .references = 1, .fd = fd};
	made->properties = (struct sk_cuda_allocation){.type = PINNED, .location = {1, 0}};
	made->properties.requested_handles = POSIX_FD;
	*ret = made;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}
