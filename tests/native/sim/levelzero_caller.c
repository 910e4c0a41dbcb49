/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows nothing of a simulation: it asks the real Level Zero loader for devices and
 * prints what it is told, one `name value` a line. Built by test_levelzero_loader.py.
 */
#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>
#include <stdio.h>

static void say(const char *name, ze_result_t result, unsigned long value)
{
	if (result)
		printf("%s error %x\n", name, result);
	else
		printf("%s %lu\n", name, value);
}

static void sysman(zes_device_handle_t device)
{
	zes_power_energy_counter_t energy = {0};
	zes_temp_handle_t sensors[3];
	zes_fan_handle_t fan;
	zes_pwr_handle_t power;
	uint32_t one = 1, three = 3, none = 0;
	double celsius = 0;
	ze_result_t result = zesDeviceEnumPowerDomains(device, &one, &power);

	say("domains", result, one);
	if (result)
		return;
	result = zesPowerGetEnergyCounter(power, &energy);
	say("energy", result, energy.energy);
	zesDeviceEnumTemperatureSensors(device, &three, sensors);
	result = zesTemperatureGetState(sensors[1], &celsius);
	say("celsius", result, (unsigned long)celsius);
	result = zesDeviceEnumFans(device, &none, &fan);
	say("fans", result, none);
	result = zesDeviceEnumDiagnosticTestSuites(device, &one, NULL);
	say("diagnostics", result, one);
}

int main(void)
{
	ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
	ze_context_desc_t description = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
	uint32_t one = 1, count = 0;
	ze_device_handle_t devices[16];
	ze_context_handle_t context;
	ze_driver_handle_t driver;
	ze_result_t result = zeInit(0);

	say("init", result, 0);
	if (result)
		return 1;
	say("drivers", zeDriverGet(&one, &driver), one);
	result = zeDeviceGet(driver, &count, NULL);
	say("devices", result, count);
	zeDeviceGet(driver, &count, devices);
	result = zeDeviceGetProperties(devices[count - 1], &properties);
	printf("name %s\n", properties.name);
	say("context", zeContextCreate(driver, &description, &context), 0);
	sysman((zes_device_handle_t)devices[count - 1]);
	return 0;
}
