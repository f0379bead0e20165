package snapshot

// entry is one trace entry on its way into the columns.
type entry struct {
	action                  Action
	addr                    uint64
	size, time              int64
	stream, stack           uint32
	pool, context, metadata uint32
	hasTime, hasPool        bool
}

// entries is the entries of all devices as columns. Those that most files do
// not have are made when the first entry has one.
type entries struct {
	Trace
	progress func() float64 // the share of the file that was read, 0 to 1
}

func (e *entries) add(n entry) int {
	at := len(e.Action)
	if at == cap(e.Action) {
		e.grow()
	}
	e.Action = append(e.Action, n.action)
	e.Addr = append(e.Addr, n.addr)
	e.Size = append(e.Size, n.size)
	e.Stream = append(e.Stream, n.stream)
	e.Stack = append(e.Stack, n.stack)
	if n.hasTime || e.Time != nil {
		e.Time = append(filled(e.Time, at, cap(e.Action)), n.time)
	}
	if n.hasPool || e.Pool != nil {
		e.Pool = append(filled(e.Pool, at, cap(e.Action)), n.pool)
	}
	if n.context != 0 || e.Context != nil {
		e.Context = append(filled(e.Context, at, cap(e.Action)), n.context)
	}
	if n.metadata != 0 || e.Metadata != nil {
		e.Metadata = append(filled(e.Metadata, at, cap(e.Action)), n.metadata)
	}
	return at
}

// grow makes room for as many entries as the rest of the file may hold, judged
// by what came so far, so that large columns are copied a few times only.
func (e *entries) grow() {
	n := len(e.Action)
	room := max(2*n, 1<<10)
	if done := e.progress(); n >= 1<<14 && done > 0 {
		room = min(max(int(float64(n)/done*1.1), n+n/4), 4*n)
	}
	e.Action = resized(e.Action, room)
	e.Addr = resized(e.Addr, room)
	e.Size = resized(e.Size, room)
	e.Stream = resized(e.Stream, room)
	e.Stack = resized(e.Stack, room)
	e.Time = resized(e.Time, room)
	e.Pool = resized(e.Pool, room)
	e.Context = resized(e.Context, room)
	e.Metadata = resized(e.Metadata, room)
}

func resized[T any](column []T, room int) []T {
	if column == nil {
		return nil
	}
	return append(make([]T, 0, room), column...)
}

// filled is a column that starts late, with zeros for the entries before it.
func filled[T any](column []T, n, room int) []T {
	if column != nil {
		return column
	}
	return make([]T, n, room)
}

// part is the entries of one device.
func (e *entries) part(s span) Trace {
	if s.count == 0 {
		return Trace{}
	}
	return Trace{
		Action: cut(e.Action, s), Addr: cut(e.Addr, s), Size: cut(e.Size, s), Stream: cut(e.Stream, s), Stack: cut(e.Stack, s),
		Time: cut(e.Time, s), Pool: cut(e.Pool, s), Context: cut(e.Context, s), Metadata: cut(e.Metadata, s),
	}
}

func cut[T any](column []T, s span) []T {
	if column == nil {
		return nil
	}
	return column[s.first : s.first+s.count : s.first+s.count]
}
