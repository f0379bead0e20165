package snapshot

import (
	"cmp"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// Group is allocations of one origin that are alive at a moment. Entries are
// indexes into the trace; a birth of −1 is before the first.
type Group struct {
	Name     string           // one line: a stack, a file, a place in a module
	Stack    []string         // of a group by stack; as [Spell] writes it
	Where    string           // of a group by stack; as [Where] writes it
	Category account.Category // empty where its allocations differ in it
	Bytes    int64
	Count    int
	AtEnd    int64 // bytes that are still held at the end
	First    int   // earliest birth
	Last     int   // latest birth
	Freed    int   // latest free of those that are freed; −1 when none is
}

// MaxFrames is how many frames of a stack a group keeps.
const MaxFrames = 12

// ByStack groups a composition by stack and category, largest first.
func (x *Explanation) ByStack(c Composition) []Group {
	table := &x.r.Timeline.Stacks
	return x.group(c, func(a, stack uint32) Group {
		frames := Spell(table, stack, MaxFrames)
		return Group{Name: strings.Join(frames, " ← "), Stack: frames, Where: Where(table, stack), Category: x.Verdict(a).Category}
	})
}

// ByPlace groups a composition by what [Where] writes of a stack.
func (x *Explanation) ByPlace(c Composition) []Group {
	return x.group(c, func(_, stack uint32) Group { return Group{Name: Where(&x.r.Timeline.Stacks, stack)} })
}

// ByFile groups a composition by the innermost Python file of the program
// itself; where a stack has none, by the innermost library file. In autograd's
// threads no file is known.
func (x *Explanation) ByFile(c Composition) []Group {
	return x.group(c, func(_, stack uint32) Group { return Group{Name: x.fileOf(stack)} })
}

// ByModule groups a composition by the innermost forward method. Frames do not
// name classes, so a module is the file and line at which its forward stands.
func (x *Explanation) ByModule(c Composition) []Group {
	return x.group(c, func(_, stack uint32) Group { return Group{Name: x.moduleOf(stack)} })
}

// fileOf is empty for a stack without frames that a reader can use.
func (x *Explanation) fileOf(stack uint32) string {
	table, within := &x.r.Timeline.Stacks, ""
	for _, i := range table.Stack(stack) {
		file := table.File(i)
		switch {
		case !strings.HasSuffix(file, ".py"):
		case !library(file):
			return shortFile(file)
		case within == "":
			within = shortFile(file)
		}
	}
	return within
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

// group adds up allocations by the name, and by the category if there is one,
// of the group that each belongs to; that is asked once a stack and category.
func (x *Explanation) group(c Composition, of func(a, stack uint32) Group) []Group {
	type origin struct {
		stack    uint32
		category account.Category
	}
	type identity struct {
		name     string
		category account.Category
	}
	groups, known := map[origin]*Group{}, map[identity]*Group{}
	for _, a := range c.Allocs {
		from := origin{x.r.Timeline.Allocs[a].Stack, x.Verdict(a).Category}
		g := groups[from]
		if g == nil {
			made := of(a, from.stack)
			id := identity{made.Name, made.Category}
			if g = known[id]; g == nil {
				made.First, made.Last, made.Freed, made.Category = x.r.Trace.Len(), never, never, from.category
				g = &made
				known[id] = g
			}
			groups[from] = g
		}
		x.count(g, a)
	}
	list := make([]Group, 0, len(known))
	for _, g := range known {
		list = append(list, *g)
	}
	sorting.By(list, func(i, j int) int {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Category, b.Category))
	})
	return list
}

func (x *Explanation) count(g *Group, a uint32) {
	bytes, l := x.r.Timeline.Allocs[a].Requested, x.lives
	g.Bytes += bytes
	g.Count++
	if g.Category != x.Verdict(a).Category {
		g.Category = ""
	}
	g.First = min(g.First, int(l.birth[a]))
	g.Last = max(g.Last, int(l.birth[a]))
	if l.kept(int(a)) {
		g.AtEnd += bytes
	} else {
		g.Freed = max(g.Freed, int(l.request[a]))
	}
}
