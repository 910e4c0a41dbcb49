/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/node/fields.h"

#include "sim/node/node.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MEMBER(s, m) (((struct s *)0)->m)
#define FIELD(s, m, t, unit)                                                                       \
	{                                                                                          \
#m, SK_SIM_##t, offsetof(struct s, m), sizeof(MEMBER(s, m)) / sizeof(unit)         \
	}
#define U32(s, m) FIELD(s, m, U32, uint32_t)
#define I32(s, m) FIELD(s, m, I32, int32_t)
#define U64(s, m) FIELD(s, m, U64, uint64_t)
#define I64(s, m) FIELD(s, m, I64, int64_t)
#define F64(s, m) FIELD(s, m, F64, double)
#define TEXT(s, m) FIELD(s, m, TEXT, char)
#define FIELDS(name, s)                                                                            \
	const struct sk_sim_fields sk_sim_##name##_fields = {name, COUNT(name), sizeof(struct s)}

static const struct sk_sim_field model[] = {
	U32(sk_sim_model, vendor),
	U32(sk_sim_model, pci_device),
	U32(sk_sim_model, pci_subsystem),
	TEXT(sk_sim_model, name),
	TEXT(sk_sim_model, architecture),
	TEXT(sk_sim_model, serial),
	TEXT(sk_sim_model, uuid),
	TEXT(sk_sim_model, bus_id),
	TEXT(sk_sim_model, driver),
	TEXT(sk_sim_model, firmware),
	I32(sk_sim_model, minor),
	I32(sk_sim_model, numa),
	U32(sk_sim_model, link_group),
	U32(sk_sim_model, links),
	U32(sk_sim_model, link_gb_s),
	U32(sk_sim_model, switch_group),
	U32(sk_sim_model, pcie_gen),
	U32(sk_sim_model, pcie_width),
	U64(sk_sim_model, memory_bytes),
	U64(sk_sim_model, bandwidth_gb_s),
	U32(sk_sim_model, units),
	U32(sk_sim_model, clock_min_mhz),
	U32(sk_sim_model, clock_max_mhz),
	U32(sk_sim_model, clock_step_mhz),
	U32(sk_sim_model, memory_mhz),
	U32(sk_sim_model, limit_min_mw),
	U32(sk_sim_model, limit_default_mw),
	U32(sk_sim_model, limit_max_mw),
	I32(sk_sim_model, slowdown_c),
	I32(sk_sim_model, shutdown_c),
	I32(sk_sim_model, memory_max_c),
	I32(sk_sim_model, target_c),
	U32(sk_sim_model, fan_max_rpm),
	U32(sk_sim_model, flags),
};
FIELDS(model, sk_sim_model);

static const struct sk_sim_field physics[] = {
	F64(sk_sim_physics, idle_w),	       F64(sk_sim_physics, dynamic_w),
	F64(sk_sim_physics, exponent),	       F64(sk_sim_physics, leakage_w),
	F64(sk_sim_physics, leakage_per_c),    F64(sk_sim_physics, thermal_c_per_w),
	F64(sk_sim_physics, capacity_j_per_c), F64(sk_sim_physics, ambient_c),
	F64(sk_sim_physics, fan_min),	       F64(sk_sim_physics, limiter_s),
	F64(sk_sim_physics, memory_w),
};
FIELDS(physics, sk_sim_physics);

static const struct sk_sim_field sensor[] = {
	U64(sk_sim_sensor, period_ns),
	U64(sk_sim_sensor, window_ns),
	U64(sk_sim_sensor, sampled_ns),
	U64(sk_sim_sensor, delay_ns),
	F64(sk_sim_sensor, gain),
	F64(sk_sim_sensor, offset_w),
	U64(sk_sim_sensor, energy_period_ns),
	U64(sk_sim_sensor, temperature_period_ns),
};
FIELDS(sensor, sk_sim_sensor);

static const struct sk_sim_field load[] = {
	F64(sk_sim_load, compute),
	F64(sk_sim_load, memory),
	F64(sk_sim_load, bound),
};
FIELDS(load, sk_sim_load);

