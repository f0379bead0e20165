package model

import (
	"slices"
	"strings"
)

// Component is a part of a model that reads more than text, as softwares freeze them.
type Component string

const (
	VisionTower   Component = "vision_tower"   // the layers over pictures or sound, and what stands around them
	Projector     Component = "projector"      // from a tower to the text's positions
	LanguageModel Component = "language_model" // all else
)

// Components is the component of each tensor. What projects is of a tower where it stands
// in one and another projector does not.
func (m *Model) Components() []Component {
	list := make([]Component, len(m.Tensors))
	roots, beside := m.towers(), false
	for i, t := range m.Tensors {
		within := slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(t.Name, root) })
		switch {
		case within:
			list[i] = VisionTower
		case t.Role == RoleProjector:
			list[i], beside = Projector, true
		default:
			list[i] = LanguageModel
		}
	}
	for i, t := range m.Tensors {
		if t.Role == RoleProjector && !beside {
			list[i] = Projector
		}
	}
	return list
}

// towers are the modules of the towers, with a dot behind each: the outermost with whose
// name none of the text's layers begins ("visual." of visual.blocks beside model.layers).
func (m *Model) towers() []string {
	var roots []string
	for _, s := range m.Stacks {
		if s.sees() {
			roots = append(roots, m.root(s.Name+"."))
		}
	}
	return roots
}

func (m *Model) root(stack string) string {
	for end := range stack {
		root := stack[:end+1]
		text := func(s Stack) bool { return !s.sees() && strings.HasPrefix(s.Name, root) }
		if stack[end] == '.' && !slices.ContainsFunc(m.Stacks, text) {
			return root
		}
	}
	return stack
}

// sees reports a stack of a tower, over pictures or sound.
func (s Stack) sees() bool { return s.Kind == Vision || s.Kind == Audio }
