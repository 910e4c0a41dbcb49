/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By this symbol a program knows that the library is simulated. */
SK_NVML const char stoker_sim_driver[] = "SIM: stoker's simulated NVML";

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct sk_sim_node *node;
static char node_path[4096];
static uint32_t users;	      /* inits less shutdowns */
static uint64_t reloads_seen; /* of the driver, at the last init */
static struct sk_nvml_device devices[SK_SIM_CARDS][1 + SK_SIM_PARTITIONS];

nvmlDevice_t sk_nvml_handle(uint32_t card, uint32_t instance)
{
	struct sk_nvml_device *device = &devices[card][instance];

	device->card = card;
	device->instance = instance;
	return device;
}

bool sk_nvml_is_handle(nvmlDevice_t device)
{
	const struct sk_nvml_device *first = &devices[0][0];
	size_t at = (const char *)device - (const char *)first;

	return device >= first && at < sizeof(devices) && at % sizeof(*device) == 0;
}

uint32_t sk_nvml_card(const struct sk_sim_node *of, uint32_t nvidia)
{
	for (uint32_t i = 0; i < sk_sim_node_cards(of); i++)
		if (of->card[i].model.vendor == SK_SIM_NVIDIA && !nvidia--)
			return i;
	return UINT32_MAX;
}

uint32_t sk_nvml_count(const struct sk_sim_node *of)
{
	uint32_t count = 0;

	while (sk_nvml_card(of, count) != UINT32_MAX)
		count++;
	return count;
}

static uint32_t nvidia_index(const struct sk_sim_node *of, uint32_t card)
{
	uint32_t index = 0;

	for (uint32_t i = 0; i < card; i++)
		index += of->card[i].model.vendor == SK_SIM_NVIDIA;
	return index;
}

static nvmlReturn_t code_of(enum sk_sim_answer answer, int64_t error)
{
	switch (answer) {
	case SK_SIM_ANSWER_OK:
		return NVML_SUCCESS;
	case SK_SIM_ANSWER_LOST:
		return NVML_ERROR_GPU_IS_LOST;
	case SK_SIM_ANSWER_REFUSED:
		return NVML_ERROR_NO_PERMISSION;
	case SK_SIM_ANSWER_RELOADED:
		return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
	case SK_SIM_ANSWER_VERSION:
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	case SK_SIM_ANSWER_UNINITIALIZED:
		return NVML_ERROR_UNINITIALIZED;
	case SK_SIM_ANSWER_ERROR:
		break;
	}
	return error ? (nvmlReturn_t)error : NVML_ERROR_UNKNOWN;
}

static nvmlReturn_t enter(struct sk_nvml_call *call, uint32_t card, const char *function)
{
	int64_t error = 0;
	enum sk_sim_answer answer = sk_sim_node_call_enter(node, function, card, &error);

	*call = (struct sk_nvml_call){.function = function, .node = node, .index = card};
	if (answer != SK_SIM_ANSWER_OK)
		return code_of(answer, error);
	if (node->reloads == reloads_seen)
		return NVML_SUCCESS;
	sk_sim_node_leave(node);
	return NVML_ERROR_UNINITIALIZED;
}

/* A card that waits for its reset still gives its identity and the action it needs. */
static bool answers(const char *function)
{
	static const char *const parts[] = {"Name",    "UUID",		"Serial",  "PciInfo",
					    "Index",   "MinorNumber",	"BoardId", "FieldValues",
					    "MigMode", "RegisterEvents"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(function, parts[i]))
			return true;
	return false;
}

