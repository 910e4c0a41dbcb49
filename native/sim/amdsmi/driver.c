/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the simulated libamd_smi.so, its handles, and the gate of every call, where the
 * node counts, delays and fails it. Statuses of faults are those that the real library makes of the
 * kernel's answers: unreadable sysfs files of a dead card are UNEXPECTED_DATA (rocm_smi_lib issue
 * 85), a missing module is DRIVER_NOT_LOADED.
 */
#include "sim/amdsmi/driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) const char stoker_sim_driver[] = "SIM amdsmi";

static struct {
	struct sk_sim_node *node;
	char path[4096]; /* path of the node, which stays mapped when unused */
	uint32_t users;
	uint32_t count;
	uint8_t index[SK_SIM_CARDS];   /* place -> card of the node */
	uint32_t handle[SK_SIM_CARDS]; /* what handles point at */
} amd;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	uint32_t code;
	const char *text;
} STATUS[] = {
	{SK_AMD_SUCCESS, "AMDSMI_STATUS_SUCCESS: Call succeeded."},
	{SK_AMD_INVAL, "AMDSMI_STATUS_INVAL: Invalid parameters."},
	{SK_AMD_NOT_SUPPORTED, "AMDSMI_STATUS_NOT_SUPPORTED: Command not supported."},
	{SK_AMD_NO_PERM, "AMDSMI_STATUS_NO_PERM: Permission denied."},
	{SK_AMD_INPUT_OUT_OF_BOUNDS, "AMDSMI_STATUS_INPUT_OUT_OF_BOUNDS: Out of the range."},
	{SK_AMD_INIT_ERROR, "AMDSMI_STATUS_INIT_ERROR: Initialization failed."},
	{SK_AMD_BUSY, "AMDSMI_STATUS_BUSY: Device is busy."},
	{SK_AMD_NOT_FOUND, "AMDSMI_STATUS_NOT_FOUND: Device not found."},
	{SK_AMD_NOT_INIT, "AMDSMI_STATUS_NOT_INIT: Device not initialized."},
	{SK_AMD_DRIVER_NOT_LOADED, "AMDSMI_STATUS_DRIVER_NOT_LOADED: Driver not loaded."},
	{SK_AMD_NO_DATA, "AMDSMI_STATUS_NO_DATA: No data was found."},
	{SK_AMD_INSUFFICIENT_SIZE, "AMDSMI_STATUS_INSUFFICIENT_SIZE: Not enough room."},
	{SK_AMD_UNEXPECTED_SIZE, "AMDSMI_STATUS_UNEXPECTED_SIZE: Size of data read differs."},
	{SK_AMD_UNEXPECTED_DATA, "AMDSMI_STATUS_UNEXPECTED_DATA: Data read was unexpected."},
	{(uint32_t)SK_AMD_UNKNOWN_ERROR, "AMDSMI_STATUS_UNKNOWN_ERROR: An unknown error occurred."},
};

struct sk_sim_node *sk_amd_node(void)
{
	return amd.node;
}

bool sk_amd_begun(void)
{
	return amd.users;
}

uint32_t sk_amd_count(void)
{
	return amd.count;
}

struct sk_sim_card *sk_amd_card(uint32_t place)
{
	return &amd.node->card[amd.index[place]];
}

void *sk_amd_handle(uint32_t place)
{
	return &amd.handle[place];
}

static bool place_of(const void *handle, uint32_t *ret)
{
	for (uint32_t place = 0; place < amd.count; place++) {
		if (handle == &amd.handle[place]) {
			*ret = place;
			return true;
		}
	}
	return false;
}

struct sk_sim_card *sk_amd_from(const void *handle)
{
	uint32_t place;

	return place_of(handle, &place) ? sk_amd_card(place) : NULL;
}

uint32_t sk_amd_place(const struct sk_sim_card *card)
{
	for (uint32_t place = 0; place < amd.count; place++) {
		if (card == sk_amd_card(place))
			return place;
	}
	return UINT32_MAX;
}

