package snapshot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
)

// Group is allocations of one origin that are alive at a moment. Entries are
// indexes into the trace; a birth of −1 is before the first.
type Group struct {
	Name     string           // one line: a stack, a file, a place in a module
	Stack    []string         // of a group by stack; as [Spell] writes it
	Category account.Category // of most of its bytes
	Bytes    int64
	Count    int
	AtEnd    int64 // bytes that are still held at the end
	First    int   // earliest birth
	Last     int   // latest birth
	Freed    int   // latest free of those that are freed; −1 when none is
}

// MaxFrames is how many frames of a stack a group keeps.
const MaxFrames = 12

// ByStack groups a composition by stack, largest first.
func (x *Explanation) ByStack(c Composition) []Group {
	return x.group(c, func(stack uint32) (string, []string) {
		frames := Spell(&x.r.Timeline.Stacks, stack, MaxFrames)
		return strings.Join(frames, " ← "), frames
	})
}

// ByFile groups a composition by the innermost Python file of the program
// itself; where a stack has none, by the innermost library file, and in
// autograd's threads by the node.
func (x *Explanation) ByFile(c Composition) []Group {
	return x.group(c, func(stack uint32) (string, []string) { return x.fileOf(stack), nil })
}

// ByModule groups a composition by the innermost forward method. Frames do not
// name classes, so a module is the file and line at which its forward stands.
func (x *Explanation) ByModule(c Composition) []Group {
	return x.group(c, func(stack uint32) (string, []string) { return x.moduleOf(stack), nil })
}

// fileOf is empty for a stack without frames that a reader can use.
func (x *Explanation) fileOf(stack uint32) string {
	table, within, thread := &x.r.Timeline.Stacks, "", ""
	for _, i := range table.Stack(stack) {
		file := table.File(i)
		switch {
		case !strings.HasSuffix(file, ".py"):
			if thread == "" {
				thread = node(table.Function(i))
			}
		case !library(file):
			return shortFile(file)
		case within == "":
			within = shortFile(file)
		}
	}
	return cmp.Or(within, thread)
}

// moduleOf is empty for a stack without a forward.
func (x *Explanation) moduleOf(stack uint32) string {
	table := &x.r.Timeline.Stacks
	for _, i := range table.Stack(stack) {
		if file := table.File(i); table.Function(i) == "forward" && strings.HasSuffix(file, ".py") && !strings.HasSuffix(file, "torch/nn/modules/module.py") {
			return "forward (" + shortFile(file) + ":" + strconv.Itoa(table.Line(i)) + ")"
		}
	}
	return ""
}

// grouping is a group in the making.
type grouping struct {
	Group
	byCategory map[account.Category]int64
}

// group adds up allocations by what name says of their stack; the name is asked
// once a stack.
func (x *Explanation) group(c Composition, name func(stack uint32) (string, []string)) []Group {
	byStack, byName := map[uint32]*grouping{}, map[string]*grouping{}
	for _, a := range c.Allocs {
		stack := x.r.Timeline.Allocs[a].Stack
		g := byStack[stack]
		if g == nil {
			text, frames := name(stack)
			if g = byName[text]; g == nil {
				g = &grouping{Group{Name: text, Stack: frames, First: x.r.Trace.Len(), Last: never, Freed: never}, map[account.Category]int64{}}
				byName[text] = g
			}
			byStack[stack] = g
		}
		x.count(g, int(a))
	}
	list := make([]Group, 0, len(byName))
	for _, g := range byName {
		for _, category := range account.Categories() {
			if bytes := g.byCategory[category]; bytes > 0 && bytes > g.byCategory[g.Category] {
				g.Category = category
			}
		}
		list = append(list, g.Group)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	return list
}

func (x *Explanation) count(g *grouping, a int) {
	bytes, l := x.r.Timeline.Allocs[a].Requested, x.lives
	g.Bytes += bytes
	g.Count++
	g.byCategory[x.Verdict(uint32(a)).Category] += bytes
	g.First = min(g.First, int(l.birth[a]))
	g.Last = max(g.Last, int(l.birth[a]))
	if l.kept(a) {
		g.AtEnd += bytes
	} else {
		g.Freed = max(g.Freed, int(l.request[a]))
	}
}
