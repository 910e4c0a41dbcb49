/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their clocks.
 *
 * A device counts ticks of its own. Stamps of kernels are the low bits of that count (32 bits on
 * many devices, which wrap within minutes). At least once a second the counter is read between two
 * readings of CLOCK_MONOTONIC, which gives offset, drift and error. A stamp is the tick with those
 * low bits that is nearest to the newest reading.
 */
#include "levelzero/levelzero.h"

#include <stdio.h>
#include <string.h>

static const uint64_t SECOND = 1000000000;

enum { READINGS = 6, TYPE_GPU = 4, TYPE_OTHER = 8 };

static uint64_t mask_of(uint32_t bits)
{
	return bits == 0 || bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

/* The id under which the node knows the device: its UUID, without a prefix. */
static void uuid_text(const uint8_t uuid[16], char ret[64])
{
	int used = 0;

	for (int i = 0; i < 16; i++)
		used += snprintf(ret + used, 64 - (size_t)used, "%s%02x",
				 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static bool describe(struct sk_levelzero_device *device, sk_levelzero_handle handle)
{
	struct sk_levelzero_device_properties found = {.type = SK_LEVELZERO_DEVICE_PROPERTIES};
	char id[64];

	if (sk_levelzero.call.properties(handle, &found) || !found.timer_hz)
		return false;
	found.name[SK_LEVELZERO_NAME_BYTES - 1] = 0;
	uuid_text(found.uuid, id);
	*device = (struct sk_levelzero_device){
		.handle = handle,
		.hz = found.timer_hz,
		.mask = mask_of(found.timestamp_bits),
		.kernel_mask = mask_of(found.kernel_timestamp_bits),
		.row = sk_tracer_device(id, found.name,
					found.device_type == SK_LEVELZERO_TYPE_GPU ? TYPE_GPU
										   : TYPE_OTHER),
	};
	return device->row != SK_NO_DEVICE;
}

uint8_t sk_levelzero_device_number(sk_levelzero_handle handle)
{
	for (uint32_t number = 0; number < sk_levelzero.device_count; number++)
		if (sk_levelzero.devices[number].handle == handle)
			return (uint8_t)number;
	if (sk_levelzero.device_count == SK_LEVELZERO_DEVICES ||
	    !describe(&sk_levelzero.devices[sk_levelzero.device_count], handle)) {
		atomic_fetch_add_explicit(&sk_tracer->segment->header.devices_refused, 1,
					  memory_order_relaxed);
		return SK_LEVELZERO_DEVICES;
	}
	sk_levelzero_device_fit(&sk_levelzero.devices[sk_levelzero.device_count], sk_tracer_now());
	return (uint8_t)sk_levelzero.device_count++;
}

/* The newest reading continues the one before; at most half of a wrap has passed. */
static uint64_t unwrap(uint64_t known, uint64_t reading, uint64_t mask)
{
	uint64_t ahead = (reading - known) & mask;

	return mask != UINT64_MAX && ahead > mask / 2 ? known - (mask + 1 - ahead) : known + ahead;
}

static uint64_t to_ns(const struct sk_levelzero_device *device, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * SECOND / device->hz);
}

static bool read_device(void *state, uint64_t *ret)
{
	struct sk_levelzero_device *device = state;
	uint64_t host, ticks;

	if (sk_levelzero.call.timestamps(device->handle, &host, &ticks))
		return false;
	device->ticks = device->fitted_ns
				? unwrap(device->ticks, ticks & device->mask, device->mask)
				: ticks & device->mask;
	*ret = to_ns(device, device->ticks);
	return true;
}

/* Fit once a second, or eight times while stamps wrap once. */
static uint64_t period(const struct sk_levelzero_device *device)
{
	uint64_t wrap = to_ns(device, device->kernel_mask);

	return wrap / 8 < SECOND ? wrap / 8 : SECOND;
}

void sk_levelzero_device_fit(struct sk_levelzero_device *device, uint64_t now_ns)
{
	struct sk_clock_pair pair;

	if (device->fitted_ns && now_ns - device->fitted_ns < period(device))
		return;
	if (!sk_clock_bracket(read_device, device, READINGS, &pair))
		return;
	/* A stamp may be off by one more tick. */
	pair.error_ns += SECOND / device->hz;
	sk_clock_fit_add(&device->fit, &pair);
	sk_clock_fit_row(&device->fit, &device->line);
	device->fitted_ns = now_ns;
	sk_tracer_clock(device->row, "device, by Level Zero", device->line.offset_ns,
			device->line.has_drift ? device->line.drift_ppb : 0, device->line.error_ns);
}

uint64_t sk_levelzero_device_place(const struct sk_levelzero_device *device, uint64_t stamp)
{
	uint64_t ticks = unwrap(device->ticks, stamp & device->kernel_mask, device->kernel_mask);

	return sk_clock_row_place(&device->line, to_ns(device, ticks));
}