uint64_t sk_amd_now_ns(void)
{
	return amd.node->now_ns;
}

void sk_amd_copy(char *to, uint64_t bytes, const char *from)
{
	if (bytes)
		snprintf(to, bytes, "%s", from);
}

union sk_amd_bdf sk_amd_bdf(const struct sk_sim_card *card)
{
	unsigned domain = 0, bus = 0, device = 0, function = 0;
	union sk_amd_bdf bdf = {.as_uint = 0};

	sscanf(card->model.bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function);
	bdf.bdf.domain_number = domain;
	bdf.bdf.bus_number = bus;
	bdf.bdf.device_number = device;
	bdf.bdf.function_number = function;
	return bdf;
}

static uint32_t status_of(enum sk_sim_answer answer, int64_t error)
{
	switch (answer) {
	case SK_SIM_ANSWER_OK:
		return SK_AMD_SUCCESS;
	case SK_SIM_ANSWER_LOST:
		return SK_AMD_UNEXPECTED_DATA;
	case SK_SIM_ANSWER_REFUSED:
		return SK_AMD_NO_PERM;
	case SK_SIM_ANSWER_RELOADED:
		return SK_AMD_DRIVER_NOT_LOADED;
	case SK_SIM_ANSWER_VERSION:
		return SK_AMD_UNEXPECTED_SIZE;
	case SK_SIM_ANSWER_ERROR:
		return error ? (uint32_t)error : (uint32_t)SK_AMD_UNKNOWN_ERROR;
	case SK_SIM_ANSWER_UNINITIALIZED:
		return SK_AMD_NOT_INIT;
	}
	return SK_AMD_NOT_INIT;
}

/* Pass the node's gate; then the node is locked and the card is at the present. */
static uint32_t pass(const char *function, uint32_t index)
{
	int64_t error = 0;
	enum sk_sim_answer answer = sk_sim_node_call_enter(amd.node, function, index, &error);

	return status_of(answer, error);
}

uint32_t sk_amd_begin_all(const char *function, const void *out)
{
	if (!amd.users)
		return SK_AMD_NOT_INIT;
	return out ? pass(function, UINT32_MAX) : SK_AMD_INVAL;
}

uint32_t sk_amd_begin(const char *function, void *handle, const void *out, struct sk_sim_card **ret)
{
	uint32_t place, status;

	if (!amd.users)
		return SK_AMD_NOT_INIT;
	if (!handle || !out) {
		return SK_AMD_INVAL;
	}
	if (!place_of(handle, &place))
		return SK_AMD_NOT_FOUND;
	status = pass(function, amd.index[place]);
	*ret = sk_amd_card(place);
	return status;
}

uint32_t sk_amd_begin_set(const char *function, void *handle, struct sk_sim_card **ret)
{
	uint32_t status = sk_amd_begin(function, handle, ret, ret);

	if (!status && geteuid() != 0 && !amd.node->open)
		return sk_amd_end(SK_AMD_NO_PERM);
	return status;
}

uint32_t sk_amd_end(uint32_t status)
{
	sk_sim_node_leave(amd.node);
	return status;
}

static uint32_t find_cards(const struct sk_sim_node *node)
{
	uint32_t count = 0;

	for (uint32_t index = 0; index < sk_sim_node_cards(node); index++) {
		if (node->card[index].model.vendor == SK_SIM_AMD)
			amd.index[count++] = (uint8_t)index;
	}
	return count;
}

/* Map the node that the environment names now, since it may have changed since the last init. */
static bool open_node(void)
{
	const char *path = getenv(SK_SIM_VARIABLE);
	struct sk_sim_node *node = NULL;

	if (!path || strlen(path) >= sizeof(amd.path))
		return false;
	if (amd.node && !strcmp(path, amd.path))
		return true;
	if (sk_sim_node_open(path, &node))
		return false;
	if (amd.node)
		sk_sim_node_close(amd.node);
	amd.count = find_cards(node);
	amd.node = node;
	strcpy(amd.path, path);
	return true;
}

