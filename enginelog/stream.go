package enginelog

import "strings"

// stream is the squashed text of one writer: its last bytes or, once a message
// was found, the message.
type stream struct {
	writer writer
	passage
	open    bool
	head    string // of the message that is open
	tried   bool   // it has said what was tried
	where   Where  // it happened
	counted int    // the last line that was counted as understood
	told    int    // how many had been found with its last failure that has numbers; 0 is none
}

// begin opens a message with its head.
func (s *stream) begin(head string, where Where) {
	if s.head != head {
		s.head = strings.Clone(head) // the text that it is of may be long
	}
	s.open, s.tried, s.where = true, head == tried, where
}

// awaitsRequest reports whether the open message is one that says further on
// what was tried, and has not said so yet.
func (s *stream) awaitsRequest() bool { return !s.tried && announces(s.head) }

// announces reports the heads after which what was tried is said.
func announces(head string) bool {
	return head == platform || strings.HasSuffix(head, ranOut) && !strings.Contains(head, "error") && !strings.HasPrefix(head, ggmlTried)
}

// goesOn reports whether a line, with its own heads, can be the next part of a
// stream: it begins no message, or the stream ended within the words that it
// goes on with.
func (s *stream) goesOn(text string, own []span) bool {
	if len(own) == 0 || (s.open && text[own[0].at:own[0].end] == tried && s.awaitsRequest()) {
		return true
	}
	return len(s.across(text, nil)) > 0
}

// across are the heads that end in the next line of a stream, counted from where
// that begins: those that begin before it, then its own.
func (s *stream) across(text string, own []span) []span {
	from := max(0, len(s.text)-tail)
	if s.open {
		from = min(max(1, from), len(s.text)) // its own head is known
	}
	before := s.text[from:]
	var list []span
	end := 0
	for _, h := range heads(before + text[:min(len(text), tail)]) {
		if h.at < len(before) && h.end > len(before) {
			end = h.end - len(before)
			list = append(list, span{h.at - len(before), end})
		}
	}
	for _, h := range own {
		if h.at >= end {
			list = append(list, h)
		}
	}
	return list
}

// understood is how many further lines a message has, up to an offset.
func (s *stream) understood(last int) int {
	lines := 0
	for _, at := range s.starts {
		if last > 0 && at.offset-s.base < last && at.line > s.counted {
			lines++
			s.counted = at.line
		}
	}
	return lines
}
