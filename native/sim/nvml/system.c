/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of no card: versions, error texts, names of processes, and handles. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nvml/library.h"

/* Texts of the real library. */
static const struct {
	nvmlReturn_t code;
	const char *text;
} errors[] = {
	{0, "Success"},
	{1, "Uninitialized"},
	{2, "Invalid Argument"},
	{3, "Not Supported"},
	{4, "Insufficient Permissions"},
	{5, "Already Initialized"},
	{6, "Not Found"},
	{7, "Insufficient Size"},
	{8, "Insufficient External Power"},
	{9, "Driver Not Loaded"},
	{10, "Timeout"},
	{11, "Interrupt Request Issue"},
	{12, "NVML Shared Library Not Found"},
	{13, "Function Not Found"},
	{14, "Corrupted infoROM"},
	{15, "GPU is lost"},
	{16, "GPU requires restart"},
	{17, "The operating system has blocked the request."},
	{18, "RM has detected an NVML/RM version mismatch."},
	{19, "In use by another client"},
	{20, "Insufficient Memory"},
	{21, "No data"},
	{23, "Insufficient Resources"},
	{25, "Argument version mismatch"},
	{999, "Unknown Error"},
};

SK_NVML const char *nvmlErrorString(nvmlReturn_t code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == code)
			return errors[i].text;
	return "Unknown Error";
}

static const struct sk_sim_model *first(const struct sk_nvml_call *call)
{
	return &call->node->card[sk_nvml_card(call->node, 0)].model;
}

SK_NVML nvmlReturn_t nvmlSystemGetDriverVersion(char *ret, uint32_t size)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	return sk_nvml_end(&call, sk_nvml_text(ret, size, first(&call)->driver));
}

/* The library's major version is CUDA's, as in "13.580.95.05". */
SK_NVML nvmlReturn_t nvmlSystemGetNVMLVersion(char *ret, uint32_t size)
{
	char text[48];
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	snprintf(text, sizeof(text), "13.%s", first(&call)->driver);
	return sk_nvml_end(&call, sk_nvml_text(ret, size, text));
}

