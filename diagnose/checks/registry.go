package checks

// Device are the checks of one device, in the order in which findings of the same
// weight stand.
func Device() []Check {
	return []Check{oomTrueShortage, oomFragmentation, oomMemoryFraction, oomOtherProcess, oomPendingFree,
		missingNoGrad, growingList,
		retainedGraph, gradientsKept, staleOutputs, firstStepState, varyingShapes, fragmentationCreep, gradientsUnused,
		resultsCollected, logitsDominate, checkpointingAbsent, checkpointingIneffective, attentionMatrices,
		optimizerTemporaries, ownTemporaries, weightsTwice, weightsUpcast, autocastCopies, kvCacheInTraining, inputsKept,
		dataParallel, unevenDevices,
		emptyCacheInLoop, cacheFlushed, allocatorSetting, privatePools, pinnedHostMemory, recordingEmpty, recordingLate,
		recordingOverflowed, recordingStopped, recordingWithoutStacks, damage}
}
