/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The interface between the amdsmi binding and its library: status codes, kinds and records.
 *
 * It is declared from the binding's own ctypes classes (amdsmi 7.0.2, amdsmi_wrapper.py).
 * tests/native/sim/test_amdsmi_layout.py compares every record's size and places with these
 * classes. For that test the names of members are the binding's.
 */
#ifndef SK_SIM_AMDSMI_ABI_H
#define SK_SIM_AMDSMI_ABI_H

#include <stdbool.h>
#include <stdint.h>

enum sk_amd_status {
	SK_AMD_SUCCESS = 0,
	SK_AMD_INVAL = 1,
	SK_AMD_NOT_SUPPORTED = 2,
	SK_AMD_NO_PERM = 10,
	SK_AMD_INPUT_OUT_OF_BOUNDS = 17,
	SK_AMD_INIT_ERROR = 18,
	SK_AMD_BUSY = 30,
	SK_AMD_NOT_FOUND = 31,
	SK_AMD_NOT_INIT = 32,
	SK_AMD_DRIVER_NOT_LOADED = 34,
	SK_AMD_NO_DATA = 40,
	SK_AMD_INSUFFICIENT_SIZE = 41,
	SK_AMD_UNEXPECTED_SIZE = 42,
	SK_AMD_UNEXPECTED_DATA = 43,
	SK_AMD_UNKNOWN_ERROR = -1, /* all bits of the library's 32 */
};

enum sk_amd_clock { SK_AMD_CLOCK_GFX = 0, SK_AMD_CLOCK_MEM = 4 };

enum sk_amd_sensor { SK_AMD_HOTSPOT = 1, SK_AMD_VRAM = 2 };

enum sk_amd_temperature {
	SK_AMD_TEMP_CURRENT = 0,
	SK_AMD_TEMP_CRITICAL = 5,
	SK_AMD_TEMP_EMERGENCY = 7,
	SK_AMD_TEMP_SHUTDOWN = 14,
};

enum sk_amd_perf_level {
	SK_AMD_PERF_AUTO = 0,
	SK_AMD_PERF_MANUAL = 3,
	SK_AMD_PERF_DETERMINISM = 8,
};

enum sk_amd_block { SK_AMD_BLOCK_UMC = 1, SK_AMD_BLOCK_LAST = 262144 };

enum sk_amd_ras_state { SK_AMD_RAS_DISABLED = 1, SK_AMD_RAS_ENABLED = 6 };

enum sk_amd_link { SK_AMD_LINK_PCIE = 1, SK_AMD_LINK_XGMI = 2 };

enum sk_amd_memory { SK_AMD_MEMORY_VRAM = 0, SK_AMD_MEMORY_VISIBLE = 1 };

enum sk_amd_event {
	SK_AMD_EVENT_VMFAULT = 1,
	SK_AMD_EVENT_THROTTLE = 2,
	SK_AMD_EVENT_PRE_RESET = 3,
};

struct sk_amd_version {
	uint32_t major;
	uint32_t minor;
	uint32_t release;
	const char *build;
};

union sk_amd_bdf {
	struct {
		uint64_t function_number : 3;
		uint64_t device_number : 5;
		uint64_t bus_number : 8;
		uint64_t domain_number : 48;
	} bdf;
	uint64_t as_uint;
};

struct sk_amd_enumeration_info {
	uint32_t drm_render;
	uint32_t drm_card;
	uint32_t hsa_id;
	uint32_t hip_id;
	char hip_uuid[256];
};

struct sk_amd_asic_info {
	char market_name[256];
	uint32_t vendor_id;
	char vendor_name[256];
	uint32_t subvendor_id;
	uint64_t device_id;
	uint32_t rev_id;
	char asic_serial[256];
	uint32_t oam_id;
	uint32_t num_of_compute_units;
	uint64_t target_graphics_version;
	uint32_t subsystem_id;
	uint32_t reserved[21];
};

