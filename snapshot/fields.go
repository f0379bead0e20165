package snapshot

// field is a key that this package reads.
type field uint8

const (
	fieldUnknown field = iota
	fieldAction
	fieldAddr
	fieldSize
	fieldStream
	fieldTime
	fieldFrames
	fieldContext
	fieldMetadata
	fieldPoolID
	fieldDeviceFree
	fieldDevice
	fieldAddress
	fieldTotalSize
	fieldAllocatedSize
	fieldActiveSize
	fieldRequestedSize
	fieldSegmentType
	fieldSegmentPool
	fieldExpandable
	fieldBlocks
	fieldState
	fieldHistory
	fieldRealSize
	fieldName
	fieldFilename
	fieldLine
	fieldStage
	fieldSegments
	fieldTraces
	fieldSettings
	fieldAnnotations
	fieldHostSegments
	fieldHostTraces
	fieldCategories
	fieldConf
	fieldMaxSplit
	fieldGarbage
	fieldExpandableSegments
	fieldRegisterThreads
	fieldReleaseLock
	fieldHostRegister
	fieldCaptureReuse
	fieldRoundup
	fieldCount
)

// key is how the file spells a field. Sources: torch/cuda/_memory_viz.py and
// torch/csrc/cuda/memory_snapshot.cpp of PyTorch.
func (f field) key() string {
	if f < fieldName {
		return f.allocatorKey()
	}
	switch f {
	case fieldName:
		return "name"
	case fieldFilename:
		return "filename"
	case fieldLine:
		return "line"
	case fieldStage:
		return "stage"
	case fieldSegments:
		return "segments"
	case fieldTraces:
		return "device_traces"
	case fieldSettings:
		return "allocator_settings"
	case fieldAnnotations:
		return "external_annotations"
	case fieldHostSegments:
		return "host_segments"
	case fieldHostTraces:
		return "host_traces"
	case fieldCategories:
		return "categories"
	case fieldConf:
		return "PYTORCH_CUDA_ALLOC_CONF"
	case fieldMaxSplit:
		return "max_split_size"
	case fieldGarbage:
		return "garbage_collection_threshold"
	case fieldExpandableSegments:
		return "expandable_segments"
	case fieldRegisterThreads:
		return "pinned_num_register_threads"
	case fieldReleaseLock:
		return "release_lock_on_cudamalloc"
	case fieldHostRegister:
		return "pinned_use_cuda_host_register"
	case fieldCaptureReuse:
		return "graph_capture_record_stream_reuse"
	case fieldRoundup:
		return "roundup_power2_divisions"
	}
	return ""
}

// allocatorKey spells the fields of entries, segments and blocks.
func (f field) allocatorKey() string {
	switch f {
	case fieldAction:
		return "action"
	case fieldAddr:
		return "addr"
	case fieldSize:
		return "size"
	case fieldStream:
		return "stream"
	case fieldTime:
		return "time_us"
	case fieldFrames:
		return "frames"
	case fieldContext:
		return "compile_context"
	case fieldMetadata:
		return "user_metadata"
	case fieldPoolID:
		return "pool_id"
	case fieldDeviceFree:
		return "device_free"
	case fieldDevice:
		return "device"
	case fieldAddress:
		return "address"
	case fieldTotalSize:
		return "total_size"
	case fieldAllocatedSize:
		return "allocated_size"
	case fieldActiveSize:
		return "active_size"
	case fieldRequestedSize:
		return "requested_size"
	case fieldSegmentType:
		return "segment_type"
	case fieldSegmentPool:
		return "segment_pool_id"
	case fieldExpandable:
		return "is_expandable"
	case fieldBlocks:
		return "blocks"
	case fieldState:
		return "state"
	case fieldHistory:
		return "history"
	case fieldRealSize:
		return "real_size"
	}
	return ""
}

// fieldNamed is the field with that key; "PYTORCH_ALLOC_CONF" is the newer name
// of fieldConf.
func fieldNamed(key string) field {
	if key == "PYTORCH_ALLOC_CONF" {
		return fieldConf
	}
	for f := fieldAction; f < fieldCount; f++ {
		if f.key() == key {
			return f
		}
	}
	return fieldUnknown
}

// opens reports whether a snapshot, or the list of its segments, can begin with
// that key.
func opens(key string) bool {
	switch f := fieldNamed(key); f {
	case fieldSegments, fieldTraces, fieldSettings, fieldAnnotations, fieldHostSegments, fieldHostTraces, fieldCategories:
		return true
	case fieldAddress, fieldTotalSize, fieldAllocatedSize, fieldActiveSize, fieldRequestedSize, fieldSegmentType,
		fieldSegmentPool, fieldExpandable, fieldBlocks, fieldDevice, fieldStream, fieldFrames:
		return true
	}
	return false
}