nvmlReturn_t sk_nvml_begin(struct sk_nvml_call *call, const char *function)
{
	call->card = NULL;
	return users ? enter(call, UINT32_MAX, function) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t sk_nvml_begin_gpu_instance(struct sk_nvml_call *call, nvmlDevice_t device,
					const char *function)
{
	nvmlReturn_t failed;

	call->card = NULL;
	if (!users)
		return NVML_ERROR_UNINITIALIZED;
	if (!sk_nvml_is_handle(device) || device->card >= sk_sim_node_cards(node))
		return NVML_ERROR_INVALID_ARGUMENT;
	failed = enter(call, device->card, function);
	call->card = &node->card[device->card];
	call->instance = device->instance;
	call->nvidia = nvidia_index(node, device->card);
	if (failed)
		return failed;
	if (call->card->now.state == SK_SIM_NEEDS_RESET && !answers(function))
		return sk_nvml_end(call, NVML_ERROR_RESET_REQUIRED);
	if (call->instance && !call->card->partition[call->instance - 1].used)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_SUCCESS;
}

nvmlReturn_t sk_nvml_begin_any(struct sk_nvml_call *call, nvmlDevice_t device, const char *function)
{
	nvmlReturn_t failed = sk_nvml_begin_gpu_instance(call, device, function);

	if (failed || !call->instance || call->card->partition[call->instance - 1].compute)
		return failed;
	return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t sk_nvml_begin_card(struct sk_nvml_call *call, nvmlDevice_t device,
				const char *function)
{
	nvmlReturn_t failed = sk_nvml_begin_any(call, device, function);

	if (failed || !call->instance)
		return failed;
	return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t sk_nvml_begin_setting(struct sk_nvml_call *call, nvmlDevice_t device,
				   const char *function)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	return failed ? failed : sk_nvml_privileged(call);
}

nvmlReturn_t sk_nvml_privileged(struct sk_nvml_call *call)
{
	if (call->node->open || !geteuid())
		return NVML_SUCCESS;
	return sk_nvml_end(call, NVML_ERROR_NO_PERMISSION);
}

nvmlReturn_t sk_nvml_end(struct sk_nvml_call *call, nvmlReturn_t code)
{
	if (code == NVML_ERROR_NOT_SUPPORTED)
		sk_sim_node_note_not_supported(call->node, call->function);
	sk_sim_node_leave(call->node);
	return code;
}

uint64_t sk_nvml_us(const struct sk_sim_node *of, uint64_t at_ns)
{
	return (of->epoch_ns + at_ns) / 1000;
}

nvmlReturn_t sk_nvml_text(char *to, uint32_t size, const char *text)
{
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= size)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

void sk_nvml_bus(const struct sk_sim_model *model, uint32_t *domain, uint32_t *bus,
		 uint32_t *device)
{
	*domain = *bus = *device = 0;
	sscanf(model->bus_id, "%x:%x:%x", domain, bus, device);
}

nvmlReturn_t sk_nvml_absent(const char *function)
{
	if (!users)
		return NVML_ERROR_UNINITIALIZED;
	sk_sim_node_not_supported(node, function);
	return NVML_ERROR_NOT_SUPPORTED;
}

/* Map the node that the environment names now, since it may have changed since the last init. */
static nvmlReturn_t open_node(void)
{
	const char *path = getenv(SK_SIM_VARIABLE);

	if (!path || strlen(path) >= sizeof(node_path))
		return NVML_ERROR_DRIVER_NOT_LOADED;
	if (node && strcmp(path, node_path)) {
		sk_sim_node_close(node);
		node = NULL;
	}
	if (!node && sk_sim_node_open(path, &node)) {
		node = NULL;
		return NVML_ERROR_DRIVER_NOT_LOADED;
	}
	strcpy(node_path, path);
	return sk_nvml_count(node) ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

static nvmlReturn_t init(const char *function)
{
	int64_t error = 0;
	enum sk_sim_answer answer;
	nvmlReturn_t failed = users ? NVML_SUCCESS : open_node();

	if (failed)
		return failed;
	answer = sk_sim_node_call(node, function, UINT32_MAX, &error);
	failed = code_of(answer, error);
	if (failed)
		return failed;
	sk_sim_node_enter(node);
	reloads_seen = node->reloads;
	sk_sim_node_leave(node);
	users++;
	return NVML_SUCCESS;
}

static nvmlReturn_t init_locked(const char *function)
{
	nvmlReturn_t code;

	pthread_mutex_lock(&opening);
	code = init(function);
	pthread_mutex_unlock(&opening);
	return code;
}

SK_NVML nvmlReturn_t nvmlInit(void)
{
	return init_locked(__func__);
}

SK_NVML nvmlReturn_t nvmlInit_v2(void)
{
	return init_locked(__func__);
}

SK_NVML nvmlReturn_t nvmlInitWithFlags(uint32_t flags)
{
	return init_locked(__func__);
}

SK_NVML nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t code = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&opening);
	if (users) {
		users--;
		code = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&opening);
	return code;
}
