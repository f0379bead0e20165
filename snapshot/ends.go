package snapshot

// measureEnd adds up the segments' own counters, which every version writes,
// and tells where their blocks say something else.
func (r *Recording) measureEnd(s *Snapshot) {
	unfilled, differ := 0, 0
	for _, segment := range r.Segments {
		size, of := levelsOf(s.Blocks[segment.First : segment.First+segment.Count])
		r.End.Reserved += segment.Total
		r.End.Requested += of.Requested
		r.End.Allocated += segment.Allocated
		r.End.Active += segment.Active
		if size != segment.Total {
			unfilled++
		}
		if of.Allocated != segment.Allocated || of.Active != segment.Active || of.Requested != segment.Requested {
			differ++
		}
	}
	r.EndKnown = !s.NoSegments
	r.reserved = r.reservedBefore()
	r.warn(unfilled, "blocks_do_not_fill_segment", "segments have blocks that do not add up to their total_size")
	r.warn(differ, "blocks_contradict_segment", "segments have blocks that do not add up to their allocated_size, active_size or requested_size; the levels at the end are those of the segments, the requested one that of the blocks")
	if r.reserved < 0 {
		r.warn(1, "reserved_contradicts", "trace takes more memory from the driver than the segments hold at the end")
	}
}

// levelsOf adds up blocks, and says how many bytes they fill.
func levelsOf(blocks []Block) (size int64, l Levels) {
	for _, block := range blocks {
		size += block.Size
		l.Requested += block.Requested
		if block.State != Inactive {
			l.Active += block.Size
		}
		if block.State == Allocated {
			l.Allocated += block.Size
		}
	}
	return size, l
}

// reservedBefore is what was reserved before the first entry: what the segments
// hold at the end less what the trace adds. Where the end is not known it is the
// least from which the trace never falls below nothing.
func (r *Recording) reservedBefore() int64 {
	sum, lowest := int64(0), int64(0)
	for i, action := range r.Trace.Action {
		sum += action.reserves() * r.Trace.Size[i]
		lowest = min(lowest, sum)
	}
	if !r.EndKnown {
		return -lowest
	}
	return r.End.Reserved - sum
}

// checkNesting warns where scopes do not nest, which no allocator leads to:
// entries are missing, or the file was changed.
func (r *Recording) checkNesting() {
	var requested, active, ends int
	r.Walk(func(_ int, l Levels) {
		if l.Requested > l.Active {
			requested++
		}
		if l.Active > l.Reserved && r.EndKnown {
			active++
		}
	})
	if e := r.End; r.EndKnown && (e.Requested > e.Active || e.Allocated > e.Active || e.Active > e.Reserved) {
		ends = 1
	}
	r.warn(active, "active_exceeds_reserved", "moments have more active than reserved bytes, which cannot be: entries are missing or are not an allocator's")
	r.warn(requested, "requested_exceeds_active", "moments have more requested than active bytes, which cannot be: a block is smaller than what was requested of it")
	r.warn(ends, "end_does_not_nest", "device has segments whose counters do not nest at the end (requested and allocated inside active, active inside reserved), which cannot be: the file was changed or is not an allocator's")
}
