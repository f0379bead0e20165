package model

import (
	"slices"

	"floodmark/account"
	"floodmark/dtype"
)

// Stated is the model with the format that somebody states for the weights of
// which its files do not say how they are stored. Tensors with a format of their
// own keep it.
func (m *Model) Stated(f dtype.Format) *Model {
	c := *m
	c.Tensors = slices.Clone(m.Tensors)
	for i := range c.Tensors {
		if c.Tensors[i].Stored == dtype.Unknown {
			c.Tensors[i].Stored = f
		}
	}
	if c.Compute == dtype.Unknown {
		c.Compute = f
	}
	c.FormatOrigin = account.Assumed
	c.Unknown = slices.DeleteFunc(slices.Clone(m.Unknown), func(u Unknown) bool { return u.FormatOnly && u.Value == "absent" })
	return &c
}
