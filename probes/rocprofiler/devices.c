/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of the runtime as devices of the segment. A row is made at the first record of a device,
 * so a device that the job never uses takes none. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_GPU = 4, TYPE_CPU = 2 };

/* Find the id under which the node knows the GPU of a render node. The agent tells it to its jobs
 * as MINOR=ID,..., because no field of the runtime has it; each partition has a render node. */
static bool find_id(uint32_t minor, char ret[64])
{
	const char *at = getenv("STOKER_RENDER_NODES");

	while (at && *at) {
		char *end;
		unsigned long found = strtoul(at, &end, 10);

		if (end == at || *end != '=')
			return false;
		size_t length = strcspn(++end, ",");

		if (found == minor && length && length < 64) {
			snprintf(ret, 64, "%.*s", (int)length, end);
			return true;
		}
		at = end + length;
		at += *at == ',';
	}
	return false;
}

static void keep(const struct sk_rocp_agent *agent)
{
	struct sk_rocp_device *device = &sk_rocp.devices[sk_rocp.device_count];
	bool is_gpu = agent->type == SK_ROCP_AGENT_GPU;
	const char *name = agent->product && *agent->product ? agent->product : agent->name;

	device->agent = agent->id.handle;
	device->type = is_gpu ? TYPE_GPU : TYPE_CPU;
	if (!is_gpu || !find_id(agent->render_minor, device->id))
		snprintf(device->id, sizeof(device->id), "%s-%d", is_gpu ? "amd" : "amd-cpu",
			 agent->logical_node_of_type);
	snprintf(device->name, sizeof(device->name), "%s", name ? name : "AMD");
	sk_rocp.device_count++;
}

static int on_agents(uint32_t version, const void **agents, size_t count, void *data)
{
	for (size_t i = 0; i < count && sk_rocp.device_count < SK_ROCP_AGENTS; i++) {
		const struct sk_rocp_agent *agent = agents[i];

		if (agent->size >= sizeof(*agent))
			keep(agent);
	}
	return 0;
}

void sk_rocp_find_devices(void)
{
	/* The given size covers the fields that are used; the library's agent may be larger. */
	sk_rocp.call.agents(SK_ROCP_AGENT_VERSION_0, on_agents, sizeof(struct sk_rocp_agent), NULL);
}

static struct sk_rocp_device *find(uint64_t agent)
{
	for (uint32_t i = 0; i < sk_rocp.device_count; i++)
		if (sk_rocp.devices[i].agent == agent)
			return &sk_rocp.devices[i];
	return NULL;
}

unsigned sk_rocp_device_row(uint64_t agent)
{
	struct sk_rocp_device *device = find(agent);

	if (!device)
		return SK_NO_DEVICE;
	if (!device->row)
		device->row = sk_tracer_device(device->id, device->name, device->type) + 1;
	return device->row - 1;
}

uint64_t sk_rocp_copy_agent(uint32_t operation, uint64_t to, uint64_t from)
{
	return operation == SK_ROCP_COPY_DEVICE_TO_HOST ? from : to;
}

unsigned sk_rocp_copy_kind(uint32_t operation)
{
	if (operation == SK_ROCP_COPY_HOST_TO_DEVICE)
		return SK_KIND_WRITE;
	return operation == SK_ROCP_COPY_DEVICE_TO_HOST ? SK_KIND_READ : SK_KIND_COPY;
}