struct sk_amd_kfd_info {
	uint64_t kfd_id;
	uint32_t node_id;
	uint32_t current_partition_id;
	uint32_t reserved[12];
};

struct sk_amd_vram_info {
	uint32_t vram_type;
	char vram_vendor[256];
	uint64_t vram_size;
	uint32_t vram_bit_width;
	uint64_t vram_max_bandwidth;
	uint64_t reserved[37];
};

struct sk_amd_vram_usage {
	uint32_t vram_total;
	uint32_t vram_used;
	uint32_t reserved[2];
};

struct sk_amd_board_info {
	char model_number[256];
	char product_serial[256];
	char fru_id[256];
	char product_name[256];
	char manufacturer_name[256];
	uint64_t reserved[64];
};

struct sk_amd_driver_info {
	char driver_version[256];
	char driver_date[256];
	char driver_name[256];
};

struct sk_amd_vbios_info {
	char name[256];
	char build_date[256];
	char part_number[256];
	char version[256];
	uint64_t reserved[68];
};

struct sk_amd_power_info {
	uint64_t socket_power;
	uint32_t current_socket_power;
	uint32_t average_socket_power;
	uint64_t gfx_voltage;
	uint64_t soc_voltage;
	uint64_t mem_voltage;
	uint32_t power_limit;
	uint64_t reserved[18];
};

struct sk_amd_power_cap_info {
	uint64_t power_cap;
	uint64_t default_power_cap;
	uint64_t dpm_cap;
	uint64_t min_power_cap;
	uint64_t max_power_cap;
	uint64_t reserved[3];
};

struct sk_amd_clk_info {
	uint32_t clk;
	uint32_t min_clk;
	uint32_t max_clk;
	uint8_t clk_locked;
	uint8_t clk_deep_sleep;
	uint32_t reserved[4];
};

struct sk_amd_frequencies {
	bool has_deep_sleep;
	uint32_t num_supported;
	uint32_t current;
	uint64_t frequency[33];
};

struct sk_amd_pcie_bandwidth {
	struct sk_amd_frequencies transfer_rate;
	uint32_t lanes[33];
};

struct sk_amd_pcie_info {
	struct {
		uint16_t max_pcie_width;
		uint32_t max_pcie_speed;
		uint32_t pcie_interface_version;
		uint32_t slot_type;
		uint32_t max_pcie_interface_version;
		uint64_t reserved[9];
	} pcie_static;
	struct {
		uint16_t pcie_width;
		uint32_t pcie_speed;
		uint32_t pcie_bandwidth;
		uint64_t pcie_replay_count;
		uint64_t pcie_l0_to_recovery_count;
		uint64_t pcie_replay_roll_over_count;
		uint64_t pcie_nak_sent_count;
		uint64_t pcie_nak_received_count;
		uint32_t pcie_lc_perf_other_end_recovery_count;
		uint64_t reserved[12];
	} pcie_metric;
	uint64_t reserved[32];
};

struct sk_amd_engine_usage {
	uint32_t gfx_activity;
	uint32_t umc_activity;
	uint32_t mm_activity;
	uint32_t reserved[13];
};

struct sk_amd_utilization_counter {
	uint32_t type;
	uint64_t value;
	uint64_t fine_value[4];
	uint16_t fine_value_count;
};

struct sk_amd_gpu_xcp_metrics {
	uint32_t gfx_busy_inst[8];
	uint16_t jpeg_busy[40];
	uint16_t vcn_busy[4];
	uint64_t gfx_busy_acc[8];
	uint64_t gfx_below_host_limit_acc[8];
	uint64_t gfx_below_host_limit_ppt_acc[8];
	uint64_t gfx_below_host_limit_thm_acc[8];
	uint64_t gfx_low_utilization_acc[8];
	uint64_t gfx_below_host_limit_total_acc[8];
};

struct sk_amd_metrics_header {
	uint16_t structure_size;
	uint8_t format_revision;
	uint8_t content_revision;
};

