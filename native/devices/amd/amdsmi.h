/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * AMD SMI's functions and the structures that they fill, with the layouts of amdsmi.h (7.0). All
 * ones in an entry mean that the card does not have it.
 *
 * Memory: one table of functions for the process. Threads: any, after `sk_amd_open`.
 */
#ifndef SK_DEVICES_AMD_AMDSMI_H
#define SK_DEVICES_AMD_AMDSMI_H

#include <stddef.h>
#include <stdint.h>

enum {
	AMD_NOT_SUPPORTED = 2,
	AMD_INIT_GPUS = 1 << 1,
	AMD_VRAM = 0,  /* amdsmi_memory_type_t */
	AMD_CLOCK = 0, /* amdsmi_clk_type_t: the graphics clock */
	AMD_LINKS = 64,
	AMD_STATES = 8,
};

/* amdsmi_gpu_metrics_t up to the last entry that is read, and room for the rest. */
struct amd_metrics {
	uint16_t size;
	uint8_t format, content;
	uint16_t temperature_edge, temperature_hotspot, temperature_mem, temperature_vr[3];
	uint16_t average_gfx_activity, average_umc_activity, average_mm_activity;
	uint16_t average_socket_power;
	uint64_t energy_accumulator, system_clock_counter;
	uint16_t average_clock[7];
	uint16_t current_gfxclk, current_socclk, current_uclk, current_media[4];
	uint32_t throttle_status;
	uint16_t fan, pcie_width, pcie_speed;
	uint32_t activity_acc[2];
	uint16_t temperature_hbm[4];
	uint64_t firmware_timestamp;
	uint16_t voltage[3];
	uint64_t indep_throttle_status;
	uint16_t current_socket_power, vcn_activity[4];
	uint32_t gfxclk_lock_status;
	uint16_t xgmi_width, xgmi_speed;
	uint64_t pcie[5], xgmi_read[8], xgmi_write[8];
	uint16_t current_gfxclks[8], current_socclks[4], current_vclks[4], current_dclks[4];
	uint16_t jpeg_activity[32];
	uint32_t pcie_naks[2];
	uint64_t accumulation_counter;
	uint64_t prochot_residency_acc, ppt_residency_acc, socket_thm_residency_acc;
	uint64_t rest[1024];
};

_Static_assert(offsetof(struct amd_metrics, current_gfxclk) == 54, "amdsmi_gpu_metrics_t");
_Static_assert(offsetof(struct amd_metrics, current_socket_power) == 120, "amdsmi_gpu_metrics_t");
_Static_assert(offsetof(struct amd_metrics, current_gfxclks) == 312, "amdsmi_gpu_metrics_t");
_Static_assert(offsetof(struct amd_metrics, ppt_residency_acc) == 440, "amdsmi_gpu_metrics_t");

struct amd_asic {
	char name[256];
	uint32_t vendor;
	char vendor_name[256];
	uint32_t subvendor;
	uint64_t device;
	uint32_t revision;
	char serial[256];
	uint32_t oam, units;
	uint64_t rest[64];
};

_Static_assert(offsetof(struct amd_asic, units) == 792, "amdsmi_asic_info_t");

struct amd_cap {
	uint64_t now, usual, dpm, least, most, reserved[3];
};

struct amd_clock {
	uint32_t now, least, most;
	uint8_t locked, deep_sleep;
	uint32_t reserved[4];
};

struct amd_errors {
	uint64_t correctable, uncorrectable, deferred, reserved[5];
};

struct amd_pcie {
	uint64_t fixed[12];
	uint16_t width;
	uint32_t speed_mt, bandwidth;
	uint64_t replays, more[50];
};

_Static_assert(offsetof(struct amd_pcie, speed_mt) == 100 &&
		       offsetof(struct amd_pcie, replays) == 112 && sizeof(struct amd_pcie) >= 512,
	       "amdsmi_pcie_info_t");

struct amd_links {
	uint32_t count;
	struct {
		uint64_t bdf;
		uint32_t bit_rate, bandwidth, kind;
		uint64_t read_kb, written_kb, reserved[2];
	} link[AMD_LINKS];
	uint64_t reserved[7];
};

_Static_assert(sizeof(struct amd_links) == 3648, "amdsmi_link_metrics_t");

struct amd_states {
	uint32_t count, state[AMD_STATES];
	uint64_t reserved[7];
};

struct amd_process {
	char name[256];
	uint32_t pid;
	uint64_t memory, engines[8], gtt, cpu, vram;
	uint32_t reserved[10];
	char container[256];
	uint32_t occupied_units, more[11];
};

_Static_assert(sizeof(struct amd_process) == 704 && offsetof(struct amd_process, vram) == 352 &&
		       offsetof(struct amd_process, occupied_units) == 656,
	       "amdsmi_proc_info_t");

/** X(name, parameters) of functions that read, which take the handle first. */
#define SK_AMD_READ_TABLE(X)                                                                       \
	X(amdsmi_get_gpu_metrics_info, (void *, struct amd_metrics *))                             \
	X(amdsmi_get_energy_count, (void *, uint64_t *, float *, uint64_t *))                      \
	X(amdsmi_get_gpu_asic_info, (void *, struct amd_asic *))                                   \
	X(amdsmi_get_gpu_memory_total, (void *, uint32_t, uint64_t *))                             \
	X(amdsmi_get_gpu_memory_usage, (void *, uint32_t, uint64_t *))                             \
	X(amdsmi_get_power_cap_info, (void *, uint32_t, struct amd_cap *))                         \
	X(amdsmi_get_clock_info, (void *, uint32_t, struct amd_clock *))                           \
	X(amdsmi_get_gpu_fan_speed, (void *, uint32_t, int64_t *))                                 \
	X(amdsmi_get_gpu_fan_rpms, (void *, uint32_t, int64_t *))                                  \
	X(amdsmi_get_gpu_total_ecc_count, (void *, struct amd_errors *))                           \
	X(amdsmi_get_gpu_ecc_enabled, (void *, uint64_t *))                                        \
	X(amdsmi_get_gpu_bad_page_info, (void *, uint32_t *, void *))                              \
	X(amdsmi_get_pcie_info, (void *, struct amd_pcie *))                                       \
	X(amdsmi_get_link_metrics, (void *, struct amd_links *))                                   \
	X(amdsmi_get_gpu_xgmi_link_status, (void *, struct amd_states *))                          \
	X(amdsmi_get_gpu_process_list, (void *, uint32_t *, struct amd_process *))

/** X(name, parameters) of the other functions. */
#define SK_AMD_OTHER_TABLE(X)                                                                      \
	X(amdsmi_init, (uint64_t))                                                                 \
	X(amdsmi_get_socket_handles, (uint32_t *, void **))                                        \
	X(amdsmi_get_processor_handles, (void *, uint32_t *, void **))                             \
	X(amdsmi_get_gpu_device_bdf, (void *, uint64_t *))                                         \
	X(amdsmi_set_power_cap, (void *, uint32_t, uint64_t))

/** The library's functions; NULL for one that it lacks. */
struct sk_amd {
#define X(name, parameters) int(*name) parameters;
	SK_AMD_READ_TABLE(X)
	SK_AMD_OTHER_TABLE(X)
#undef X
};

extern struct sk_amd sk_amd;

/** Implement `open`, `find` and `write` of struct sk_device_vendor. The setting is `cap_uw`, the
 * power cap of the socket. */
int sk_amd_open(char *why, size_t size);
int sk_amd_find(const char *address, void **ret, char *why, size_t size);
int sk_amd_write(void *handle, const char *what, uint64_t value, char *why, size_t size);

#endif
