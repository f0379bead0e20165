package timeline

// Frame is one line of a stack trace; the strings are indexes into
// StackTable.Strings.
type Frame struct {
	Function, File uint32
	Line           int32
}

// StackTable holds interned stacks: a trace of a million events has some tens
// of thousands of distinct stacks over a few hundred distinct frames. A stack
// is a run of frame indexes, innermost first.
type StackTable struct {
	Strings []string
	Frames  []Frame
	Runs    []uint32 // frame indexes of all stacks, one after the other
	Ends    []uint32 // stack i is Runs[Ends[i-1]:Ends[i]]
}

// Len is the number of stacks.
func (s *StackTable) Len() int { return len(s.Ends) }

// Add appends a stack of frame indexes and returns its index. It does not look
// for an equal one: interning is the reader's, which knows identities.
func (s *StackTable) Add(frames []uint32) uint32 {
	s.Runs = append(s.Runs, frames...)
	s.Ends = append(s.Ends, uint32(len(s.Runs)))
	return uint32(len(s.Ends) - 1)
}

// Stack is the frame indexes of a stack, innermost first; nil for NoStack.
func (s *StackTable) Stack(i uint32) []uint32 {
	if i >= uint32(len(s.Ends)) {
		return nil
	}
	first := uint32(0)
	if i > 0 {
		first = s.Ends[i-1]
	}
	return s.Runs[first:s.Ends[i]]
}

// Function, File and Line spell a frame out.
func (s *StackTable) Function(frame uint32) string { return s.text(s.Frames[frame].Function) }

// File is the file of a frame; empty when it has none.
func (s *StackTable) File(frame uint32) string { return s.text(s.Frames[frame].File) }

// Line is the line of a frame; 0 when it has none.
func (s *StackTable) Line(frame uint32) int { return int(s.Frames[frame].Line) }

func (s *StackTable) text(i uint32) string {
	if i >= uint32(len(s.Strings)) {
		return ""
	}
	return s.Strings[i]
}