static uint32_t init(const char *function)
{
	uint32_t status;

	if (!amd.users && !open_node())
		return SK_AMD_DRIVER_NOT_LOADED;
	status = pass(function, UINT32_MAX);
	if (status)
		return status;
	sk_amd_end(status);
	if (!amd.count)
		return SK_AMD_DRIVER_NOT_LOADED;
	amd.users++;
	return status;
}

SK_AMD_API amdsmi_init(uint64_t flags)
{
	uint32_t status;

	pthread_mutex_lock(&opening);
	status = init(__func__);
	pthread_mutex_unlock(&opening);
	return status;
}

SK_AMD_API amdsmi_shut_down(void)
{
	uint32_t status;

	pthread_mutex_lock(&opening);
	status = sk_amd_begin_all(__func__, &amd);
	if (!status) {
		sk_amd_end(status);
		amd.users--;
	}
	pthread_mutex_unlock(&opening);
	return status;
}

SK_AMD_API amdsmi_get_lib_version(struct sk_amd_version *ret)
{
	if (!ret)
		return SK_AMD_INVAL;
	*ret = (struct sk_amd_version){.major = 26, .minor = 0, .release = 2, .build = "SIM"};
	return SK_AMD_SUCCESS;
}

SK_AMD_API amdsmi_status_code_to_string(uint32_t status, const char **ret)
{
	if (!ret)
		return SK_AMD_INVAL;
	*ret = STATUS[sizeof(STATUS) / sizeof(*STATUS) - 1].text;
	for (uint32_t i = 0; i < sizeof(STATUS) / sizeof(*STATUS); i++) {
		if (STATUS[i].code == status)
			*ret = STATUS[i].text;
	}
	return SK_AMD_SUCCESS;
}

/* Here a socket has one card, as on a node of OAM modules. */
SK_AMD_API amdsmi_get_socket_handles(uint32_t *count, void **ret)
{
	uint32_t status = sk_amd_begin_all(__func__, count);

	if (status)
		return status;
	for (uint32_t place = 0; ret && place < *count && place < amd.count; place++) {
		ret[place] = sk_amd_handle(place);
	}
	*count = ret && *count < amd.count ? *count : amd.count;
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* The list is made at init and never again, so that a lost card stays in it. */
SK_AMD_API amdsmi_get_processor_handles(void *socket, uint32_t *count, void **ret)
{
	uint32_t place, status = sk_amd_begin_all(__func__, socket ? count : NULL);

	if (status)
		return status;
	if (!place_of(socket, &place))
		return sk_amd_end(SK_AMD_NOT_FOUND);
	if (ret && *count)
		*ret = socket;
	*count = 1;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_processor_handles_by_type(void *socket, uint32_t type, void **ret,
						uint32_t *count)
{
	enum { AMD_GPU = 1 };
	uint32_t status;

	if (type == AMD_GPU)
		return amdsmi_get_processor_handles(socket, count, ret);
	status = sk_amd_begin_all(__func__, count);
	if (!status) {
		*count = 0;
		sk_amd_end(status);
	}
	return status;
}

SK_AMD_API amdsmi_get_processor_type(void *handle, uint32_t *ret)
{
	enum { AMD_GPU = 1 };
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = AMD_GPU;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_processor_handle_from_bdf(union sk_amd_bdf bdf, void **ret)
{
	uint32_t status = sk_amd_begin_all(__func__, ret);

	if (status)
		return status;
	for (uint32_t place = 0; place < amd.count; place++) {
		if (sk_amd_bdf(sk_amd_card(place)).as_uint == bdf.as_uint) {
			*ret = sk_amd_handle(place);
			return sk_amd_end(SK_AMD_SUCCESS);
		}
	}
	return sk_amd_end(SK_AMD_NOT_FOUND);
}
