/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the simulated CUDA driver. Figures that are not in a card's profile are those of all
 * data centre cards since 2020.
 */
#include "sim/cuda/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SK_CUDA cuDeviceGetCount(int *ret)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);

	if (result)
		return result;
	if (ret)
		*ret = (int)sk_cuda_count();
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuDeviceGet(int *ret, int ordinal)
{
	int result = sk_cuda_begin(__func__, (uint32_t)ordinal);

	if (result)
		return result == SK_CUDA_NOT_INITIALIZED ? result : SK_CUDA_INVALID_DEVICE;
	if (ret)
		*ret = ordinal;
	return sk_cuda_end(ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

SK_CUDA cuDeviceGetName(char *name, int bytes, int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!name || bytes <= 0)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	snprintf(name, (size_t)bytes, "%s", sk_cuda_card((uint32_t)device)->model.name);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static void fill_uuid(const char *text, uint8_t ret[16])
{
	uint32_t digits = 0;

	text += strncmp(text, "GPU-", 4) && strncmp(text, "MIG-", 4) ? 0 : 4;
	memset(ret, 0, 16);
	for (; *text && digits < 32; text++) {
		const char *digit = strchr("0123456789abcdef", *text);

		if (!digit)
			continue;
		ret[digits / 2] = (uint8_t)(ret[digits / 2] << 4 | (digit - "0123456789abcdef"));
		digits++;
	}
}

static int uuid_of(const char *function, uint8_t ret[16], int device, bool parts)
{
	const struct sk_sim_partition *part;
	int result = sk_cuda_begin(function, (uint32_t)device);

	if (result)
		return result;
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	part = parts ? sk_cuda_part((uint32_t)device) : NULL;
	fill_uuid(part ? part->uuid : sk_cuda_card((uint32_t)device)->model.uuid, ret);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

/* A MIG instance has its own UUID by this function, and that of its card by the older one. */
SK_CUDA cuDeviceGetUuid_v2(uint8_t ret[16], int device)
{
	return uuid_of(__func__, ret, device, true);
}

SK_CUDA cuDeviceGetUuid(uint8_t ret[16], int device)
{
	return uuid_of(__func__, ret, device, false);
}

SK_CUDA cuDeviceTotalMem_v2(size_t *ret, int device)
{
	const struct sk_sim_partition *part;
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!ret)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	part = sk_cuda_part((uint32_t)device);
	*ret = part ? part->memory_bytes : sk_cuda_card((uint32_t)device)->model.memory_bytes;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

static unsigned bus_part(const struct sk_sim_model *model, uint32_t part)
{
	unsigned parts[3] = {0};

	sscanf(model->bus_id, "%x:%x:%x", &parts[0], &parts[1], &parts[2]);
	return parts[part];
}

/* Compute capability, ten times it. */
static int capability(const struct sk_sim_model *model)
{
	static const struct {
		const char *name;
		int tenfold;
	} known[] = {{"ampere", 80}, {"ada", 89}, {"hopper", 90}, {"blackwell", 100}};

	for (uint32_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(model->architecture, known[i].name))
			return known[i].tenfold;
	return 80;
}

/* Attributes by CUdevice_attribute that all cards share. */
static const struct {
	int attribute, value;
} SAME[] = {
	{1, 1024},   {2, 1024},	  {3, 1024}, {4, 64},	  {5, INT32_MAX}, {6, 65535}, {7, 65535},
	{8, 49152},  {9, 65536},  {10, 32},  {12, 65536}, {15, 1},	  {19, 1},    {31, 1},
	{32, 1},     {39, 2048},  {40, 3},   {41, 1},	  {78, 1},	  {79, 1},    {80, 1},
	{81, 65536}, {82, 65536}, {83, 1},   {89, 1},	  {90, 1},	  {95, 1},    {97, 166912},
	{102, 1},    {103, 1},	  {106, 32}, {115, 1},
};

static int attribute_of(const struct sk_sim_model *model, int attribute)
{
	enum { CLOCK = 13, UNITS = 16, BUS = 33, SLOT = 34, MEMORY = 36, DOMAIN = 50, MAJOR = 75 };

	switch (attribute) {
	case CLOCK:
		return (int)model->clock_max_mhz * 1000;
	case UNITS:
		return (int)model->units;
	case BUS:
		return (int)bus_part(model, 1);
	case SLOT:
		return (int)bus_part(model, 2);
	case DOMAIN:
		return (int)bus_part(model, 0);
	case MEMORY:
		return (int)model->memory_mhz * 1000;
	case MAJOR:
		return capability(model) / 10;
	case MAJOR + 1:
		return capability(model) % 10;
	default:
		break;
	}
	for (uint32_t i = 0; i < sizeof(SAME) / sizeof(*SAME); i++)
		if (SAME[i].attribute == attribute)
			return SAME[i].value;
	return 0;
}

SK_CUDA cuDeviceGetAttribute(int *ret, int attribute, int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!ret || attribute <= 0)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	*ret = attribute_of(&sk_cuda_card((uint32_t)device)->model, attribute);
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);
	const char *bus;

	if (result)
		return result;
	bus = sk_cuda_card((uint32_t)device)->model.bus_id;
	if (!text || bytes < (int)sizeof("0000:00:00.0"))
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	snprintf(text, (size_t)bytes, "%s", bus + strlen(bus) - strlen("0000:00:00.0"));
	return sk_cuda_end(SK_CUDA_SUCCESS);
}

SK_CUDA cuDeviceGetByPCIBusId(int *ret, const char *text)
{
	int result = sk_cuda_begin(__func__, UINT32_MAX);
	unsigned asked[3] = {0};

	if (result)
		return result;
	if (!ret || !text || sscanf(text, "%x:%x:%x", &asked[0], &asked[1], &asked[2]) != 3)
		return sk_cuda_end(SK_CUDA_INVALID_VALUE);
	for (uint32_t device = 0; device < sk_cuda_count(); device++) {
		const struct sk_sim_model *model = &sk_cuda_card(device)->model;

		if (bus_part(model, 0) != asked[0] || bus_part(model, 1) != asked[1])
			continue;
		*ret = (int)device;
		return sk_cuda_end(SK_CUDA_SUCCESS);
	}
	return sk_cuda_end(SK_CUDA_INVALID_DEVICE);
}

SK_CUDA cuDeviceCanAccessPeer(int *ret, int device, int peer)
{
	int result = sk_cuda_begin(__func__, (uint32_t)device);

	if (result)
		return result;
	if (!ret || peer < 0 || (uint32_t)peer >= sk_cuda_count())
		return sk_cuda_end(SK_CUDA_INVALID_DEVICE);
	*ret = device != peer && sk_cuda_card((uint32_t)device)->model.link_group &&
	       sk_cuda_card((uint32_t)device)->model.link_group ==
		       sk_cuda_card((uint32_t)peer)->model.link_group;
	return sk_cuda_end(SK_CUDA_SUCCESS);
}
