package workload

import (
	"slices"
	"strings"

	"floodmark/dtype"
)

// Frozen is the components of a model that a training leaves as they are: without
// gradients, states and adapters.
type Frozen struct {
	Components []string     // as package model calls them: vision_tower, projector, language_model
	Format     dtype.Format // of their parameters; Unknown for that of the others
}

// Has reports a component that is frozen; of nil none is.
func (f *Frozen) Has(component string) bool {
	return f != nil && slices.Contains(f.Components, component)
}

// components are those that a model can have.
func components() []string { return []string{"vision_tower", "projector", "language_model"} }

// ParseFrozen reads components with commas between, each once.
func ParseFrozen(text string) (*Frozen, error) { return freezing(strings.Split(text, ",")) }

func freezing(list []string) (*Frozen, error) {
	f := &Frozen{}
	for _, word := range list {
		c := strings.ReplaceAll(strings.TrimSpace(word), "-", "_")
		if !slices.Contains(components(), c) || slices.Contains(f.Components, c) {
			return nil, Contradiction("is %q, expected some of %s, each once", strings.Join(list, ", "), strings.Join(components(), ", "))
		}
		f.Components = append(f.Components, c)
	}
	return f, nil
}

// frozenYAML is components, and the format in which they are kept.
type frozenYAML struct {
	Components []string `yaml:"components"`
	Format     string   `yaml:"format"`
}

func (c *checker) frozen(d *frozenYAML) *Frozen {
	if d == nil {
		return nil
	}
	f, err := freezing(d.Components)
	if err != nil || len(d.Components) == 0 {
		c.wrong("training.frozen.components", "is %v, expected some of %s, each once", d.Components, strings.Join(components(), ", "))
		return nil
	}
	f.Format = c.format("training.frozen.format", d.Format)
	return f
}
