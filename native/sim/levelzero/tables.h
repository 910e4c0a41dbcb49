/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions of each table of a Level Zero driver, in the order that its loader reads them.
 *
 * Order is Level Zero 1.4's (ze_ddi.h, zes_ddi.h, zet_ddi.h);
 * tests/native/sim/test_levelzero_layout.py holds it against the installed headers.
 */
#ifndef SK_SIM_LEVELZERO_TABLES_H
#define SK_SIM_LEVELZERO_TABLES_H

/* clang-format off */
#define SK_ZE_TABLES(TABLE, F) \
	TABLE(zeGetGlobalProcAddrTable, \
		F(zeInit)) \
	TABLE(zeGetDriverProcAddrTable, \
		F(zeDriverGet) F(zeDriverGetApiVersion) F(zeDriverGetProperties) \
		F(zeDriverGetIpcProperties) F(zeDriverGetExtensionProperties) \
		F(zeDriverGetExtensionFunctionAddress)) \
	TABLE(zeGetDeviceProcAddrTable, \
		F(zeDeviceGet) F(zeDeviceGetSubDevices) F(zeDeviceGetProperties) \
		F(zeDeviceGetComputeProperties) F(zeDeviceGetModuleProperties) \
		F(zeDeviceGetCommandQueueGroupProperties) F(zeDeviceGetMemoryProperties) \
		F(zeDeviceGetMemoryAccessProperties) F(zeDeviceGetCacheProperties) \
		F(zeDeviceGetImageProperties) F(zeDeviceGetExternalMemoryProperties) \
		F(zeDeviceGetP2PProperties) F(zeDeviceCanAccessPeer) F(zeDeviceGetStatus) \
		F(zeDeviceGetGlobalTimestamps) F(zeDeviceReserveCacheExt) \
		F(zeDeviceSetCacheAdviceExt) F(zeDevicePciGetPropertiesExt)) \
	TABLE(zeGetDeviceExpProcAddrTable, \
		F(zeDeviceGetFabricVertexExp)) \
	TABLE(zeGetContextProcAddrTable, \
		F(zeContextCreate) F(zeContextDestroy) F(zeContextGetStatus) \
		F(zeContextSystemBarrier) F(zeContextMakeMemoryResident) \
		F(zeContextEvictMemory) F(zeContextMakeImageResident) F(zeContextEvictImage) \
		F(zeContextCreateEx)) \
	TABLE(zeGetCommandQueueProcAddrTable, \
		F(zeCommandQueueCreate) F(zeCommandQueueDestroy) \
		F(zeCommandQueueExecuteCommandLists) F(zeCommandQueueSynchronize)) \
	TABLE(zeGetCommandListProcAddrTable, \
		F(zeCommandListCreate) F(zeCommandListCreateImmediate) F(zeCommandListDestroy) \
		F(zeCommandListClose) F(zeCommandListReset) \
		F(zeCommandListAppendWriteGlobalTimestamp) F(zeCommandListAppendBarrier) \
		F(zeCommandListAppendMemoryRangesBarrier) F(zeCommandListAppendMemoryCopy) \
		F(zeCommandListAppendMemoryFill) F(zeCommandListAppendMemoryCopyRegion) \
		F(zeCommandListAppendMemoryCopyFromContext) F(zeCommandListAppendImageCopy) \
		F(zeCommandListAppendImageCopyRegion) F(zeCommandListAppendImageCopyToMemory) \
		F(zeCommandListAppendImageCopyFromMemory) F(zeCommandListAppendMemoryPrefetch) \
		F(zeCommandListAppendMemAdvise) F(zeCommandListAppendSignalEvent) \
		F(zeCommandListAppendWaitOnEvents) F(zeCommandListAppendEventReset) \
		F(zeCommandListAppendQueryKernelTimestamps) F(zeCommandListAppendLaunchKernel) \
		F(zeCommandListAppendLaunchCooperativeKernel) \
		F(zeCommandListAppendLaunchKernelIndirect) \
		F(zeCommandListAppendLaunchMultipleKernelsIndirect) \
		F(zeCommandListAppendImageCopyToMemoryExt) \
		F(zeCommandListAppendImageCopyFromMemoryExt)) \
	TABLE(zeGetImageProcAddrTable, \
		F(zeImageGetProperties) F(zeImageCreate) F(zeImageDestroy) \
		F(zeImageGetAllocPropertiesExt)) \
	TABLE(zeGetImageExpProcAddrTable, \
		F(zeImageGetMemoryPropertiesExp) F(zeImageViewCreateExp)) \
	TABLE(zeGetFenceProcAddrTable, \
		F(zeFenceCreate) F(zeFenceDestroy) F(zeFenceHostSynchronize) \
		F(zeFenceQueryStatus) F(zeFenceReset)) \
	TABLE(zeGetEventPoolProcAddrTable, \
		F(zeEventPoolCreate) F(zeEventPoolDestroy) F(zeEventPoolGetIpcHandle) \
		F(zeEventPoolOpenIpcHandle) F(zeEventPoolCloseIpcHandle)) \
	TABLE(zeGetEventProcAddrTable, \
		F(zeEventCreate) F(zeEventDestroy) F(zeEventHostSignal) \
		F(zeEventHostSynchronize) F(zeEventQueryStatus) F(zeEventHostReset) \
		F(zeEventQueryKernelTimestamp)) \
	TABLE(zeGetEventExpProcAddrTable, \
		F(zeEventQueryTimestampsExp)) \
	TABLE(zeGetModuleProcAddrTable, \
		F(zeModuleCreate) F(zeModuleDestroy) F(zeModuleDynamicLink) \
		F(zeModuleGetNativeBinary) F(zeModuleGetGlobalPointer) \
		F(zeModuleGetKernelNames) F(zeModuleGetProperties) \
		F(zeModuleGetFunctionPointer) F(zeModuleInspectLinkageExt)) \
	TABLE(zeGetModuleBuildLogProcAddrTable, \
		F(zeModuleBuildLogDestroy) F(zeModuleBuildLogGetString)) \
	TABLE(zeGetKernelProcAddrTable, \
		F(zeKernelCreate) F(zeKernelDestroy) F(zeKernelSetCacheConfig) \
		F(zeKernelSetGroupSize) F(zeKernelSuggestGroupSize) \
		F(zeKernelSuggestMaxCooperativeGroupCount) F(zeKernelSetArgumentValue) \
		F(zeKernelSetIndirectAccess) F(zeKernelGetIndirectAccess) \
		F(zeKernelGetSourceAttributes) F(zeKernelGetProperties) F(zeKernelGetName)) \
	TABLE(zeGetKernelExpProcAddrTable, \
		F(zeKernelSetGlobalOffsetExp) F(zeKernelSchedulingHintExp)) \
	TABLE(zeGetSamplerProcAddrTable, \
		F(zeSamplerCreate) F(zeSamplerDestroy)) \
	TABLE(zeGetPhysicalMemProcAddrTable, \
		F(zePhysicalMemCreate) F(zePhysicalMemDestroy)) \
	TABLE(zeGetMemProcAddrTable, \
		F(zeMemAllocShared) F(zeMemAllocDevice) F(zeMemAllocHost) F(zeMemFree) \
		F(zeMemGetAllocProperties) F(zeMemGetAddressRange) F(zeMemGetIpcHandle) \
		F(zeMemOpenIpcHandle) F(zeMemCloseIpcHandle) F(zeMemFreeExt)) \
	TABLE(zeGetVirtualMemProcAddrTable, \
		F(zeVirtualMemReserve) F(zeVirtualMemFree) F(zeVirtualMemQueryPageSize) \
		F(zeVirtualMemMap) F(zeVirtualMemUnmap) F(zeVirtualMemSetAccessAttribute) \
		F(zeVirtualMemGetAccessAttribute)) \
	TABLE(zeGetFabricVertexExpProcAddrTable, \
		F(zeFabricVertexGetExp) F(zeFabricVertexGetSubVerticesExp) \
		F(zeFabricVertexGetPropertiesExp) F(zeFabricVertexGetDeviceExp)) \
	TABLE(zeGetFabricEdgeExpProcAddrTable, \
		F(zeFabricEdgeGetExp) F(zeFabricEdgeGetVerticesExp) \
		F(zeFabricEdgeGetPropertiesExp)) \
	TABLE(zesGetDriverProcAddrTable, \
		F(zesDriverEventListen) F(zesDriverEventListenEx)) \
	TABLE(zesGetDeviceProcAddrTable, \
		F(zesDeviceGetProperties) F(zesDeviceGetState) F(zesDeviceReset) \
		F(zesDeviceProcessesGetState) F(zesDevicePciGetProperties) \
		F(zesDevicePciGetState) F(zesDevicePciGetBars) F(zesDevicePciGetStats) \
		F(zesDeviceEnumDiagnosticTestSuites) F(zesDeviceEnumEngineGroups) \
		F(zesDeviceEventRegister) F(zesDeviceEnumFabricPorts) F(zesDeviceEnumFans) \
		F(zesDeviceEnumFirmwares) F(zesDeviceEnumFrequencyDomains) \
		F(zesDeviceEnumLeds) F(zesDeviceEnumMemoryModules) \
		F(zesDeviceEnumPerformanceFactorDomains) F(zesDeviceEnumPowerDomains) \
		F(zesDeviceGetCardPowerDomain) F(zesDeviceEnumPsus) \
		F(zesDeviceEnumRasErrorSets) F(zesDeviceEnumSchedulers) \
		F(zesDeviceEnumStandbyDomains) F(zesDeviceEnumTemperatureSensors) \
		F(zesDeviceEccAvailable) F(zesDeviceEccConfigurable) F(zesDeviceGetEccState) \
		F(zesDeviceSetEccState)) \
	TABLE(zesGetSchedulerProcAddrTable, \
		F(zesSchedulerGetProperties) F(zesSchedulerGetCurrentMode) \
		F(zesSchedulerGetTimeoutModeProperties) \
		F(zesSchedulerGetTimesliceModeProperties) F(zesSchedulerSetTimeoutMode) \
		F(zesSchedulerSetTimesliceMode) F(zesSchedulerSetExclusiveMode) \
		F(zesSchedulerSetComputeUnitDebugMode)) \
	TABLE(zesGetPerformanceFactorProcAddrTable, \
		F(zesPerformanceFactorGetProperties) F(zesPerformanceFactorGetConfig) \
		F(zesPerformanceFactorSetConfig)) \
	TABLE(zesGetPowerProcAddrTable, \
		F(zesPowerGetProperties) F(zesPowerGetEnergyCounter) F(zesPowerGetLimits) \
		F(zesPowerSetLimits) F(zesPowerGetEnergyThreshold) \
		F(zesPowerSetEnergyThreshold) F(zesPowerGetLimitsExt) F(zesPowerSetLimitsExt)) \
	TABLE(zesGetFrequencyProcAddrTable, \
		F(zesFrequencyGetProperties) F(zesFrequencyGetAvailableClocks) \
		F(zesFrequencyGetRange) F(zesFrequencySetRange) F(zesFrequencyGetState) \
		F(zesFrequencyGetThrottleTime) F(zesFrequencyOcGetCapabilities) \
		F(zesFrequencyOcGetFrequencyTarget) F(zesFrequencyOcSetFrequencyTarget) \
		F(zesFrequencyOcGetVoltageTarget) F(zesFrequencyOcSetVoltageTarget) \
		F(zesFrequencyOcSetMode) F(zesFrequencyOcGetMode) F(zesFrequencyOcGetIccMax) \
		F(zesFrequencyOcSetIccMax) F(zesFrequencyOcGetTjMax) F(zesFrequencyOcSetTjMax)) \
	TABLE(zesGetEngineProcAddrTable, \
		F(zesEngineGetProperties) F(zesEngineGetActivity)) \
	TABLE(zesGetStandbyProcAddrTable, \
		F(zesStandbyGetProperties) F(zesStandbyGetMode) F(zesStandbySetMode)) \
	TABLE(zesGetFirmwareProcAddrTable, \
		F(zesFirmwareGetProperties) F(zesFirmwareFlash)) \
	TABLE(zesGetMemoryProcAddrTable, \
		F(zesMemoryGetProperties) F(zesMemoryGetState) F(zesMemoryGetBandwidth)) \
	TABLE(zesGetFabricPortProcAddrTable, \
		F(zesFabricPortGetProperties) F(zesFabricPortGetLinkType) \
		F(zesFabricPortGetConfig) F(zesFabricPortSetConfig) F(zesFabricPortGetState) \
		F(zesFabricPortGetThroughput)) \
	TABLE(zesGetTemperatureProcAddrTable, \
		F(zesTemperatureGetProperties) F(zesTemperatureGetConfig) \
		F(zesTemperatureSetConfig) F(zesTemperatureGetState)) \
	TABLE(zesGetPsuProcAddrTable, \
		F(zesPsuGetProperties) F(zesPsuGetState)) \
	TABLE(zesGetFanProcAddrTable, \
		F(zesFanGetProperties) F(zesFanGetConfig) F(zesFanSetDefaultMode) \
		F(zesFanSetFixedSpeedMode) F(zesFanSetSpeedTableMode) F(zesFanGetState)) \
	TABLE(zesGetLedProcAddrTable, \
		F(zesLedGetProperties) F(zesLedGetState) F(zesLedSetState) F(zesLedSetColor)) \
	TABLE(zesGetRasProcAddrTable, \
		F(zesRasGetProperties) F(zesRasGetConfig) F(zesRasSetConfig) F(zesRasGetState)) \
	TABLE(zesGetDiagnosticsProcAddrTable, \
		F(zesDiagnosticsGetProperties) F(zesDiagnosticsGetTests) \
		F(zesDiagnosticsRunTests)) \
	TABLE(zetGetDeviceProcAddrTable, \
		F(zetDeviceGetDebugProperties)) \
	TABLE(zetGetContextProcAddrTable, \
		F(zetContextActivateMetricGroups)) \
	TABLE(zetGetCommandListProcAddrTable, \
		F(zetCommandListAppendMetricStreamerMarker) \
		F(zetCommandListAppendMetricQueryBegin) F(zetCommandListAppendMetricQueryEnd) \
		F(zetCommandListAppendMetricMemoryBarrier)) \
	TABLE(zetGetModuleProcAddrTable, \
		F(zetModuleGetDebugInfo)) \
	TABLE(zetGetKernelProcAddrTable, \
		F(zetKernelGetProfileInfo)) \
	TABLE(zetGetMetricGroupProcAddrTable, \
		F(zetMetricGroupGet) F(zetMetricGroupGetProperties) \
		F(zetMetricGroupCalculateMetricValues)) \
	TABLE(zetGetMetricGroupExpProcAddrTable, \
		F(zetMetricGroupCalculateMultipleMetricValuesExp)) \
	TABLE(zetGetMetricProcAddrTable, \
		F(zetMetricGet) F(zetMetricGetProperties)) \
	TABLE(zetGetMetricStreamerProcAddrTable, \
		F(zetMetricStreamerOpen) F(zetMetricStreamerClose) \
		F(zetMetricStreamerReadData)) \
	TABLE(zetGetMetricQueryPoolProcAddrTable, \
		F(zetMetricQueryPoolCreate) F(zetMetricQueryPoolDestroy)) \
	TABLE(zetGetMetricQueryProcAddrTable, \
		F(zetMetricQueryCreate) F(zetMetricQueryDestroy) F(zetMetricQueryReset) \
		F(zetMetricQueryGetData)) \
	TABLE(zetGetTracerExpProcAddrTable, \
		F(zetTracerExpCreate) F(zetTracerExpDestroy) F(zetTracerExpSetPrologues) \
		F(zetTracerExpSetEpilogues) F(zetTracerExpSetEnabled)) \
	TABLE(zetGetDebugProcAddrTable, \
		F(zetDebugAttach) F(zetDebugDetach) F(zetDebugReadEvent) \
		F(zetDebugAcknowledgeEvent) F(zetDebugInterrupt) F(zetDebugResume) \
		F(zetDebugReadMemory) F(zetDebugWriteMemory) \
		F(zetDebugGetRegisterSetProperties) F(zetDebugReadRegisters) \
		F(zetDebugWriteRegisters))
/* clang-format on */

#endif
