/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the amdsmi binding needs and the simulation does not have: each is counted by its
 * name and returns NOT_SUPPORTED. Most are about CPUs, overclocking and counters.
 */
#include "sim/amdsmi/driver.h"

static uint32_t unsupported(const char *function)
{
	if (!sk_amd_begun())
		return SK_AMD_NOT_INIT;
	sk_sim_node_not_supported(sk_amd_node(), function);
	return SK_AMD_NOT_SUPPORTED;
}

/* Declared without parameters, since arguments are ignored. */
#define NOT_SUPPORTED(name)                                                                        \
	SK_AMD_API name(void)                                                                      \
	{                                                                                          \
		return unsupported(#name);                                                         \
	}

/* clang-format off */
NOT_SUPPORTED(amdsmi_cpu_apb_disable)
NOT_SUPPORTED(amdsmi_cpu_apb_enable)
NOT_SUPPORTED(amdsmi_first_online_core_on_cpu_socket)
NOT_SUPPORTED(amdsmi_get_afids_from_cper)
NOT_SUPPORTED(amdsmi_get_cpu_affinity_with_scope)
NOT_SUPPORTED(amdsmi_get_cpu_cclk_limit)
NOT_SUPPORTED(amdsmi_get_cpu_core_boostlimit)
NOT_SUPPORTED(amdsmi_get_cpu_core_current_freq_limit)
NOT_SUPPORTED(amdsmi_get_cpu_core_energy)
NOT_SUPPORTED(amdsmi_get_cpu_cores_per_socket)
NOT_SUPPORTED(amdsmi_get_cpu_current_io_bandwidth)
NOT_SUPPORTED(amdsmi_get_cpu_current_xgmi_bw)
NOT_SUPPORTED(amdsmi_get_cpu_ddr_bw)
NOT_SUPPORTED(amdsmi_get_cpu_dimm_power_consumption)
NOT_SUPPORTED(amdsmi_get_cpu_dimm_temp_range_and_refresh_rate)
NOT_SUPPORTED(amdsmi_get_cpu_dimm_thermal_sensor)
NOT_SUPPORTED(amdsmi_get_cpu_family)
NOT_SUPPORTED(amdsmi_get_cpu_fclk_mclk)
NOT_SUPPORTED(amdsmi_get_cpu_handles)
NOT_SUPPORTED(amdsmi_get_cpu_hsmp_driver_version)
NOT_SUPPORTED(amdsmi_get_cpu_hsmp_proto_ver)
NOT_SUPPORTED(amdsmi_get_cpu_model)
NOT_SUPPORTED(amdsmi_get_cpu_model_name)
NOT_SUPPORTED(amdsmi_get_cpu_prochot_status)
NOT_SUPPORTED(amdsmi_get_cpu_pwr_svi_telemetry_all_rails)
NOT_SUPPORTED(amdsmi_get_cpu_smu_fw_version)
NOT_SUPPORTED(amdsmi_get_cpu_socket_c0_residency)
NOT_SUPPORTED(amdsmi_get_cpu_socket_count)
NOT_SUPPORTED(amdsmi_get_cpu_socket_current_active_freq_limit)
NOT_SUPPORTED(amdsmi_get_cpu_socket_energy)
NOT_SUPPORTED(amdsmi_get_cpu_socket_freq_range)
NOT_SUPPORTED(amdsmi_get_cpu_socket_lclk_dpm_level)
NOT_SUPPORTED(amdsmi_get_cpu_socket_power)
NOT_SUPPORTED(amdsmi_get_cpu_socket_power_cap)
NOT_SUPPORTED(amdsmi_get_cpu_socket_power_cap_max)
NOT_SUPPORTED(amdsmi_get_cpu_socket_temperature)
NOT_SUPPORTED(amdsmi_get_cpucore_handles)
NOT_SUPPORTED(amdsmi_get_esmi_err_msg)
NOT_SUPPORTED(amdsmi_get_fw_info)
NOT_SUPPORTED(amdsmi_get_gpu_accelerator_partition_profile_config)
NOT_SUPPORTED(amdsmi_get_gpu_available_counters)
NOT_SUPPORTED(amdsmi_get_gpu_cache_info)
NOT_SUPPORTED(amdsmi_get_gpu_cper_entries)
NOT_SUPPORTED(amdsmi_get_gpu_mem_overdrive_level)
NOT_SUPPORTED(amdsmi_get_gpu_od_volt_curve_regions)
NOT_SUPPORTED(amdsmi_get_gpu_od_volt_info)
NOT_SUPPORTED(amdsmi_get_gpu_overdrive_level)
NOT_SUPPORTED(amdsmi_get_gpu_pm_metrics_info)
NOT_SUPPORTED(amdsmi_get_gpu_power_profile_presets)
NOT_SUPPORTED(amdsmi_get_gpu_reg_table_info)
NOT_SUPPORTED(amdsmi_get_gpu_subsystem_name)
NOT_SUPPORTED(amdsmi_get_gpu_volt_metric)
NOT_SUPPORTED(amdsmi_get_hsmp_metrics_table)
NOT_SUPPORTED(amdsmi_get_hsmp_metrics_table_version)
NOT_SUPPORTED(amdsmi_get_processor_count_from_handles)
NOT_SUPPORTED(amdsmi_get_soc_pstate)
NOT_SUPPORTED(amdsmi_get_threads_per_core)
NOT_SUPPORTED(amdsmi_get_xgmi_plpd)
NOT_SUPPORTED(amdsmi_gpu_control_counter)
NOT_SUPPORTED(amdsmi_gpu_counter_group_supported)
NOT_SUPPORTED(amdsmi_gpu_create_counter)
NOT_SUPPORTED(amdsmi_gpu_destroy_counter)
NOT_SUPPORTED(amdsmi_gpu_driver_reload)
NOT_SUPPORTED(amdsmi_gpu_read_counter)
NOT_SUPPORTED(amdsmi_gpu_validate_ras_eeprom)
NOT_SUPPORTED(amdsmi_reset_gpu_fan)
NOT_SUPPORTED(amdsmi_set_clk_freq)
NOT_SUPPORTED(amdsmi_set_cpu_core_boostlimit)
NOT_SUPPORTED(amdsmi_set_cpu_df_pstate_range)
NOT_SUPPORTED(amdsmi_set_cpu_gmi3_link_width_range)
NOT_SUPPORTED(amdsmi_set_cpu_pcie_link_rate)
NOT_SUPPORTED(amdsmi_set_cpu_pwr_efficiency_mode)
NOT_SUPPORTED(amdsmi_set_cpu_socket_boostlimit)
NOT_SUPPORTED(amdsmi_set_cpu_socket_lclk_dpm_level)
NOT_SUPPORTED(amdsmi_set_cpu_socket_power_cap)
NOT_SUPPORTED(amdsmi_set_cpu_xgmi_width)
NOT_SUPPORTED(amdsmi_set_gpu_accelerator_partition_profile)
NOT_SUPPORTED(amdsmi_set_gpu_fan_speed)
NOT_SUPPORTED(amdsmi_set_gpu_memory_partition_mode)
NOT_SUPPORTED(amdsmi_set_gpu_od_clk_info)
NOT_SUPPORTED(amdsmi_set_gpu_od_volt_info)
NOT_SUPPORTED(amdsmi_set_gpu_overdrive_level)
NOT_SUPPORTED(amdsmi_set_gpu_pci_bandwidth)
NOT_SUPPORTED(amdsmi_set_gpu_power_profile)
NOT_SUPPORTED(amdsmi_set_soc_pstate)
NOT_SUPPORTED(amdsmi_set_xgmi_plpd)
/* clang-format on */

/* Frees results of the functions above, which make none. */
__attribute__((visibility("default"))) void amdsmi_free_name_value_pairs(void *pairs)
{
}
