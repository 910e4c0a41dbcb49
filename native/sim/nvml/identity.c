/* SPDX-License-Identifier: Apache-2.0 */
/* The identity and place of a card: its profile, in NVML's words. */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"

enum { BRAND_NVIDIA = 14, BUS_PCIE = 2, CPUS_OF_NUMA = 64 };

struct generation {
	const char *name;
	uint32_t architecture; /* NVML_DEVICE_ARCH_* */
	int major, minor;      /* compute capability */
	uint32_t cores;	       /* of one SM */
	uint32_t bus_bits;
};

/* NVIDIA's whitepapers of GA100, AD102 and GH100 (with the memory of H200). */
static const struct generation generations[] = {
	{"ampere", 7, 8, 0, 64, 5120},
	{"ada", 8, 8, 9, 128, 384},
	{"hopper", 9, 9, 0, 128, 6144},
};

static const struct generation *generation(const struct sk_sim_card *card)
{
	static const struct generation unknown = {"", UINT32_MAX, 0, 0, 0, 0};

	for (size_t i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
		if (!strcmp(generations[i].name, card->model.architecture))
			return &generations[i];
	return &unknown;
}

static void name_of(const struct sk_nvml_call *call, char *ret, size_t size)
{
	const struct sk_sim_card *card = call->card;

	if (call->instance)
		snprintf(ret, size, "%s MIG %s", card->model.name,
			 card->partition[call->instance - 1].profile);
	else
		snprintf(ret, size, "%s", card->model.name);
}

SK_NVML nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *ret, uint32_t size)
{
	char name[160];
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);

	if (failed)
		return failed;
	name_of(&call, name, sizeof(name));
	return sk_nvml_end(&call, sk_nvml_text(ret, size, name));
}

SK_NVML nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *ret, uint32_t size)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);
	const char *uuid;

	if (failed)
		return failed;
	uuid = call.instance ? call.card->partition[call.instance - 1].uuid : call.card->model.uuid;
	return sk_nvml_end(&call, sk_nvml_text(ret, size, uuid));
}

SK_NVML_TEXT(nvmlDeviceGetSerial, call.card->model.serial)
SK_NVML_TEXT(nvmlDeviceGetVbiosVersion, call.card->model.firmware)
SK_NVML_TEXT(nvmlDeviceGetBoardPartNumber, "900-SIM00-0000-000")
SK_NVML_TEXT(nvmlDeviceGetInforomImageVersion, "G520.0200.00.05")
SK_NVML_VALUE(nvmlDeviceGetIndex, uint32_t, call.nvidia)
SK_NVML_VALUE(nvmlDeviceGetMinorNumber, uint32_t, card->model.minor)
SK_NVML_VALUE(nvmlDeviceGetModuleId, uint32_t, call.nvidia + 1)
SK_NVML_VALUE(nvmlDeviceGetBrand, uint32_t, BRAND_NVIDIA)
SK_NVML_VALUE(nvmlDeviceGetArchitecture, uint32_t, generation(card)->architecture)
SK_NVML_VALUE(nvmlDeviceGetNumGpuCores, uint32_t, card->model.units *generation(card)->cores)
SK_NVML_VALUE(nvmlDeviceGetMemoryBusWidth, uint32_t, generation(card)->bus_bits)
SK_NVML_VALUE(nvmlDeviceGetBusType, uint32_t, BUS_PCIE)
SK_NVML_VALUE(nvmlDeviceGetIrqNum, uint32_t, 100 + call.nvidia)
SK_NVML_VALUE(nvmlDeviceGetPowerSource, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetMultiGpuBoard, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetDisplayMode, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetDisplayActive, uint32_t, 0)
SK_NVML_VALUE(nvmlDeviceGetComputeMode, uint32_t, card->now.compute_mode)
SK_NVML_VALUE(nvmlDeviceGetPersistenceMode, uint32_t, card->now.persistence)

static uint32_t board_id(const struct sk_sim_card *card)
{
	uint32_t domain, bus, device;

	sk_nvml_bus(&card->model, &domain, &bus, &device);
	return domain << 16 | bus << 8;
}

SK_NVML_VALUE(nvmlDeviceGetBoardId, uint32_t, board_id(card))

/* NVML gives -1, as an unsigned number, for a card without a NUMA node of its own. */
SK_NVML_VALUE_IF(nvmlDeviceGetNumaNodeId, uint32_t, card->model.numa >= 0, card->model.numa)

SK_NVML nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, int object, char *ret,
						 uint32_t size)
{
	static const char *const versions[] = {"2.1", "6.16", "2.0", "N/A"};
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (object < 0 || object > 3)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	return sk_nvml_end(&call, sk_nvml_text(ret, size, versions[object]));
}

