/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Every function of the CUDA driver: its name, the version it came with, the symbol it is then.
 *
 * Taken from cudaTypedefs.h of CUDA 13.5; tests/native/sim/test_cuda_layout.py holds the list
 * against it.
 */
#ifndef SK_SIM_CUDA_NAMES_H
#define SK_SIM_CUDA_NAMES_H

/* clang-format off */
#define SK_CUDA_NAMES(X) \
	X(cuArray3DCreate, 2000, cuArray3DCreate) X(cuArray3DCreate, 3020, cuArray3DCreate_v2) \
	X(cuArray3DGetDescriptor, 2000, cuArray3DGetDescriptor) \
	X(cuArray3DGetDescriptor, 3020, cuArray3DGetDescriptor_v2) \
	X(cuArrayCreate, 2000, cuArrayCreate) X(cuArrayCreate, 3020, cuArrayCreate_v2) \
	X(cuArrayDestroy, 2000, cuArrayDestroy) \
	X(cuArrayGetDescriptor, 2000, cuArrayGetDescriptor) \
	X(cuArrayGetDescriptor, 3020, cuArrayGetDescriptor_v2) \
	X(cuArrayGetMemoryRequirements, 11060, cuArrayGetMemoryRequirements) \
	X(cuArrayGetPlane, 11020, cuArrayGetPlane) \
	X(cuArrayGetSparseProperties, 11010, cuArrayGetSparseProperties) \
	X(cuCheckpointOperationComplete, 13040, cuCheckpointOperationComplete) \
	X(cuCheckpointProcessCheckpoint, 12080, cuCheckpointProcessCheckpoint) \
	X(cuCheckpointProcessGetRestoreThreadId, 12080, cuCheckpointProcessGetRestoreThreadId) \
	X(cuCheckpointProcessGetState, 12080, cuCheckpointProcessGetState) \
	X(cuCheckpointProcessLock, 12080, cuCheckpointProcessLock) \
	X(cuCheckpointProcessRestore, 12080, cuCheckpointProcessRestore) \
	X(cuCheckpointProcessUnlock, 12080, cuCheckpointProcessUnlock) \
	X(cuCoredumpDeregisterCompleteCallback, 13020, cuCoredumpDeregisterCompleteCallback) \
	X(cuCoredumpDeregisterStartCallback, 13020, cuCoredumpDeregisterStartCallback) \
	X(cuCoredumpGetAttribute, 12010, cuCoredumpGetAttribute) \
	X(cuCoredumpGetAttributeGlobal, 12010, cuCoredumpGetAttributeGlobal) \
	X(cuCoredumpRegisterCompleteCallback, 13020, cuCoredumpRegisterCompleteCallback) \
	X(cuCoredumpRegisterStartCallback, 13020, cuCoredumpRegisterStartCallback) \
	X(cuCoredumpSetAttribute, 12010, cuCoredumpSetAttribute) \
	X(cuCoredumpSetAttributeGlobal, 12010, cuCoredumpSetAttributeGlobal) \
	X(cuCtxAttach, 2000, cuCtxAttach) X(cuCtxCreate, 2000, cuCtxCreate) \
	X(cuCtxCreate, 3020, cuCtxCreate_v2) X(cuCtxCreate, 11040, cuCtxCreate_v3) \
	X(cuCtxCreate, 12050, cuCtxCreate_v4) X(cuCtxDestroy, 2000, cuCtxDestroy) \
	X(cuCtxDestroy, 4000, cuCtxDestroy_v2) X(cuCtxDetach, 2000, cuCtxDetach) \
	X(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess) \
	X(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess) \
	X(cuCtxFromGreenCtx, 12040, cuCtxFromGreenCtx) \
	X(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion) \
	X(cuCtxGetCacheConfig, 3020, cuCtxGetCacheConfig) \
	X(cuCtxGetCurrent, 4000, cuCtxGetCurrent) \
	X(cuCtxGetDevResource, 12040, cuCtxGetDevResource) \
	X(cuCtxGetDevice, 2000, cuCtxGetDevice) X(cuCtxGetDevice, 13000, cuCtxGetDevice_v2) \
	X(cuCtxGetExecAffinity, 11040, cuCtxGetExecAffinity) \
	X(cuCtxGetFlags, 7000, cuCtxGetFlags) X(cuCtxGetId, 12000, cuCtxGetId) \
	X(cuCtxGetLimit, 3010, cuCtxGetLimit) \
	X(cuCtxGetSharedMemConfig, 4020, cuCtxGetSharedMemConfig) \
	X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange) \
	X(cuCtxPopCurrent, 2000, cuCtxPopCurrent) X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) \
	X(cuCtxPushCurrent, 2000, cuCtxPushCurrent) \
	X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2) \
	X(cuCtxRecordEvent, 12050, cuCtxRecordEvent) \
	X(cuCtxResetPersistingL2Cache, 11000, cuCtxResetPersistingL2Cache) \
	X(cuCtxSetCacheConfig, 3020, cuCtxSetCacheConfig) \
	X(cuCtxSetCurrent, 4000, cuCtxSetCurrent) X(cuCtxSetFlags, 12010, cuCtxSetFlags) \
	X(cuCtxSetLimit, 3010, cuCtxSetLimit) \
	X(cuCtxSetSharedMemConfig, 4020, cuCtxSetSharedMemConfig) \
	X(cuCtxSynchronize, 2000, cuCtxSynchronize) \
	X(cuCtxSynchronize, 13000, cuCtxSynchronize_v2) X(cuCtxWaitEvent, 12050, cuCtxWaitEvent) \
	X(cuDestroyExternalMemory, 10000, cuDestroyExternalMemory) \
	X(cuDestroyExternalSemaphore, 10000, cuDestroyExternalSemaphore) \
	X(cuDevResourceGenerateDesc, 12040, cuDevResourceGenerateDesc) \
	X(cuDevSmResourceSplit, 13010, cuDevSmResourceSplit) \
	X(cuDevSmResourceSplitByCount, 12040, cuDevSmResourceSplitByCount) \
	X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer) \
	X(cuDeviceComputeCapability, 2000, cuDeviceComputeCapability) \
	X(cuDeviceGet, 2000, cuDeviceGet) X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute) \
	X(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId) \
	X(cuDeviceGetCliqueCount, 13040, cuDeviceGetCliqueCount) \
	X(cuDeviceGetCliqueInfo, 13040, cuDeviceGetCliqueInfo) \
	X(cuDeviceGetCount, 2000, cuDeviceGetCount) \
	X(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool) \
	X(cuDeviceGetDevResource, 12040, cuDeviceGetDevResource) \
	X(cuDeviceGetExecAffinitySupport, 11040, cuDeviceGetExecAffinitySupport) \
	X(cuDeviceGetFabricClusterUuid, 13040, cuDeviceGetFabricClusterUuid) \
	X(cuDeviceGetGraphMemAttribute, 11040, cuDeviceGetGraphMemAttribute) \
	X(cuDeviceGetHostAtomicCapabilities, 13000, cuDeviceGetHostAtomicCapabilities) \
	X(cuDeviceGetLuid, 10000, cuDeviceGetLuid) \
	X(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool) \
	X(cuDeviceGetName, 2000, cuDeviceGetName) \
	X(cuDeviceGetNvSciSyncAttributes, 10020, cuDeviceGetNvSciSyncAttributes) \
	X(cuDeviceGetP2PAtomicCapabilities, 13000, cuDeviceGetP2PAtomicCapabilities) \
	X(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute) \
	X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId) \
	X(cuDeviceGetProperties, 2000, cuDeviceGetProperties) \
	X(cuDeviceGetTexture1DLinearMaxWidth, 11010, cuDeviceGetTexture1DLinearMaxWidth) \
	X(cuDeviceGetUuid, 9020, cuDeviceGetUuid) X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2) \
	X(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim) \
	X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState) \
	X(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease) \
	X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2) \
	X(cuDevicePrimaryCtxReset, 7000, cuDevicePrimaryCtxReset) \
	X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) \
	X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxSetFlags, 7000, cuDevicePrimaryCtxSetFlags) \
	X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2) \
	X(cuDeviceRegisterAsyncNotification, 12040, cuDeviceRegisterAsyncNotification) \
	X(cuDeviceSetGraphMemAttribute, 11040, cuDeviceSetGraphMemAttribute) \
	X(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool) \
	X(cuDeviceTotalMem, 2000, cuDeviceTotalMem) \
	X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2) \
	X(cuDeviceUnregisterAsyncNotification, 12040, cuDeviceUnregisterAsyncNotification) \
	X(cuDriverGetVersion, 2020, cuDriverGetVersion) X(cuEventCreate, 2000, cuEventCreate) \
	X(cuEventDestroy, 2000, cuEventDestroy) X(cuEventDestroy, 4000, cuEventDestroy_v2) \
	X(cuEventElapsedTime, 2000, cuEventElapsedTime) \
	X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2) X(cuEventQuery, 2000, cuEventQuery) \
	X(cuEventRecord, 2000, cuEventRecord) \
	X(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags) \
	X(cuEventSynchronize, 2000, cuEventSynchronize) \
	X(cuExternalMemoryGetMappedBuffer, 10000, cuExternalMemoryGetMappedBuffer) \
	X(cuExternalMemoryGetMappedMipmappedArray, \
		10000, cuExternalMemoryGetMappedMipmappedArray) \
	X(cuFabricCpyBatchAsync, 13050, cuFabricCpyBatchAsync) \
	X(cuFlushGPUDirectRDMAWrites, 11030, cuFlushGPUDirectRDMAWrites) \
	X(cuFuncGetAttribute, 2020, cuFuncGetAttribute) \
	X(cuFuncGetModule, 11000, cuFuncGetModule) X(cuFuncGetName, 12030, cuFuncGetName) \
	X(cuFuncGetParamCount, 13020, cuFuncGetParamCount) \
	X(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo) \
	X(cuFuncIsLoaded, 12040, cuFuncIsLoaded) X(cuFuncLoad, 12040, cuFuncLoad) \
	X(cuFuncSetAttribute, 9000, cuFuncSetAttribute) \
	X(cuFuncSetBlockShape, 2000, cuFuncSetBlockShape) \
	X(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig) \
	X(cuFuncSetSharedMemConfig, 4020, cuFuncSetSharedMemConfig) \
	X(cuFuncSetSharedSize, 2000, cuFuncSetSharedSize) \
	X(cuGetErrorName, 6000, cuGetErrorName) X(cuGetErrorString, 6000, cuGetErrorString) \
	X(cuGetExportTable, 3000, cuGetExportTable) X(cuGetProcAddress, 11030, cuGetProcAddress) \
	X(cuGetProcAddress, 12000, cuGetProcAddress_v2) \
	X(cuGraphAddBatchMemOpNode, 11070, cuGraphAddBatchMemOpNode) \
	X(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode) \
	X(cuGraphAddDependencies, 10000, cuGraphAddDependencies) \
	X(cuGraphAddDependencies, 12030, cuGraphAddDependencies_v2) \
	X(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode) \
	X(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode) \
	X(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode) \
	X(cuGraphAddExternalSemaphoresSignalNode, 11020, cuGraphAddExternalSemaphoresSignalNode) \
	X(cuGraphAddExternalSemaphoresWaitNode, 11020, cuGraphAddExternalSemaphoresWaitNode) \
	X(cuGraphAddHostNode, 10000, cuGraphAddHostNode) \
	X(cuGraphAddKernelNode, 10000, cuGraphAddKernelNode) \
	X(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2) \
	X(cuGraphAddMemAllocNode, 11040, cuGraphAddMemAllocNode) \
	X(cuGraphAddMemFreeNode, 11040, cuGraphAddMemFreeNode) \
	X(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode) \
	X(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode) \
	X(cuGraphAddNode, 12020, cuGraphAddNode) X(cuGraphAddNode, 12030, cuGraphAddNode_v2) \
	X(cuGraphAddNode, 13040, cuGraphAddNode_v3) \
	X(cuGraphBatchMemOpNodeGetParams, 11070, cuGraphBatchMemOpNodeGetParams) \
	X(cuGraphBatchMemOpNodeSetParams, 11070, cuGraphBatchMemOpNodeSetParams) \
	X(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph) \
	X(cuGraphClone, 10000, cuGraphClone) \
	X(cuGraphConditionalHandleCreate, 12030, cuGraphConditionalHandleCreate) \
	X(cuGraphCreate, 10000, cuGraphCreate) \
	X(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint) \
	X(cuGraphDestroy, 10000, cuGraphDestroy) \
	X(cuGraphDestroyNode, 10000, cuGraphDestroyNode) \
	X(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent) \
	X(cuGraphEventRecordNodeSetEvent, 11010, cuGraphEventRecordNodeSetEvent) \
	X(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent) \
	X(cuGraphEventWaitNodeSetEvent, 11010, cuGraphEventWaitNodeSetEvent) \
	X(cuGraphExecBatchMemOpNodeSetParams, 11070, cuGraphExecBatchMemOpNodeSetParams) \
	X(cuGraphExecChildGraphNodeSetParams, 11010, cuGraphExecChildGraphNodeSetParams) \
	X(cuGraphExecDestroy, 10000, cuGraphExecDestroy) \
	X(cuGraphExecEventRecordNodeSetEvent, 11010, cuGraphExecEventRecordNodeSetEvent) \
	X(cuGraphExecEventWaitNodeSetEvent, 11010, cuGraphExecEventWaitNodeSetEvent) \
	X(cuGraphExecExternalSemaphoresSignalNodeSetParams, \
		11020, cuGraphExecExternalSemaphoresSignalNodeSetParams) \
	X(cuGraphExecExternalSemaphoresWaitNodeSetParams, \
		11020, cuGraphExecExternalSemaphoresWaitNodeSetParams) \
	X(cuGraphExecGetFlags, 12000, cuGraphExecGetFlags) \
	X(cuGraphExecGetId, 13010, cuGraphExecGetId) \
	X(cuGraphExecHostNodeSetParams, 10020, cuGraphExecHostNodeSetParams) \
	X(cuGraphExecKernelNodeSetParams, 10010, cuGraphExecKernelNodeSetParams) \
	X(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2) \
	X(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams) \
	X(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams) \
	X(cuGraphExecNodeSetParams, 12020, cuGraphExecNodeSetParams) \
	X(cuGraphExecUpdate, 10020, cuGraphExecUpdate) \
	X(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2) \
	X(cuGraphExternalSemaphoresSignalNodeGetParams, \
		11020, cuGraphExternalSemaphoresSignalNodeGetParams) \
	X(cuGraphExternalSemaphoresSignalNodeSetParams, \
		11020, cuGraphExternalSemaphoresSignalNodeSetParams) \
	X(cuGraphExternalSemaphoresWaitNodeGetParams, \
		11020, cuGraphExternalSemaphoresWaitNodeGetParams) \
	X(cuGraphExternalSemaphoresWaitNodeSetParams, \
		11020, cuGraphExternalSemaphoresWaitNodeSetParams) \
	X(cuGraphGetEdges, 10000, cuGraphGetEdges) X(cuGraphGetEdges, 12030, cuGraphGetEdges_v2) \
	X(cuGraphGetId, 13010, cuGraphGetId) X(cuGraphGetNodes, 10000, cuGraphGetNodes) \
	X(cuGraphGetRootNodes, 10000, cuGraphGetRootNodes) \
	X(cuGraphHostNodeGetParams, 10000, cuGraphHostNodeGetParams) \
	X(cuGraphHostNodeSetParams, 10000, cuGraphHostNodeSetParams) \
	X(cuGraphInstantiate, 10000, cuGraphInstantiate) \
	X(cuGraphInstantiate, 11000, cuGraphInstantiate_v2) \
	X(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags) \
	X(cuGraphInstantiateWithParams, 12000, cuGraphInstantiateWithParams) \
	X(cuGraphKernelNodeCopyAttributes, 11000, cuGraphKernelNodeCopyAttributes) \
	X(cuGraphKernelNodeGetAttribute, 11000, cuGraphKernelNodeGetAttribute) \
	X(cuGraphKernelNodeGetParams, 10000, cuGraphKernelNodeGetParams) \
	X(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2) \
	X(cuGraphKernelNodeSetAttribute, 11000, cuGraphKernelNodeSetAttribute) \
	X(cuGraphKernelNodeSetParams, 10000, cuGraphKernelNodeSetParams) \
	X(cuGraphKernelNodeSetParams, 12000, cuGraphKernelNodeSetParams_v2) \
	X(cuGraphLaunch, 10000, cuGraphLaunch) \
	X(cuGraphMemAllocNodeGetParams, 11040, cuGraphMemAllocNodeGetParams) \
	X(cuGraphMemFreeNodeGetParams, 11040, cuGraphMemFreeNodeGetParams) \
	X(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams) \
	X(cuGraphMemcpyNodeSetParams, 10000, cuGraphMemcpyNodeSetParams) \
	X(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams) \
	X(cuGraphMemsetNodeSetParams, 10000, cuGraphMemsetNodeSetParams) \
	X(cuGraphNodeFindInClone, 10000, cuGraphNodeFindInClone) \
	X(cuGraphNodeGetContainingGraph, 13010, cuGraphNodeGetContainingGraph) \
	X(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies) \
	X(cuGraphNodeGetDependencies, 12030, cuGraphNodeGetDependencies_v2) \
	X(cuGraphNodeGetDependentNodes, 10000, cuGraphNodeGetDependentNodes) \
	X(cuGraphNodeGetDependentNodes, 12030, cuGraphNodeGetDependentNodes_v2) \
	X(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled) \
	X(cuGraphNodeGetLocalId, 13010, cuGraphNodeGetLocalId) \
	X(cuGraphNodeGetParams, 13020, cuGraphNodeGetParams) \
	X(cuGraphNodeGetToolsId, 13010, cuGraphNodeGetToolsId) \
	X(cuGraphNodeGetType, 10000, cuGraphNodeGetType) \
	X(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled) \
	X(cuGraphNodeSetParams, 12020, cuGraphNodeSetParams) \
	X(cuGraphNodeSetParams, 13040, cuGraphNodeSetParams_v2) \
	X(cuGraphReleaseUserObject, 11030, cuGraphReleaseUserObject) \
	X(cuGraphRemoveDependencies, 10000, cuGraphRemoveDependencies) \
	X(cuGraphRemoveDependencies, 12030, cuGraphRemoveDependencies_v2) \
	X(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject) \
	X(cuGraphUpload, 11010, cuGraphUpload) \
	X(cuGraphicsMapResources, 3000, cuGraphicsMapResources) \
	X(cuGraphicsResourceGetMappedMipmappedArray, \
		5000, cuGraphicsResourceGetMappedMipmappedArray) \
	X(cuGraphicsResourceGetMappedPointer, 3000, cuGraphicsResourceGetMappedPointer) \
	X(cuGraphicsResourceGetMappedPointer, 3020, cuGraphicsResourceGetMappedPointer_v2) \
	X(cuGraphicsResourceSetMapFlags, 3000, cuGraphicsResourceSetMapFlags) \
	X(cuGraphicsResourceSetMapFlags, 6050, cuGraphicsResourceSetMapFlags_v2) \
	X(cuGraphicsSubResourceGetMappedArray, 3000, cuGraphicsSubResourceGetMappedArray) \
	X(cuGraphicsUnmapResources, 3000, cuGraphicsUnmapResources) \
	X(cuGraphicsUnregisterResource, 3000, cuGraphicsUnregisterResource) \
	X(cuGreenCtxCreate, 12040, cuGreenCtxCreate) \
	X(cuGreenCtxDestroy, 12040, cuGreenCtxDestroy) \
	X(cuGreenCtxGetDevResource, 12040, cuGreenCtxGetDevResource) \
	X(cuGreenCtxGetId, 12090, cuGreenCtxGetId) \
	X(cuGreenCtxRecordEvent, 12040, cuGreenCtxRecordEvent) \
	X(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate) \
	X(cuGreenCtxWaitEvent, 12040, cuGreenCtxWaitEvent) \
	X(cuImportExternalMemory, 10000, cuImportExternalMemory) \
	X(cuImportExternalSemaphore, 10000, cuImportExternalSemaphore) X(cuInit, 2000, cuInit) \
	X(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle) \
	X(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle) \
	X(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle) \
	X(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle) \
	X(cuIpcOpenMemHandle, 4010, cuIpcOpenMemHandle) \
	X(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2) \
	X(cuKernelGetAttribute, 12000, cuKernelGetAttribute) \
	X(cuKernelGetFunction, 12000, cuKernelGetFunction) \
	X(cuKernelGetLibrary, 12050, cuKernelGetLibrary) \
	X(cuKernelGetName, 12030, cuKernelGetName) \
	X(cuKernelGetParamCount, 13020, cuKernelGetParamCount) \
	X(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo) \
	X(cuKernelSetAttribute, 12000, cuKernelSetAttribute) \
	X(cuKernelSetCacheConfig, 12000, cuKernelSetCacheConfig) X(cuLaunch, 2000, cuLaunch) \
	X(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel) \
	X(cuLaunchCooperativeKernelMultiDevice, 9000, cuLaunchCooperativeKernelMultiDevice) \
	X(cuLaunchGrid, 2000, cuLaunchGrid) X(cuLaunchGridAsync, 2000, cuLaunchGridAsync) \
	X(cuLaunchHostFunc, 10000, cuLaunchHostFunc) \
	X(cuLaunchHostFunc, 13010, cuLaunchHostFunc_v2) X(cuLaunchKernel, 4000, cuLaunchKernel) \
	X(cuLaunchKernelEx, 11060, cuLaunchKernelEx) \
	X(cuLibraryEnumerateKernels, 12040, cuLibraryEnumerateKernels) \
	X(cuLibraryGetGlobal, 12000, cuLibraryGetGlobal) \
	X(cuLibraryGetKernel, 12000, cuLibraryGetKernel) \
	X(cuLibraryGetKernelCount, 12040, cuLibraryGetKernelCount) \
	X(cuLibraryGetManaged, 12000, cuLibraryGetManaged) \
	X(cuLibraryGetModule, 12000, cuLibraryGetModule) \
	X(cuLibraryGetUnifiedFunction, 12000, cuLibraryGetUnifiedFunction) \
	X(cuLibraryLoadData, 12000, cuLibraryLoadData) \
	X(cuLibraryLoadFromFile, 12000, cuLibraryLoadFromFile) \
	X(cuLibraryUnload, 12000, cuLibraryUnload) X(cuLinkAddData, 5050, cuLinkAddData) \
	X(cuLinkAddData, 6050, cuLinkAddData_v2) X(cuLinkAddFile, 5050, cuLinkAddFile) \
	X(cuLinkAddFile, 6050, cuLinkAddFile_v2) X(cuLinkComplete, 5050, cuLinkComplete) \
	X(cuLinkCreate, 5050, cuLinkCreate) X(cuLinkCreate, 6050, cuLinkCreate_v2) \
	X(cuLinkDestroy, 5050, cuLinkDestroy) \
	X(cuLogicalEndpointAddDevice, 13030, cuLogicalEndpointAddDevice) \
	X(cuLogicalEndpointBindAddr, 13030, cuLogicalEndpointBindAddr) \
	X(cuLogicalEndpointBindMem, 13030, cuLogicalEndpointBindMem) \
	X(cuLogicalEndpointCreate, 13030, cuLogicalEndpointCreate) \
	X(cuLogicalEndpointDestroy, 13030, cuLogicalEndpointDestroy) \
	X(cuLogicalEndpointExport, 13030, cuLogicalEndpointExport) \
	X(cuLogicalEndpointGetLimits, 13030, cuLogicalEndpointGetLimits) \
	X(cuLogicalEndpointIdRelease, 13030, cuLogicalEndpointIdRelease) \
	X(cuLogicalEndpointIdReserve, 13030, cuLogicalEndpointIdReserve) \
	X(cuLogicalEndpointImport, 13030, cuLogicalEndpointImport) \
	X(cuLogicalEndpointQuery, 13030, cuLogicalEndpointQuery) \
	X(cuLogicalEndpointUnbind, 13030, cuLogicalEndpointUnbind) \
	X(cuLogsCurrent, 12090, cuLogsCurrent) X(cuLogsDumpToFile, 12090, cuLogsDumpToFile) \
	X(cuLogsDumpToMemory, 12090, cuLogsDumpToMemory) \
	X(cuLogsRegisterCallback, 12090, cuLogsRegisterCallback) \
	X(cuLogsUnregisterCallback, 12090, cuLogsUnregisterCallback) \
	X(cuMemAddressFree, 10020, cuMemAddressFree) \
	X(cuMemAddressReserve, 10020, cuMemAddressReserve) X(cuMemAdvise, 8000, cuMemAdvise) \
	X(cuMemAdvise, 12020, cuMemAdvise_v2) X(cuMemAlloc, 2000, cuMemAlloc) \
	X(cuMemAlloc, 3020, cuMemAlloc_v2) X(cuMemAllocAsync, 11020, cuMemAllocAsync) \
	X(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync) \
	X(cuMemAllocHost, 2000, cuMemAllocHost) X(cuMemAllocHost, 3020, cuMemAllocHost_v2) \
	X(cuMemAllocManaged, 6000, cuMemAllocManaged) X(cuMemAllocPitch, 2000, cuMemAllocPitch) \
	X(cuMemAllocPitch, 3020, cuMemAllocPitch_v2) \
	X(cuMemBatchDecompressAsync, 12060, cuMemBatchDecompressAsync) \
	X(cuMemCreate, 10020, cuMemCreate) \
	X(cuMemDiscardAndPrefetchBatchAsync, 13000, cuMemDiscardAndPrefetchBatchAsync) \
	X(cuMemDiscardBatchAsync, 13000, cuMemDiscardBatchAsync) \
	X(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle) \
	X(cuMemFree, 2000, cuMemFree) X(cuMemFree, 3020, cuMemFree_v2) \
	X(cuMemFreeAsync, 11020, cuMemFreeAsync) X(cuMemFreeHost, 2000, cuMemFreeHost) \
	X(cuMemGetAccess, 10020, cuMemGetAccess) \
	X(cuMemGetAddressRange, 2000, cuMemGetAddressRange) \
	X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2) \
	X(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity) \
	X(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle) \
	X(cuMemGetDefaultMemPool, 13000, cuMemGetDefaultMemPool) \
	X(cuMemGetHandleForAddressRange, 11070, cuMemGetHandleForAddressRange) \
	X(cuMemGetInfo, 2000, cuMemGetInfo) X(cuMemGetInfo, 3020, cuMemGetInfo_v2) \
	X(cuMemGetLocationInfo, 13040, cuMemGetLocationInfo) \
	X(cuMemGetMemPool, 13000, cuMemGetMemPool) X(cuMemHostAlloc, 2020, cuMemHostAlloc) \
	X(cuMemHostGetDevicePointer, 2020, cuMemHostGetDevicePointer) \
	X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2) \
	X(cuMemHostGetFlags, 2030, cuMemHostGetFlags) \
	X(cuMemHostRegister, 4000, cuMemHostRegister) \
	X(cuMemHostRegister, 6050, cuMemHostRegister_v2) \
	X(cuMemHostUnregister, 4000, cuMemHostUnregister) \
	X(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle) \
	X(cuMemMap, 10020, cuMemMap) X(cuMemMapArrayAsync, 11010, cuMemMapArrayAsync) \
	X(cuMemPoolCreate, 11020, cuMemPoolCreate) X(cuMemPoolDestroy, 11020, cuMemPoolDestroy) \
	X(cuMemPoolExportPointer, 11020, cuMemPoolExportPointer) \
	X(cuMemPoolExportToShareableHandle, 11020, cuMemPoolExportToShareableHandle) \
	X(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess) \
	X(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute) \
	X(cuMemPoolImportFromShareableHandle, 11020, cuMemPoolImportFromShareableHandle) \
	X(cuMemPoolImportPointer, 11020, cuMemPoolImportPointer) \
	X(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess) \
	X(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute) \
	X(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo) \
	X(cuMemPrefetchAsync, 8000, cuMemPrefetchAsync) \
	X(cuMemPrefetchAsync, 12020, cuMemPrefetchAsync_v2) \
	X(cuMemPrefetchBatchAsync, 13000, cuMemPrefetchBatchAsync) \
	X(cuMemRangeGetAttribute, 8000, cuMemRangeGetAttribute) \
	X(cuMemRangeGetAttributes, 8000, cuMemRangeGetAttributes) \
	X(cuMemRelease, 10020, cuMemRelease) \
	X(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle) \
	X(cuMemSetAccess, 10020, cuMemSetAccess) X(cuMemSetMemPool, 13000, cuMemSetMemPool) \
	X(cuMemUnmap, 10020, cuMemUnmap) X(cuMemcpy, 4000, cuMemcpy) \
	X(cuMemcpy2D, 2000, cuMemcpy2D) X(cuMemcpy2D, 3020, cuMemcpy2D_v2) \
	X(cuMemcpy2DAsync, 2000, cuMemcpy2DAsync) X(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2) \
	X(cuMemcpy2DUnaligned, 2000, cuMemcpy2DUnaligned) \
	X(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2) X(cuMemcpy3D, 2000, cuMemcpy3D) \
	X(cuMemcpy3D, 3020, cuMemcpy3D_v2) X(cuMemcpy3DAsync, 2000, cuMemcpy3DAsync) \
	X(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2) \
	X(cuMemcpy3DBatchAsync, 12080, cuMemcpy3DBatchAsync) \
	X(cuMemcpy3DBatchAsync, 13000, cuMemcpy3DBatchAsync_v2) \
	X(cuMemcpy3DPeer, 4000, cuMemcpy3DPeer) \
	X(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync) \
	X(cuMemcpy3DWithAttributesAsync, 13020, cuMemcpy3DWithAttributesAsync) \
	X(cuMemcpyAsync, 4000, cuMemcpyAsync) X(cuMemcpyAtoA, 2000, cuMemcpyAtoA) \
	X(cuMemcpyAtoA, 3020, cuMemcpyAtoA_v2) X(cuMemcpyAtoD, 2000, cuMemcpyAtoD) \
	X(cuMemcpyAtoD, 3020, cuMemcpyAtoD_v2) X(cuMemcpyAtoH, 2000, cuMemcpyAtoH) \
	X(cuMemcpyAtoH, 3020, cuMemcpyAtoH_v2) X(cuMemcpyAtoHAsync, 2000, cuMemcpyAtoHAsync) \
	X(cuMemcpyAtoHAsync, 3020, cuMemcpyAtoHAsync_v2) \
	X(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync) \
	X(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2) X(cuMemcpyDtoA, 2000, cuMemcpyDtoA) \
	X(cuMemcpyDtoA, 3020, cuMemcpyDtoA_v2) X(cuMemcpyDtoD, 2000, cuMemcpyDtoD) \
	X(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2) X(cuMemcpyDtoDAsync, 3000, cuMemcpyDtoDAsync) \
	X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2) X(cuMemcpyDtoH, 2000, cuMemcpyDtoH) \
	X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2) X(cuMemcpyDtoHAsync, 2000, cuMemcpyDtoHAsync) \
	X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2) X(cuMemcpyHtoA, 2000, cuMemcpyHtoA) \
	X(cuMemcpyHtoA, 3020, cuMemcpyHtoA_v2) X(cuMemcpyHtoAAsync, 2000, cuMemcpyHtoAAsync) \
	X(cuMemcpyHtoAAsync, 3020, cuMemcpyHtoAAsync_v2) X(cuMemcpyHtoD, 2000, cuMemcpyHtoD) \
	X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync, 2000, cuMemcpyHtoDAsync) \
	X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2) X(cuMemcpyPeer, 4000, cuMemcpyPeer) \
	X(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync) \
	X(cuMemcpyWithAttributesAsync, 13020, cuMemcpyWithAttributesAsync) \
	X(cuMemsetD16, 2000, cuMemsetD16) X(cuMemsetD16, 3020, cuMemsetD16_v2) \
	X(cuMemsetD16Async, 3020, cuMemsetD16Async) X(cuMemsetD2D16, 2000, cuMemsetD2D16) \
	X(cuMemsetD2D16, 3020, cuMemsetD2D16_v2) X(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async) \
	X(cuMemsetD2D32, 2000, cuMemsetD2D32) X(cuMemsetD2D32, 3020, cuMemsetD2D32_v2) \
	X(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async) X(cuMemsetD2D8, 2000, cuMemsetD2D8) \
	X(cuMemsetD2D8, 3020, cuMemsetD2D8_v2) X(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async) \
	X(cuMemsetD32, 2000, cuMemsetD32) X(cuMemsetD32, 3020, cuMemsetD32_v2) \
	X(cuMemsetD32Async, 3020, cuMemsetD32Async) X(cuMemsetD8, 2000, cuMemsetD8) \
	X(cuMemsetD8, 3020, cuMemsetD8_v2) X(cuMemsetD8Async, 3020, cuMemsetD8Async) \
	X(cuMipmappedArrayCreate, 5000, cuMipmappedArrayCreate) \
	X(cuMipmappedArrayDestroy, 5000, cuMipmappedArrayDestroy) \
	X(cuMipmappedArrayGetLevel, 5000, cuMipmappedArrayGetLevel) \
	X(cuMipmappedArrayGetMemoryRequirements, 11060, cuMipmappedArrayGetMemoryRequirements) \
	X(cuMipmappedArrayGetSparseProperties, 11010, cuMipmappedArrayGetSparseProperties) \
	X(cuModuleEnumerateFunctions, 12040, cuModuleEnumerateFunctions) \
	X(cuModuleGetFunction, 2000, cuModuleGetFunction) \
	X(cuModuleGetFunctionCount, 12040, cuModuleGetFunctionCount) \
	X(cuModuleGetGlobal, 2000, cuModuleGetGlobal) \
	X(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2) \
	X(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode) \
	X(cuModuleGetSurfRef, 3000, cuModuleGetSurfRef) \
	X(cuModuleGetTexRef, 2000, cuModuleGetTexRef) X(cuModuleLoad, 2000, cuModuleLoad) \
	X(cuModuleLoadData, 2000, cuModuleLoadData) \
	X(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx) \
	X(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary) \
	X(cuModuleUnload, 2000, cuModuleUnload) \
	X(cuMulticastAddDevice, 12010, cuMulticastAddDevice) \
	X(cuMulticastBindAddr, 12010, cuMulticastBindAddr) \
	X(cuMulticastBindAddr, 13010, cuMulticastBindAddr_v2) \
	X(cuMulticastBindMem, 12010, cuMulticastBindMem) \
	X(cuMulticastBindMem, 13010, cuMulticastBindMem_v2) \
	X(cuMulticastCreate, 12010, cuMulticastCreate) \
	X(cuMulticastGetGranularity, 12010, cuMulticastGetGranularity) \
	X(cuMulticastUnbind, 12010, cuMulticastUnbind) \
	X(cuOccupancyAvailableDynamicSMemPerBlock, \
		10020, cuOccupancyAvailableDynamicSMemPerBlock) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, \
		6050, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, \
		7000, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
	X(cuOccupancyMaxActiveClusters, 11070, cuOccupancyMaxActiveClusters) \
	X(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize) \
	X(cuOccupancyMaxPotentialBlockSizeWithFlags, \
		7000, cuOccupancyMaxPotentialBlockSizeWithFlags) \
	X(cuOccupancyMaxPotentialClusterSize, 11070, cuOccupancyMaxPotentialClusterSize) \
	X(cuParamSetSize, 2000, cuParamSetSize) X(cuParamSetTexRef, 2000, cuParamSetTexRef) \
	X(cuParamSetf, 2000, cuParamSetf) X(cuParamSeti, 2000, cuParamSeti) \
	X(cuParamSetv, 2000, cuParamSetv) X(cuPointerGetAttribute, 4000, cuPointerGetAttribute) \
	X(cuPointerGetAttributes, 7000, cuPointerGetAttributes) \
	X(cuPointerSetAttribute, 6000, cuPointerSetAttribute) \
	X(cuSignalExternalSemaphoresAsync, 10000, cuSignalExternalSemaphoresAsync) \
	X(cuStreamAddCallback, 5000, cuStreamAddCallback) \
	X(cuStreamAttachMemAsync, 6000, cuStreamAttachMemAsync) \
	X(cuStreamBatchMemOp, 8000, cuStreamBatchMemOp) \
	X(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2) \
	X(cuStreamBeginCapture, 10000, cuStreamBeginCapture) \
	X(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2) \
	X(cuStreamBeginCaptureToCig, 13010, cuStreamBeginCaptureToCig) \
	X(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph) \
	X(cuStreamBeginRecaptureToGraph, 13030, cuStreamBeginRecaptureToGraph) \
	X(cuStreamCopyAttributes, 11000, cuStreamCopyAttributes) \
	X(cuStreamCreate, 2000, cuStreamCreate) \
	X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority) \
	X(cuStreamDestroy, 2000, cuStreamDestroy) X(cuStreamDestroy, 4000, cuStreamDestroy_v2) \
	X(cuStreamEndCapture, 10000, cuStreamEndCapture) \
	X(cuStreamEndCaptureToCig, 13010, cuStreamEndCaptureToCig) \
	X(cuStreamGetAttribute, 11000, cuStreamGetAttribute) \
	X(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo) \
	X(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2) \
	X(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3) \
	X(cuStreamGetCtx, 9020, cuStreamGetCtx) X(cuStreamGetCtx, 12050, cuStreamGetCtx_v2) \
	X(cuStreamGetDevResource, 13010, cuStreamGetDevResource) \
	X(cuStreamGetDevice, 12080, cuStreamGetDevice) \
	X(cuStreamGetFlags, 5050, cuStreamGetFlags) \
	X(cuStreamGetGreenCtx, 12040, cuStreamGetGreenCtx) \
	X(cuStreamGetId, 12000, cuStreamGetId) X(cuStreamGetPriority, 5050, cuStreamGetPriority) \
	X(cuStreamIsCapturing, 10000, cuStreamIsCapturing) X(cuStreamQuery, 2000, cuStreamQuery) \
	X(cuStreamSetAttribute, 11000, cuStreamSetAttribute) \
	X(cuStreamSynchronize, 2000, cuStreamSynchronize) \
	X(cuStreamUpdateCaptureDependencies, 11030, cuStreamUpdateCaptureDependencies) \
	X(cuStreamUpdateCaptureDependencies, 12030, cuStreamUpdateCaptureDependencies_v2) \
	X(cuStreamWaitEvent, 3020, cuStreamWaitEvent) \
	X(cuStreamWaitValue32, 8000, cuStreamWaitValue32) \
	X(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2) \
	X(cuStreamWaitValue64, 9000, cuStreamWaitValue64) \
	X(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2) \
	X(cuStreamWriteValue32, 8000, cuStreamWriteValue32) \
	X(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2) \
	X(cuStreamWriteValue64, 9000, cuStreamWriteValue64) \
	X(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2) \
	X(cuSurfObjectCreate, 5000, cuSurfObjectCreate) \
	X(cuSurfObjectDestroy, 5000, cuSurfObjectDestroy) \
	X(cuSurfObjectGetResourceDesc, 5000, cuSurfObjectGetResourceDesc) \
	X(cuSurfRefGetArray, 3000, cuSurfRefGetArray) \
	X(cuSurfRefSetArray, 3000, cuSurfRefSetArray) \
	X(cuTensorMapEncodeIm2col, 12000, cuTensorMapEncodeIm2col) \
	X(cuTensorMapEncodeIm2colWide, 12080, cuTensorMapEncodeIm2colWide) \
	X(cuTensorMapEncodeTiled, 12000, cuTensorMapEncodeTiled) \
	X(cuTensorMapReplaceAddress, 12000, cuTensorMapReplaceAddress) \
	X(cuTensorMapSetAllocationClass, 13050, cuTensorMapSetAllocationClass) \
	X(cuTexObjectCreate, 5000, cuTexObjectCreate) \
	X(cuTexObjectDestroy, 5000, cuTexObjectDestroy) \
	X(cuTexObjectGetResourceDesc, 5000, cuTexObjectGetResourceDesc) \
	X(cuTexObjectGetResourceViewDesc, 5000, cuTexObjectGetResourceViewDesc) \
	X(cuTexObjectGetTextureDesc, 5000, cuTexObjectGetTextureDesc) \
	X(cuTexRefCreate, 2000, cuTexRefCreate) X(cuTexRefDestroy, 2000, cuTexRefDestroy) \
	X(cuTexRefGetAddress, 2000, cuTexRefGetAddress) \
	X(cuTexRefGetAddress, 3020, cuTexRefGetAddress_v2) \
	X(cuTexRefGetAddressMode, 2000, cuTexRefGetAddressMode) \
	X(cuTexRefGetArray, 2000, cuTexRefGetArray) \
	X(cuTexRefGetBorderColor, 8000, cuTexRefGetBorderColor) \
	X(cuTexRefGetFilterMode, 2000, cuTexRefGetFilterMode) \
	X(cuTexRefGetFlags, 2000, cuTexRefGetFlags) \
	X(cuTexRefGetFormat, 2000, cuTexRefGetFormat) \
	X(cuTexRefGetMaxAnisotropy, 5000, cuTexRefGetMaxAnisotropy) \
	X(cuTexRefGetMipmapFilterMode, 5000, cuTexRefGetMipmapFilterMode) \
	X(cuTexRefGetMipmapLevelBias, 5000, cuTexRefGetMipmapLevelBias) \
	X(cuTexRefGetMipmapLevelClamp, 5000, cuTexRefGetMipmapLevelClamp) \
	X(cuTexRefGetMipmappedArray, 5000, cuTexRefGetMipmappedArray) \
	X(cuTexRefSetAddress, 2000, cuTexRefSetAddress) \
	X(cuTexRefSetAddress, 3020, cuTexRefSetAddress_v2) \
	X(cuTexRefSetAddress2D, 2020, cuTexRefSetAddress2D) \
	X(cuTexRefSetAddress2D, 3020, cuTexRefSetAddress2D_v2) \
	X(cuTexRefSetAddress2D, 4010, cuTexRefSetAddress2D_v3) \
	X(cuTexRefSetAddressMode, 2000, cuTexRefSetAddressMode) \
	X(cuTexRefSetArray, 2000, cuTexRefSetArray) \
	X(cuTexRefSetBorderColor, 8000, cuTexRefSetBorderColor) \
	X(cuTexRefSetFilterMode, 2000, cuTexRefSetFilterMode) \
	X(cuTexRefSetFlags, 2000, cuTexRefSetFlags) \
	X(cuTexRefSetFormat, 2000, cuTexRefSetFormat) \
	X(cuTexRefSetMaxAnisotropy, 5000, cuTexRefSetMaxAnisotropy) \
	X(cuTexRefSetMipmapFilterMode, 5000, cuTexRefSetMipmapFilterMode) \
	X(cuTexRefSetMipmapLevelBias, 5000, cuTexRefSetMipmapLevelBias) \
	X(cuTexRefSetMipmapLevelClamp, 5000, cuTexRefSetMipmapLevelClamp) \
	X(cuTexRefSetMipmappedArray, 5000, cuTexRefSetMipmappedArray) \
	X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode) \
	X(cuUserObjectCreate, 11030, cuUserObjectCreate) \
	X(cuUserObjectRelease, 11030, cuUserObjectRelease) \
	X(cuUserObjectRetain, 11030, cuUserObjectRetain) \
	X(cuWaitExternalSemaphoresAsync, 10000, cuWaitExternalSemaphoresAsync)
/* clang-format on */

#endif
