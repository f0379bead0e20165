package record

// SnapshotFailure is a request that failed while a snapshot was recorded, and
// the state of the device at that event, when the allocator had released what it
// could. Class is absurd_size, exhaustion, fragmentation_plausible,
// limit_outside_allocator or cannot_tell, as for the failures of a log.
type SnapshotFailure struct {
	Event           int64          `json:"event"` // index of the trace entry
	Class           string         `json:"class"`
	Because         string         `json:"because"` // a sentence
	BecauseParts    []SentencePart `json:"because_parts"`
	RequestBytes    *int64         `json:"request_bytes"`
	ReservedBytes   *int64         `json:"reserved_bytes"`
	DeviceFreeBytes *int64         `json:"device_free_bytes"` // null where it was not recorded
	CapacityBytes   *int64         `json:"capacity_bytes"`    // reserved and free: what the allocator could have at most
	// AllocatedBytes is exact where the replay reproduces the recording, else
	// bounded from below; so is CachedBytes from above.
	AllocatedBytes    *int64 `json:"allocated_bytes"`
	AllocatedLowBytes *int64 `json:"allocated_low_bytes,omitempty"`
	CachedBytes       *int64 `json:"cached_bytes"` // reserved − active
	CachedHighBytes   *int64 `json:"cached_high_bytes,omitempty"`
	UnusableBytes     *int64 `json:"unusable_bytes"`     // cached in segments that something still uses
	LargestFreeBytes  *int64 `json:"largest_free_bytes"` // the largest cached block
	// ShortfallBytes is what was missing even if all that was free and cached had
	// been one piece; 0 where that would have been enough.
	ShortfallBytes *int64  `json:"shortfall_bytes"`
	OutsideBytes   *int64  `json:"outside_bytes"` // of the card, beside this allocator; null where the card's total is not known
	Phase          *string `json:"phase"`
	// Composition is of allocated where that is exact, with a row of rounding, and
	// else of what was requested for it.
	Composition []Share  `json:"composition"`
	Stack       []string `json:"stack"`
	Where       string   `json:"where"` // the stack in one line
}