struct sk_amd_gpu_metrics {
	struct sk_amd_metrics_header common_header;
	uint16_t temperature_edge;
	uint16_t temperature_hotspot;
	uint16_t temperature_mem;
	uint16_t temperature_vrgfx;
	uint16_t temperature_vrsoc;
	uint16_t temperature_vrmem;
	uint16_t average_gfx_activity;
	uint16_t average_umc_activity;
	uint16_t average_mm_activity;
	uint16_t average_socket_power;
	uint64_t energy_accumulator;
	uint64_t system_clock_counter;
	uint16_t average_gfxclk_frequency;
	uint16_t average_socclk_frequency;
	uint16_t average_uclk_frequency;
	uint16_t average_vclk0_frequency;
	uint16_t average_dclk0_frequency;
	uint16_t average_vclk1_frequency;
	uint16_t average_dclk1_frequency;
	uint16_t current_gfxclk;
	uint16_t current_socclk;
	uint16_t current_uclk;
	uint16_t current_vclk0;
	uint16_t current_dclk0;
	uint16_t current_vclk1;
	uint16_t current_dclk1;
	uint32_t throttle_status;
	uint16_t current_fan_speed;
	uint16_t pcie_link_width;
	uint16_t pcie_link_speed;
	uint32_t gfx_activity_acc;
	uint32_t mem_activity_acc;
	uint16_t temperature_hbm[4];
	uint64_t firmware_timestamp;
	uint16_t voltage_soc;
	uint16_t voltage_gfx;
	uint16_t voltage_mem;
	uint64_t indep_throttle_status;
	uint16_t current_socket_power;
	uint16_t vcn_activity[4];
	uint32_t gfxclk_lock_status;
	uint16_t xgmi_link_width;
	uint16_t xgmi_link_speed;
	uint64_t pcie_bandwidth_acc;
	uint64_t pcie_bandwidth_inst;
	uint64_t pcie_l0_to_recov_count_acc;
	uint64_t pcie_replay_count_acc;
	uint64_t pcie_replay_rover_count_acc;
	uint64_t xgmi_read_data_acc[8];
	uint64_t xgmi_write_data_acc[8];
	uint16_t current_gfxclks[8];
	uint16_t current_socclks[4];
	uint16_t current_vclk0s[4];
	uint16_t current_dclk0s[4];
	uint16_t jpeg_activity[32];
	uint32_t pcie_nak_sent_count_acc;
	uint32_t pcie_nak_rcvd_count_acc;
	uint64_t accumulation_counter;
	uint64_t prochot_residency_acc;
	uint64_t ppt_residency_acc;
	uint64_t socket_thm_residency_acc;
	uint64_t vr_thm_residency_acc;
	uint64_t hbm_thm_residency_acc;
	uint16_t num_partition;
	struct sk_amd_gpu_xcp_metrics xcp_stats[8];
	uint32_t pcie_lc_perf_other_end_recovery;
	uint64_t vram_max_bandwidth;
	uint16_t xgmi_link_status[8];
};

