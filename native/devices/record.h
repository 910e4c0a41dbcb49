/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The record of one card: all numbers and lists that are read while jobs run.
 *
 * A vendor's table (vendor.h) fills it, the reader (card_reader.h) publishes it, agent/devices
 * turns it into readings. Units are those of agent/devices/fields.py. Invariant: a field has either
 * a value (code 0), or the call and the code that say why it has none. Memory: fixed size, no
 * pointers. Threads: whoever holds the record.
 */
#ifndef SK_DEVICES_RECORD_H
#define SK_DEVICES_RECORD_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/** X(identifier, name in agent/devices/fields.py, kind of its value). */
#define SK_DEVICE_FIELD_TABLE(X)                                                                   \
	X(POWER, power_w, REAL)                                                                    \
	X(POWER_AVERAGE, power_average_w, REAL)                                                    \
	X(ENERGY, energy_j, REAL)                                                                  \
	X(ENERGY_POWER, energy_power_w, REAL)                                                      \
	X(TEMPERATURE, temperature_c, REAL)                                                        \
	X(MEMORY_TEMPERATURE, memory_temperature_c, REAL)                                          \
	X(BUSY, busy_ratio, REAL)                                                                  \
	X(MEMORY_BUSY, memory_busy_ratio, REAL)                                                    \
	X(CLOCK, clock_hz, WHOLE)                                                                  \
	X(MEMORY_CLOCK, memory_clock_hz, WHOLE)                                                    \
	X(THROTTLE, throttle, BITS)                                                                \
	X(HOTSPOT_TEMPERATURE, hotspot_temperature_c, REAL)                                        \
	X(MEMORY_USED, memory_used_bytes, WHOLE)                                                   \
	X(MEMORY_FREE, memory_free_bytes, WHOLE)                                                   \
	X(MEMORY_BANDWIDTH, memory_bandwidth_ratio, REAL)                                          \
	X(SM, sm_ratio, REAL)                                                                      \
	X(TENSOR, tensor_ratio, REAL)                                                              \
	X(POWER_LIMIT, power_limit_w, REAL)                                                        \
	X(CLOCK_LIMIT, clock_limit_hz, WHOLE)                                                      \
	X(FAN, fan_ratio, REAL)                                                                    \
	X(FAN_RPM, fan_rpm, WHOLE)                                                                 \
	X(THROTTLE_TIME, throttle_ns, WHOLE)                                                       \
	X(THROTTLE_POWER, throttle_power_ns, WHOLE)                                                \
	X(THROTTLE_THERMAL, throttle_thermal_ns, WHOLE)                                            \
	X(THROTTLE_HARD_THERMAL, throttle_hard_thermal_ns, WHOLE)                                  \
	X(THROTTLE_BRAKE, throttle_brake_ns, WHOLE)                                                \
	X(THROTTLE_SYNC, throttle_sync_ns, WHOLE)                                                  \
	X(THROTTLE_BOARD, throttle_board_ns, WHOLE)                                                \
	X(THROTTLE_RELIABILITY, throttle_reliability_ns, WHOLE)                                    \
	X(ECC_ENABLED, ecc_enabled, FLAG)                                                          \
	X(ECC_CORRECTED, ecc_corrected, WHOLE)                                                     \
	X(ECC_UNCORRECTED, ecc_uncorrected, WHOLE)                                                 \
	X(ECC_CORRECTED_TOTAL, ecc_corrected_total, WHOLE)                                         \
	X(ECC_UNCORRECTED_TOTAL, ecc_uncorrected_total, WHOLE)                                     \
	X(RETIRED_PAGES, retired_pages, WHOLE)                                                     \
	X(RETIRED_PENDING, retired_pending, FLAG)                                                  \
	X(REMAPPED_ROWS, remapped_rows, WHOLE)                                                     \
	X(REMAP_PENDING, remap_pending, FLAG)                                                      \
	X(REMAP_FAILED, remap_failed, FLAG)                                                        \
	X(RECOVERY_ACTION, recovery_action, WHOLE)                                                 \
	X(PCIE_GEN, pcie_gen, WHOLE)                                                               \
	X(PCIE_WIDTH, pcie_width, WHOLE)                                                           \
	X(PCIE_TX, pcie_tx_bytes, WHOLE)                                                           \
	X(PCIE_RX, pcie_rx_bytes, WHOLE)                                                           \
	X(PCIE_REPLAYS, pcie_replays, WHOLE)                                                       \
	X(LINKS, links, LIST)                                                                      \
	X(POWER_SAMPLES, power_samples_w, LIST)                                                    \
	X(PROCESSES, processes, LIST)

enum sk_device_field_id {
#define X(id, name, kind) SK_DEVICE_##id,
	SK_DEVICE_FIELD_TABLE(X)
#undef X
		SK_DEVICE_FIELDS
};

