package enginelog

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
)

// dropped counts the messages that there was no room for, and the ranks that
// they are of.
type dropped struct {
	messages int
	ranks    map[int]bool
}

// mostRanks bounds how many ranks are told apart.
const mostRanks = 1 << 16

func (d *dropped) add(m *OutOfMemory) {
	d.messages++
	if m.Rank < 0 || len(d.ranks) >= mostRanks {
		return
	}
	if d.ranks == nil {
		d.ranks = map[int]bool{}
	}
	d.ranks[m.Rank] = true
}

// further is how many ranks are not among the failures that are kept.
func (d *dropped) further(found []OutOfMemory) int {
	n := len(d.ranks)
	for i := range found {
		if d.ranks[found[i].Rank] {
			delete(d.ranks, found[i].Rank)
			n--
		}
	}
	return n
}

// warnings says what was left out.
func (r *oomReader) warnings() []account.Warning {
	var list []account.Warning
	if n := r.dropped.messages; n > 0 {
		list = append(list, account.Warning{Code: "more_messages",
			Text: fmt.Sprintf("%s further out-of-memory messages were left out after the first %s", bytesize.Group(int64(n)), bytesize.Group(most))})
	}
	open := ""
	if len(r.dropped.ranks) >= mostRanks {
		open = "at least "
	}
	if n := r.dropped.further(r.found); n > 0 {
		list = append(list, account.Warning{Code: "more_ranks",
			Text: fmt.Sprintf("there are more ranks than are kept: %s%s further ranks ran out of memory as well", open, bytesize.Group(int64(n)))})
	}
	if r.crowded {
		list = append(list, account.Warning{Code: "more_writers",
			Text: fmt.Sprintf("more than %s ranks or processes write into this text: a message that one of them spread over lines may be cut short", bytesize.Group(mostWriters))})
	}
	return list
}