SK_NVML nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *ret, uint32_t size)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (ret->version != NVML_VERSION(*ret, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	snprintf(ret->branch, sizeof(ret->branch), "r%d_00", atoi(first(&call)->driver));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t cuda_version(const char *function, int *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = 13000;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *ret)
{
	return cuda_version(__func__, ret);
}

SK_NVML nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *ret)
{
	return cuda_version(__func__, ret);
}

static const char *process_name(const struct sk_sim_node *node, uint32_t pid)
{
	for (uint32_t i = 0; i < sk_sim_node_cards(node); i++)
		for (uint32_t k = 0; k < SK_SIM_PROCESSES; k++)
			if (pid && node->card[i].process[k].pid == (int32_t)pid)
				return node->card[i].process[k].name;
	return NULL;
}

SK_NVML nvmlReturn_t nvmlSystemGetProcessName(uint32_t pid, char *ret, uint32_t size)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);
	const char *name;

	if (failed)
		return failed;
	name = process_name(call.node, pid);
	if (!ret || !size)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!name)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	snprintf(ret, size, "%s", name);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t nothing(const char *function, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlSystemGetHicVersion(uint32_t *ret, void *entries)
{
	return nothing(__func__, ret);
}

SK_NVML nvmlReturn_t nvmlUnitGetCount(uint32_t *ret)
{
	return nothing(__func__, ret);
}

SK_NVML nvmlReturn_t nvmlGetExcludedDeviceCount(uint32_t *ret)
{
	return nothing(__func__, ret);
}

static nvmlReturn_t device_count(const char *function, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = sk_nvml_count(call.node);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetCount(uint32_t *ret)
{
	return device_count(__func__, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetCount_v2(uint32_t *ret)
{
	return device_count(__func__, ret);
}

/* A lost card has no handle, by any key. */
static nvmlReturn_t give(struct sk_nvml_call *call, uint32_t card, uint32_t instance,
			 nvmlDevice_t *ret)
{
	if (call->node->card[card].now.state == SK_SIM_LOST)
		return NVML_ERROR_GPU_IS_LOST;
	*ret = sk_nvml_handle(card, instance);
	return NVML_SUCCESS;
}

static nvmlReturn_t by_index(const char *function, uint32_t index, nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);
	uint32_t card;

	if (failed)
		return failed;
	card = sk_nvml_card(call.node, index);
	if (!ret || card == UINT32_MAX)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	return sk_nvml_end(&call, give(&call, card, 0, ret));
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByIndex(uint32_t index, nvmlDevice_t *ret)
{
	return by_index(__func__, index, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(uint32_t index, nvmlDevice_t *ret)
{
	return by_index(__func__, index, ret);
}

typedef bool (*sk_nvml_fits)(const struct sk_sim_card *card, const char *text);

static nvmlReturn_t by_text(const char *function, const char *text, sk_nvml_fits fits,
			    nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, function);

	if (failed)
		return failed;
	if (!text || !ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	for (uint32_t i = 0; i < sk_nvml_count(call.node); i++) {
		uint32_t card = sk_nvml_card(call.node, i);

		if (fits(&call.node->card[card], text))
			return sk_nvml_end(&call, give(&call, card, 0, ret));
	}
	return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
}

static bool fits_serial(const struct sk_sim_card *card, const char *text)
{
	return !strcmp(card->model.serial, text);
}

/* "0000:3B:00.0", "00000000:3b:00.0" and "3b:00.0" are one bus. */
static bool fits_bus(const struct sk_sim_card *card, const char *text)
{
	uint32_t domain, bus, device, given[3] = {0};

	sk_nvml_bus(&card->model, &domain, &bus, &device);
	if (sscanf(text, "%x:%x:%x", &given[0], &given[1], &given[2]) != 3) {
		given[0] = 0;
		if (sscanf(text, "%x:%x", &given[1], &given[2]) != 2)
			return false;
	}
	return given[0] == domain && given[1] == bus && given[2] == device;
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *ret)
{
	return by_text(__func__, serial, fits_serial, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *ret)
{
	return by_text(__func__, bus, fits_bus, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *ret)
{
	return by_text(__func__, bus, fits_bus, ret);
}

static nvmlReturn_t find_uuid(struct sk_nvml_call *call, const char *uuid, nvmlDevice_t *ret)
{
	for (uint32_t i = 0; i < sk_nvml_count(call->node); i++) {
		uint32_t at = sk_nvml_card(call->node, i);
		const struct sk_sim_card *card = &call->node->card[at];

		if (!strcmp(card->model.uuid, uuid))
			return give(call, at, 0, ret);
		for (uint32_t k = 0; k < SK_SIM_PARTITIONS; k++)
			if (card->partition[k].compute && !strcmp(card->partition[k].uuid, uuid))
				return give(call, at, k + 1, ret);
	}
	return NVML_ERROR_NOT_FOUND;
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!uuid || !ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	return sk_nvml_end(&call, find_uuid(&call, uuid, ret));
}

/* Sixteen bytes as the hexadecimal digits of "GPU-..." say them. */
static void uuid_of_bytes(const unsigned char *bytes, char *ret)
{
	char *at = ret + sprintf(ret, "GPU-");

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			      bytes[i]);
}

SK_NVML nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *ret)
{
	enum { ASCII = 1, BINARY = 2 };
	char text[64] = "";
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin(&call, __func__);

	if (failed)
		return failed;
	if (!uuid || !ret || (uuid->type != ASCII && uuid->type != BINARY))
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (uuid->version != NVML_VERSION(*uuid, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (uuid->type == ASCII)
		snprintf(text, sizeof(text), "%.*s", (int)sizeof(uuid->value.str), uuid->value.str);
	else
		uuid_of_bytes(uuid->value.bytes, text);
	return sk_nvml_end(&call, find_uuid(&call, text, ret));
}