static const struct sk_sim_field now[] = {
	U64(sk_sim_now, at_ns),
	F64(sk_sim_now, clock_mhz),
	F64(sk_sim_now, limiter_mhz),
	F64(sk_sim_now, limit_mhz),
	F64(sk_sim_now, heat_mhz),
	F64(sk_sim_now, power_w),
	F64(sk_sim_now, die_c),
	F64(sk_sim_now, memory_c),
	F64(sk_sim_now, fan),
	F64(sk_sim_now, busy),
	F64(sk_sim_now, memory_busy),
	F64(sk_sim_now, throughput),
	F64(sk_sim_now, work),
	F64(sk_sim_now, energy_j),
	F64(sk_sim_now, busy_s),
	F64(sk_sim_now, memory_busy_s),
	F64(sk_sim_now, ambient_rise_c),
	U32(sk_sim_now, brakes),
	U32(sk_sim_now, why),
	U32(sk_sim_now, state),
	U64(sk_sim_now, why_ns),
	U32(sk_sim_now, limit_mw),
	U32(sk_sim_now, locked_min_mhz),
	U32(sk_sim_now, locked_max_mhz),
	U64(sk_sim_now, memory_used),
	F64(sk_sim_now, pcie_tx_bytes),
	F64(sk_sim_now, pcie_rx_bytes),
	U64(sk_sim_now, pcie_replays),
	F64(sk_sim_now, link_tx_bytes),
	F64(sk_sim_now, link_rx_bytes),
	F64(sk_sim_now, traffic_work),
	U32(sk_sim_now, link_down),
	U32(sk_sim_now, link_errors),
	U64(sk_sim_now, ecc_corrected),
	U64(sk_sim_now, ecc_uncorrected),
	U64(sk_sim_now, ecc_corrected_total),
	U64(sk_sim_now, ecc_uncorrected_total),
	U32(sk_sim_now, retired_pages),
	U32(sk_sim_now, retired_pending),
	U32(sk_sim_now, remapped_rows),
	U32(sk_sim_now, remap_pending),
	U32(sk_sim_now, remap_failed),
	U32(sk_sim_now, recovery),
	U32(sk_sim_now, resets),
	U32(sk_sim_now, persistence),
	U32(sk_sim_now, compute_mode),
};
FIELDS(now, sk_sim_now);

static const struct sk_sim_field process[] = {
	I32(sk_sim_process, pid),      U32(sk_sim_process, kind),
	U32(sk_sim_process, instance), U64(sk_sim_process, memory_bytes),
	F64(sk_sim_process, share),    U64(sk_sim_process, started_ns),
	TEXT(sk_sim_process, name),
};
FIELDS(process, sk_sim_process);

static const struct sk_sim_field partition[] = {
	TEXT(sk_sim_partition, profile), TEXT(sk_sim_partition, uuid),
	U32(sk_sim_partition, units),	 U64(sk_sim_partition, memory_bytes),
	U32(sk_sim_partition, instance), U32(sk_sim_partition, used),
	U32(sk_sim_partition, start),	 U32(sk_sim_partition, compute),
};
FIELDS(partition, sk_sim_partition);

static const struct sk_sim_field fault[] = {
	U32(sk_sim_fault, kind),     U32(sk_sim_fault, card),  U64(sk_sim_fault, from_ns),
	U64(sk_sim_fault, until_ns), I64(sk_sim_fault, value), U64(sk_sim_fault, count),
	TEXT(sk_sim_fault, call),    U32(sk_sim_fault, done),  U64(sk_sim_fault, given),
};
FIELDS(fault, sk_sim_fault);

static const struct sk_sim_field event[] = {
	U64(sk_sim_event, number), U64(sk_sim_event, at_ns), U32(sk_sim_event, card),
	U32(sk_sim_event, kind),   U64(sk_sim_event, value),
};
FIELDS(event, sk_sim_event);
