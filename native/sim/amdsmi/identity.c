/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a simulated AMD card: names, numbers, places and sizes, all fixed by its profile.
 */
#include "sim/amdsmi/driver.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	VENDOR = 0x1002,
	FIRST_RENDER = 128, /* DRM render nodes are numbered from here */
	FIRST_KFD_NODE = 2, /* after the CPU's own nodes */
	FORM_HBM3 = 4,
	MIB = 1 << 20,
};

/* The model has NVML's form of a PCI id: the device above its vendor. */
static uint32_t device_of(const struct sk_sim_card *card)
{
	return card->model.pci_device >> 16;
}

static uint32_t subsystem_of(const struct sk_sim_card *card)
{
	return card->model.pci_subsystem >> 16;
}

SK_AMD_API amdsmi_get_socket_info(void *socket, uint64_t bytes, char *name)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, socket, name, &card);
	union sk_amd_bdf bdf;

	if (status)
		return status;
	bdf = sk_amd_bdf(card);
	snprintf(name, bytes, "%04x:%02x:%02x", (unsigned)bdf.bdf.domain_number,
		 (unsigned)bdf.bdf.bus_number, (unsigned)bdf.bdf.device_number);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_processor_info(void *handle, uint64_t bytes, char *name)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, name, &card);

	if (status)
		return status;
	snprintf(name, bytes, "%u", sk_amd_place(card));
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_device_bdf(void *handle, union sk_amd_bdf *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = sk_amd_bdf(card);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_bdf_id(void *handle, uint64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);
	union sk_amd_bdf bdf;

	if (status)
		return status;
	bdf = sk_amd_bdf(card);
	*ret = (uint64_t)bdf.bdf.domain_number << 32 | bdf.bdf.bus_number << 8 |
	       bdf.bdf.device_number << 3 | bdf.bdf.function_number;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_device_uuid(void *handle, uint32_t *length, char *uuid)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, uuid, &card);

	if (status)
		return status;
	if (!length || *length <= strlen(card->model.uuid)) {
		return sk_amd_end(SK_AMD_INVAL);
	}
	sk_amd_copy(uuid, *length, card->model.uuid);
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* The serial as the hexadecimal number of the library; other characters are hashed. */
static uint64_t serial_of(const struct sk_sim_card *card)
{
	const char *serial = card->model.serial;
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
	char *end;
	uint64_t number = strtoull(serial, &end, 16);

	if (*serial && !*end)
		return number;
	for (; *serial; serial++) {
		hash = (hash ^ (uint8_t)*serial) * 0x100000001b3;
	}
	return hash;
}