SK_NVML nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	return sk_nvml_end(&call, sk_nvml_text(ret, 64, call.card->model.driver));
}

/* Two values of a whole card. */
static nvmlReturn_t pair(const char *function, nvmlDevice_t device, uint32_t first, uint32_t second,
			 uint32_t *ret_first, uint32_t *ret_second)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);

	if (failed)
		return failed;
	if (!ret_first || !ret_second)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_first = first;
	*ret_second = second;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, uint32_t *ret,
						  uint32_t *ret_default)
{
	return pair(__func__, device, 1, 1, ret, ret_default);
}

SK_NVML nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *ret_major,
							int *ret_minor)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret_major || !ret_minor)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret_major = generation(call.card)->major;
	*ret_minor = generation(call.card)->minor;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static void fill_pci(const struct sk_sim_card *card, nvmlPciInfo_t *ret)
{
	memset(ret, 0, sizeof(*ret));
	sk_nvml_bus(&card->model, &ret->domain, &ret->bus, &ret->device);
	ret->pciDeviceId = card->model.pci_device;
	ret->pciSubSystemId = card->model.pci_subsystem;
	snprintf(ret->busId, sizeof(ret->busId), "%08X:%02X:%02X.0", ret->domain, ret->bus,
		 ret->device);
	snprintf(ret->busIdLegacy, sizeof(ret->busIdLegacy), "%04X:%02X:%02X.0",
		 ret->domain & 0xffff, ret->bus & 0xff, ret->device & 0xff);
}

static nvmlReturn_t pci(const char *function, nvmlDevice_t device, nvmlPciInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	fill_pci(call.card, ret);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *ret)
{
	return pci(__func__, device, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *ret)
{
	return pci(__func__, device, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *ret)
{
	return pci(__func__, device, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);
	nvmlPciInfo_t pci;

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	fill_pci(call.card, &pci);
	*ret = (nvmlPciInfoExt_v1_t){
		.version = ret->version,
		.domain = pci.domain,
		.bus = pci.bus,
		.device = pci.device,
		.pciDeviceId = pci.pciDeviceId,
		.pciSubSystemId = pci.pciSubSystemId,
		.baseClass = 0x03, /* display controller, */
		.subClass = 0x02,  /* 3D */
	};
	memcpy(ret->busId, pci.busId, sizeof(ret->busId));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* A NUMA node of the simulated machine has the processors from CPUS_OF_NUMA times its number on. */
static void fill_cpus(const struct sk_sim_card *card, uint32_t words, unsigned long *ret)
{
	uint32_t first = card->model.numa > 0 ? (uint32_t)card->model.numa * CPUS_OF_NUMA : 0;

	memset(ret, 0, words * sizeof(*ret));
	for (uint32_t cpu = first; cpu < first + CPUS_OF_NUMA && cpu / 64 < words; cpu++)
		ret[cpu / 64] |= 1ul << cpu % 64;
}

static void fill_nodes(const struct sk_sim_card *card, uint32_t words, unsigned long *ret)
{
	memset(ret, 0, words * sizeof(*ret));
	if (card->model.numa >= 0 && (uint32_t)card->model.numa / 64 < words)
		ret[card->model.numa / 64] |= 1ul << card->model.numa % 64;
}

typedef void (*sk_nvml_fill)(const struct sk_sim_card *card, uint32_t words, unsigned long *ret);

static nvmlReturn_t affinity(const char *function, nvmlDevice_t device, sk_nvml_fill fill,
			     uint32_t words, unsigned long *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);

	if (failed)
		return failed;
	if (!words || !ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	fill(call.card, words, ret);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, uint32_t words,
					      unsigned long *ret)
{
	return affinity(__func__, device, fill_cpus, words, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, uint32_t words,
							 unsigned long *ret, uint32_t scope)
{
	return affinity(__func__, device, fill_cpus, words, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, uint32_t words,
						 unsigned long *ret, uint32_t scope)
{
	return affinity(__func__, device, fill_nodes, words, ret);
}

static nvmlReturn_t set(const char *function, nvmlDevice_t device, uint32_t most, uint32_t value,
			size_t offset)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, function);

	if (failed)
		return failed;
	if (value > most)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*(uint32_t *)((char *)&call.card->now + offset) = value;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, uint32_t mode)
{
	return set(__func__, device, 1, mode, offsetof(struct sk_sim_now, persistence));
}

SK_NVML nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, uint32_t mode)
{
	return set(__func__, device, 3, mode, offsetof(struct sk_sim_now, compute_mode));
}
