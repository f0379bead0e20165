package torch

import (
	"strings"

	"floodmark/timeline"
)

// sites names where an allocation is made: operator, node of the graph, module.
type sites struct {
	table   *timeline.StackTable
	strings map[string]uint32
	frames  map[string]uint32
	known   map[site]uint32
	modules []module
	module  uint32 // index into modules
	op      string
	node    string
}

// site is one place of a program.
type site struct {
	op, node string
	module   uint32
}

// module is a part of the model, by its path.
type module struct {
	name     string
	path     string
	parent   uint32
	children []uint32
	last     int // the child that was entered last
}

func newSites(table *timeline.StackTable) sites {
	return sites{table: table, strings: map[string]uint32{}, frames: map[string]uint32{}, known: map[site]uint32{}, modules: []module{{}}}
}

// stack is the place of an allocation that is made now: the operator, the node
// that runs it in backward, and the module of the forward.
func (s *sites) stack() uint32 {
	at := site{s.op, s.node, s.module}
	if i, ok := s.known[at]; ok {
		return i
	}
	var run []uint32
	for _, name := range []string{s.op, s.node, s.modules[s.module].path} {
		if name != "" {
			run = append(run, s.frame(name))
		}
	}
	i := s.table.Add(run)
	s.known[at] = i
	return i
}

func (s *sites) frame(name string) uint32 {
	if i, ok := s.frames[name]; ok {
		return i
	}
	s.table.Strings = append(s.table.Strings, name)
	s.table.Frames = append(s.table.Frames, timeline.Frame{Function: uint32(len(s.table.Strings) - 1), File: ^uint32(0)})
	i := uint32(len(s.table.Frames) - 1)
	s.frames[name] = i
	return i
}

// enter goes into a part of the module, and returns the module it was in.
func (s *sites) enter(name string) (from uint32) {
	from = s.module
	if name == "" {
		return from
	}
	here := &s.modules[from]
	for n := range here.children {
		at := (here.last + n) % len(here.children)
		if child := here.children[at]; s.modules[child].name == name {
			here.last = at
			s.module = child
			return from
		}
	}
	path := strings.TrimPrefix(here.path+"."+name, ".")
	here.children = append(here.children, uint32(len(s.modules)))
	here.last = len(here.children) - 1
	s.modules = append(s.modules, module{name: name, path: path, parent: from})
	s.module = uint32(len(s.modules) - 1)
	return from
}

// where spells the place that the program is at.
func (s *sites) where() string {
	parts := []string{s.modules[s.module].path, s.node, s.op}
	text := strings.Trim(strings.Join(parts, " "), " ")
	if text == "" {
		return "program"
	}
	return text
}