enum sk_device_kind {
	SK_DEVICE_REAL,
	SK_DEVICE_WHOLE,
	SK_DEVICE_FLAG,
	SK_DEVICE_BITS, /* enum sk_device_reason */
	SK_DEVICE_LIST, /* the value is the number of rows */
};

/** Reasons for a clock below the highest, as bits of `throttle`; agent/devices/fields.py has the
 * words. */
enum sk_device_reason {
	SK_DEVICE_IDLE = 1 << 0,
	SK_DEVICE_APPLICATION_CLOCKS = 1 << 1,
	SK_DEVICE_AT_POWER_LIMIT = 1 << 2,
	SK_DEVICE_HARDWARE_SLOWDOWN = 1 << 3,
	SK_DEVICE_SYNC_BOOST = 1 << 4,
	SK_DEVICE_THERMAL = 1 << 5,
	SK_DEVICE_HARD_THERMAL = 1 << 6,
	SK_DEVICE_POWER_BRAKE = 1 << 7,
	SK_DEVICE_DISPLAY_CLOCKS = 1 << 8,
	SK_DEVICE_AT_CURRENT_LIMIT = 1 << 9,
	SK_DEVICE_HARDWARE_RANGE = 1 << 10,
	SK_DEVICE_VOLTAGE = 1 << 11,
	/* Reasons that mean a fault. */
	SK_DEVICE_FAULTS =
		SK_DEVICE_HARDWARE_SLOWDOWN | SK_DEVICE_HARD_THERMAL | SK_DEVICE_POWER_BRAKE,
};

/** Codes of stoker itself; a driver's own codes are positive. */
enum sk_device_absence {
	SK_DEVICE_NOT_READ = -1,       /* this vendor's table does not fill it */
	SK_DEVICE_FIRST = -2,	       /* it is the difference of two rounds */
	SK_DEVICE_TOO_EARLY = -3,      /* the counter was not read for a second yet */
	SK_DEVICE_NOT_KNOWN = -4,      /* the driver does not know it */
	SK_DEVICE_NONE = -5,	       /* there is no domain, sensor or port of this kind */
	SK_DEVICE_NOT_THERE = -6,      /* the library lacks the function */
	SK_DEVICE_INCOMPLETE = -7,     /* a part of the card cannot be read */
	SK_DEVICE_NOT_APPLICABLE = -8, /* the driver marks it as not applicable */
};

enum {
	SK_DEVICE_NO_CALL = 0xffff,
	SK_DEVICE_LINKS_MAX = 64,
	SK_DEVICE_PROCESSES_MAX = 1024,
	SK_DEVICE_SAMPLES_MAX = 256, /* one answer of a driver that keeps samples */
	SK_DEVICE_NAME_BYTES = 32,
};

/** One number. */
struct sk_device_field {
	double value;
	int64_t t_ns;	 /* the driver's own stamp, CLOCK_REALTIME; 0: it was read in this round */
	int32_t code;	 /* 0: there is a value; > 0: the driver's; < 0: enum sk_device_absence */
	uint16_t call;	 /* the call with this code, an index into the vendor's names */
	uint16_t number; /* the field of a batch that the call read; or 0 */
	uint32_t window_us; /* the value is a mean over this time; 0: a moment or a counter */
	uint32_t reserved;
};

static_assert(sizeof(struct sk_device_field) == 32, "agent/devices/record.py unpacks it");

/** One port that leads to another card. Counters are NAN where there are none. */
struct sk_device_link {
	double tx_bytes, rx_bytes, errors;
	uint64_t peer; /* the vendor's number for the other end; 0: not known */
	uint32_t port, up;
};

static_assert(sizeof(struct sk_device_link) == 40, "agent/devices/record.py unpacks it");

enum { SK_DEVICE_COMPUTE, SK_DEVICE_GRAPHICS };

struct sk_device_process {
	double memory_bytes, busy_ratio; /* NAN: not known */
	uint32_t pid, kind;
	char name[SK_DEVICE_NAME_BYTES]; /* the driver's name for it; empty: none */
};

static_assert(sizeof(struct sk_device_process) == 56, "agent/devices/record.py unpacks it");

/** One of the driver's own samples of power. */
struct sk_device_sample {
	int64_t t_ns; /* CLOCK_REALTIME */
	double watts;
};

/** Fields are filled in each round or once a second; the lists are filled once a second. */
struct sk_device_record {
	struct sk_device_field field[SK_DEVICE_FIELDS];
	uint64_t energy_ns; /* time of the energy counter by the driver's clock; 0: not known */
	struct sk_device_link link[SK_DEVICE_LINKS_MAX];
	struct sk_device_process process[SK_DEVICE_PROCESSES_MAX];
	struct sk_device_sample sample[SK_DEVICE_SAMPLES_MAX];
};

#endif