struct sk_amd_violation_status {
	uint64_t reference_timestamp;
	uint64_t violation_timestamp;
	uint64_t acc_counter;
	uint64_t acc_prochot_thrm;
	uint64_t acc_ppt_pwr;
	uint64_t acc_socket_thrm;
	uint64_t acc_vr_thrm;
	uint64_t acc_hbm_thrm;
	uint64_t acc_gfx_clk_below_host_limit;
	uint64_t per_prochot_thrm;
	uint64_t per_ppt_pwr;
	uint64_t per_socket_thrm;
	uint64_t per_vr_thrm;
	uint64_t per_hbm_thrm;
	uint64_t per_gfx_clk_below_host_limit;
	uint8_t active_prochot_thrm;
	uint8_t active_ppt_pwr;
	uint8_t active_socket_thrm;
	uint8_t active_vr_thrm;
	uint8_t active_hbm_thrm;
	uint8_t active_gfx_clk_below_host_limit;
	uint64_t acc_gfx_clk_below_host_limit_pwr[8][8];
	uint64_t acc_gfx_clk_below_host_limit_thm[8][8];
	uint64_t acc_low_utilization[8][8];
	uint64_t acc_gfx_clk_below_host_limit_total[8][8];
	uint64_t per_gfx_clk_below_host_limit_pwr[8][8];
	uint64_t per_gfx_clk_below_host_limit_thm[8][8];
	uint64_t per_low_utilization[8][8];
	uint64_t per_gfx_clk_below_host_limit_total[8][8];
	uint8_t active_gfx_clk_below_host_limit_pwr[8][8];
	uint8_t active_gfx_clk_below_host_limit_thm[8][8];
	uint8_t active_low_utilization[8][8];
	uint8_t active_gfx_clk_below_host_limit_total[8][8];
	uint64_t reserved[8][8];
	uint64_t reserved2[8][8];
	uint64_t reserved3[8][8];
};

struct sk_amd_error_count {
	uint64_t correctable_count;
	uint64_t uncorrectable_count;
	uint64_t deferred_count;
	uint64_t reserved[5];
};

struct sk_amd_ras_feature {
	uint32_t ras_eeprom_version;
	uint32_t ecc_correction_schema_flag;
};

struct sk_amd_retired_page_record {
	uint64_t page_address;
	uint64_t page_size;
	uint32_t status;
};

struct sk_amd_xgmi_info {
	uint8_t xgmi_lanes;
	uint64_t xgmi_hive_id;
	uint64_t xgmi_node_id;
	uint32_t index;
	uint32_t reserved[9];
};

struct sk_amd_xgmi_link_status {
	uint32_t total_links;
	uint32_t status[8];
	uint64_t reserved[7];
};

struct sk_amd_link_metrics {
	uint32_t num_links;
	struct {
		union sk_amd_bdf bdf;
		uint32_t bit_rate;
		uint32_t max_bandwidth;
		uint32_t link_type;
		uint64_t read;
		uint64_t write;
		uint64_t reserved[2];
	} links[64];
	uint64_t reserved[7];
};

struct sk_amd_topology_nearest {
	uint32_t count;
	void *processor_list[32];
	uint64_t reserved[15];
};

struct sk_amd_p2p_capability {
	uint8_t is_iolink_coherent;
	uint8_t is_iolink_atomics_32bit;
	uint8_t is_iolink_atomics_64bit;
	uint8_t is_iolink_dma;
	uint8_t is_iolink_bi_directional;
};

struct sk_amd_proc_info {
	char name[256];
	uint32_t pid;
	uint64_t mem;
	struct {
		uint64_t gfx;
		uint64_t enc;
		uint32_t reserved[12];
	} engine_usage;
	struct {
		uint64_t gtt_mem;
		uint64_t cpu_mem;
		uint64_t vram_mem;
		uint32_t reserved[10];
	} memory_usage;
	char container_name[256];
	uint32_t cu_occupancy;
	uint32_t reserved[11];
};

struct sk_amd_process_info {
	uint32_t process_id;
	uint64_t vram_usage;
	uint64_t sdma_usage;
	uint32_t cu_occupancy;
};

struct sk_amd_evt_notification_data {
	void *processor_handle;
	uint32_t event;
	char message[256];
};

struct sk_amd_accelerator_partition_profile {
	uint32_t profile_type;
	uint32_t num_partitions;
	uint32_t memory_caps;
	uint32_t profile_index;
	uint32_t num_resources;
	uint32_t resources[8][32];
	uint64_t reserved[13];
};

struct sk_amd_memory_partition_config {
	uint32_t partition_caps;
	uint32_t mp_mode;
	uint32_t num_numa_ranges;
	struct {
		uint32_t memory_type;
		uint64_t start;
		uint64_t end;
	} numa_range[32];
	uint64_t reserved[11];
};

#endif
