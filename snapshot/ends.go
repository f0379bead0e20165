package snapshot

// Sizes of the pool of small blocks, in bytes: its segments, and the largest
// block that is handed out of it. Source: kSmallBuffer and kSmallSize in
// https://github.com/pytorch/pytorch/blob/v2.9.0/c10/cuda/CUDACachingAllocator.cpp
const (
	smallSegment = 2 << 20
	smallBlock   = 1 << 20
)

// measureEnd adds up the segments' own counters, which every version writes, and
// tells where their blocks say something else. Counters that cannot be, because
// they do not nest, give way to the blocks.
func (r *Recording) measureEnd(s *Snapshot) {
	var unfilled, differ, misfits tally
	after := r.Trace.Len()
	for _, segment := range r.Segments {
		blocks := s.Blocks[segment.First : segment.First+segment.Count]
		size, of := levelsOf(blocks)
		r.End.Reserved += segment.Total
		r.End.Requested += of.Requested
		if segment.Allocated <= segment.Active && segment.Active <= segment.Total {
			r.End.Allocated += segment.Allocated
			r.End.Active += segment.Active
		} else {
			r.End.Allocated += of.Allocated
			r.End.Active += of.Active
		}
		if size != segment.Total {
			unfilled.at(after)
		}
		if of.Allocated != segment.Allocated || of.Active != segment.Active || of.Requested != segment.Requested {
			differ.at(after)
		}
		if misfit(segment, blocks) {
			misfits.at(after)
		}
	}
	r.EndKnown = !s.NoSegments
	r.reserved = r.reservedBefore()
	r.contradict(unfilled, "blocks_do_not_fill_segment", "segments have blocks that do not add up to their total_size")
	r.contradict(differ, "blocks_contradict_segment", "segments have blocks that do not add up to their allocated_size, active_size or requested_size; the levels at the end are those of the counters where these can be, else of the blocks")
	r.contradict(misfits, "pool_contradicts_segment", "segments of the pool of small blocks are not 2 MiB long or have a block in use of more than 1 MiB, which no allocator makes")
	if r.reserved < 0 {
		r.contradict(tally{1, after}, "reserved_contradicts", "trace takes more memory from the driver than the segments hold at the end")
	}
}

// misfit reports a segment that its pool cannot have. An expandable one grows.
func misfit(segment Segment, blocks []Block) bool {
	if !segment.Small || segment.Expandable {
		return false
	}
	for _, block := range blocks {
		if block.State != Inactive && block.Size > smallBlock {
			return true
		}
	}
	return segment.Total != smallSegment
}

// Nest reports whether each scope lies inside the wider ones, as in every
// allocator: requested and allocated inside active, active inside reserved.
func (l Levels) Nest() bool {
	return l.Requested <= l.Active && l.Allocated <= l.Active && l.Active <= l.Reserved
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
	var requested, active, ends tally
	r.Walk(func(entry int, l Levels) {
		if l.Requested > l.Active {
			requested.at(entry)
		}
		if l.Active > l.Reserved && r.EndKnown {
			active.at(entry)
		}
	})
	if r.EndKnown && !r.End.Nest() {
		ends.at(r.Trace.Len())
	}
	r.contradict(active, "active_exceeds_reserved", "moments have more active than reserved bytes, which cannot be: entries are missing or are not an allocator's")
	r.contradict(requested, "requested_exceeds_active", "moments have more requested than active bytes, which cannot be: a block is smaller than what was requested of it")
	r.contradict(ends, "end_does_not_nest", "device has blocks and segments that do not nest at the end (requested and allocated inside active, active inside reserved), which cannot be: the file was changed or is not an allocator's")
}
