/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a card: how much is used, its errors, what was taken out of use. */
#include "sim/nvml/library.h"

#define MIB (1ull << 20)

enum { CORRECTED, UNCORRECTED };
enum { VOLATILE, AGGREGATE };
enum { LOCATION_DEVICE = 2, LOCATION_SRAM = 7, LOCATIONS = 8 };
enum { BANKS_PER_GIB = 18 };

struct use {
	uint64_t total, reserved, used; /* used by processes alone */
};

static struct use use_of(const struct sk_nvml_call *call)
{
	const struct sk_sim_card *card = call->card;
	const struct sk_sim_partition *partition;
	struct use use = {.total = card->model.memory_bytes};

	if (!call->instance) {
		use.reserved = card->model.memory_bytes / 256;
		use.used = card->now.memory_used - use.reserved;
		return use;
	}
	partition = &card->partition[call->instance - 1];
	use.total = partition->memory_bytes;
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid && card->process[i].instance == partition->instance)
			use.used += card->process[i].memory_bytes;
	return use;
}

SK_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);
	struct use use;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	use = use_of(&call);
	ret->total = use.total;
	ret->used = use.used + use.reserved;
	ret->free = ret->total - ret->used;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);
	struct use use;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 2))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	use = use_of(&call);
	ret->total = use.total;
	ret->reserved = use.reserved;
	ret->used = use.used;
	ret->free = use.total - use.reserved - use.used;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* The size is the next power of two above the memory, all of which is visible through the BAR. */
SK_NVML nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);
	uint64_t total = MIB;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	while (total < call.card->model.memory_bytes)
		total *= 2;
	ret->bar1Total = total;
	ret->bar1Used = MIB;
	ret->bar1Free = total - MIB;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static bool has_ecc(const struct sk_sim_card *card)
{
	return card->model.flags & SK_SIM_HAS_ECC;
}

static uint64_t errors(const struct sk_sim_card *card, uint32_t type, uint32_t counter)
{
	const struct sk_sim_now *now = &card->now;

	if (counter == VOLATILE)
		return type == CORRECTED ? now->ecc_corrected : now->ecc_uncorrected;
	return type == CORRECTED ? now->ecc_corrected_total : now->ecc_uncorrected_total;
}

SK_NVML_VALUE_IF(nvmlDeviceGetDefaultEccMode, uint32_t, has_ecc(card), 1)

/* Begin a query about errors. */
static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function,
			uint32_t type, uint32_t counter, const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	if (failed)
		return failed;
	if (!ret || type > UNCORRECTED || counter > AGGREGATE)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	return has_ecc(call->card) ? NVML_SUCCESS : sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
}

SK_NVML nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, uint32_t *ret, uint32_t *ret_pending)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, CORRECTED, VOLATILE, ret);

	if (failed)
		return failed;
	*ret = 1;
	if (ret_pending)
		*ret_pending = 1;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, uint32_t type,
						 uint32_t counter, uint64_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, type, counter, ret);

	if (failed)
		return failed;
	*ret = errors(call.card, type, counter);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* All errors of a simulated card are of its device memory. */
SK_NVML nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, uint32_t type,
						    uint32_t counter, nvmlEccErrorCounts_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, type, counter, ret);

	if (failed)
		return failed;
	*ret = (nvmlEccErrorCounts_t){.deviceMemory = errors(call.card, type, counter)};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, uint32_t type,
						     uint32_t counter, uint32_t location,
						     uint64_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, type, counter, ret);

	if (failed)
		return failed;
	if (location >= LOCATIONS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (location != LOCATION_DEVICE && location != LOCATION_SRAM)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret = location == LOCATION_DEVICE ? errors(call.card, type, counter) : 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device,
						     nvmlEccSramErrorStatus_v1_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, CORRECTED, VOLATILE, ret);

	if (failed)
		return failed;
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	*ret = (nvmlEccSramErrorStatus_v1_t){.version = ret->version};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, uint32_t counter)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, __func__);
	struct sk_sim_now *now;

	if (failed)
		return failed;
	if (counter > AGGREGATE)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	now = &call.card->now;
	if (counter == VOLATILE)
		now->ecc_corrected = now->ecc_uncorrected = 0;
	else
		now->ecc_corrected_total = now->ecc_uncorrected_total = 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML_VALUE_IF(nvmlDeviceGetRetiredPagesPendingStatus, uint32_t, has_ecc(card),
		 card->now.retired_pending)

/* Pages are retired for uncorrected errors (cause 1), each at an address of its own. */
static nvmlReturn_t pages(const char *function, nvmlDevice_t device, uint32_t cause,
			  uint32_t *count, uint64_t *addresses, uint64_t *times)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, function, cause, VOLATILE, count);
	uint32_t room, there;

	if (failed)
		return failed;
	room = *count;
	there = cause ? call.card->now.retired_pages : 0;
	*count = there;
	if (there && (!addresses || room < there))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	for (uint32_t i = 0; i < there; i++) {
		addresses[i] = (uint64_t)(i + 1) << 16;
		if (times)
			times[i] = sk_nvml_us(call.node, 0);
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, uint32_t cause, uint32_t *count,
					       uint64_t *addresses)
{
	return pages(__func__, device, cause, count, addresses, NULL);
}

SK_NVML nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, uint32_t cause,
						  uint32_t *count, uint64_t *addresses,
						  uint64_t *times)
{
	return pages(__func__, device, cause, count, addresses, times);
}

SK_NVML nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, uint32_t *ret_corrected,
					       uint32_t *ret_uncorrected, uint32_t *ret_pending,
					       uint32_t *ret_failed)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, CORRECTED, VOLATILE, ret_corrected);

	if (failed)
		return failed;
	if (!ret_uncorrected || !ret_pending || !ret_failed)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_corrected = 0;
	*ret_uncorrected = call.card->now.remapped_rows;
	*ret_pending = call.card->now.remap_pending;
	*ret_failed = call.card->now.remap_failed;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Every remapped row is in a bank of its own. */
SK_NVML nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
						       nvmlRowRemapperHistogramValues_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, CORRECTED, VOLATILE, ret);
	uint32_t banks, touched;

	if (failed)
		return failed;
	banks = (uint32_t)(call.card->model.memory_bytes >> 30) * BANKS_PER_GIB;
	touched = call.card->now.remapped_rows < banks ? call.card->now.remapped_rows : banks;
	*ret = (nvmlRowRemapperHistogramValues_t){.max = banks - touched, .high = touched};
	if (call.card->now.remap_failed && touched) {
		ret->high--;
		ret->none = 1;
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}