SK_AMD_API amdsmi_get_gpu_enumeration_info(void *handle, struct sk_amd_enumeration_info *ret)
{
	struct sk_sim_card *card;
	uint32_t place, status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	place = sk_amd_place(card);
	*ret = (struct sk_amd_enumeration_info){
		.drm_render = FIRST_RENDER + (uint32_t)card->model.minor,
		.drm_card = (uint32_t)card->model.minor,
		.hsa_id = FIRST_KFD_NODE + place,
		.hip_id = place,
	};
	snprintf(ret->hip_uuid, sizeof(ret->hip_uuid), "GPU-%016" PRIx64, serial_of(card));
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_kfd_info(void *handle, struct sk_amd_kfd_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_kfd_info){
		.kfd_id = serial_of(card) & UINT16_MAX,
		.node_id = FIRST_KFD_NODE + sk_amd_place(card),
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_asic_info(void *handle, struct sk_amd_asic_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);
	unsigned graphics = 0;

	if (status)
		return status;
	sscanf(card->model.architecture, "gfx%x", &graphics);
	*ret = (struct sk_amd_asic_info){
		.vendor_id = VENDOR,
		.subvendor_id = VENDOR,
		.device_id = device_of(card),
		.subsystem_id = subsystem_of(card),
		.oam_id = sk_amd_place(card),
		.num_of_compute_units = card->model.units,
		.target_graphics_version = graphics,
	};
	sk_amd_copy(ret->market_name, sizeof(ret->market_name), card->model.name);
	sk_amd_copy(ret->vendor_name, sizeof(ret->vendor_name),
		    "Advanced Micro Devices Inc. [AMD/ATI]");
	snprintf(ret->asic_serial, sizeof(ret->asic_serial), "0x%016" PRIX64, serial_of(card));
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_board_info(void *handle, struct sk_amd_board_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_board_info){.manufacturer_name = "AMD", .model_number = "SIM"};
	sk_amd_copy(ret->product_serial, sizeof(ret->product_serial), card->model.serial);
	sk_amd_copy(ret->product_name, sizeof(ret->product_name), card->model.name);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_vbios_info(void *handle, struct sk_amd_vbios_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_vbios_info){.part_number = "SIM"};
	sk_amd_copy(ret->name, sizeof(ret->name), card->model.name);
	sk_amd_copy(ret->version, sizeof(ret->version), card->model.firmware);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_driver_info(void *handle, struct sk_amd_driver_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_driver_info){.driver_name = "amdgpu"};
	sk_amd_copy(ret->driver_version, sizeof(ret->driver_version), card->model.driver);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_vram_info(void *handle, struct sk_amd_vram_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_vram_info){
		.vram_type = FORM_HBM3,
		.vram_vendor = "SIM",
		.vram_size = card->model.memory_bytes / MIB,
		.vram_bit_width = UINT32_MAX,
		.vram_max_bandwidth = card->model.bandwidth_gb_s,
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_vram_usage(void *handle, struct sk_amd_vram_usage *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_vram_usage){
		.vram_total = (uint32_t)(card->model.memory_bytes / MIB),
		.vram_used = (uint32_t)(card->now.memory_used / MIB),
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* Size of video memory, all of it visible to the host; there is no GTT. */
static uint32_t memory(const char *function, void *handle, uint32_t type, bool used, uint64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	if (type != SK_AMD_MEMORY_VRAM && type != SK_AMD_MEMORY_VISIBLE) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	*ret = used ? card->now.memory_used : card->model.memory_bytes;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_memory_total(void *handle, uint32_t type, uint64_t *ret)
{
	return memory(__func__, handle, type, false, ret);
}

SK_AMD_API amdsmi_get_gpu_memory_usage(void *handle, uint32_t type, uint64_t *ret)
{
	return memory(__func__, handle, type, true, ret);
}

static uint32_t small(const char *function, void *handle,
		      uint32_t (*of)(const struct sk_sim_card *), uint16_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	*ret = (uint16_t)of(card);
	return sk_amd_end(SK_AMD_SUCCESS);
}

static uint32_t revision_of(const struct sk_sim_card *card)
{
	return 0;
}

SK_AMD_API amdsmi_get_gpu_id(void *handle, uint16_t *ret)
{
	return small(__func__, handle, device_of, ret);
}

SK_AMD_API amdsmi_get_gpu_revision(void *handle, uint16_t *ret)
{
	return small(__func__, handle, revision_of, ret);
}

SK_AMD_API amdsmi_get_gpu_subsystem_id(void *handle, uint16_t *ret)
{
	return small(__func__, handle, subsystem_of, ret);
}

uint32_t sk_amd_xcds(const struct sk_sim_card *card)
{
	enum { UNITS = 38, MOST = 8 };
	uint32_t count = card->model.units / UNITS;

	return count > MOST ? MOST : count ? count : 1;
}

SK_AMD_API amdsmi_get_gpu_xcd_counter(void *handle, uint16_t *ret)
{
	return small(__func__, handle, sk_amd_xcds, ret);
}

static uint32_t text(const char *function, void *handle, uint64_t bytes, const char *said,
		     char *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	if (bytes <= strlen(said)) {
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	}
	sk_amd_copy(ret, bytes, said);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_vendor_name(void *handle, char *ret, uint64_t bytes)
{
	return text(__func__, handle, bytes, "Advanced Micro Devices Inc. [AMD/ATI]", ret);
}

SK_AMD_API amdsmi_get_gpu_vram_vendor(void *handle, char *ret, uint32_t bytes)
{
	return text(__func__, handle, bytes, "SIM", ret);
}

SK_AMD_API amdsmi_get_gpu_virtualization_mode(void *handle, uint32_t *ret)
{
	enum { BAREMETAL = 1 };
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = BAREMETAL;
	return sk_amd_end(SK_AMD_SUCCESS);
}
