package ggufmodel

import (
	"floodmark/internal/gguf"
	"floodmark/model"
)

// Read makes the model of a GGUF file, or of its parts in order.
func Read(files []*gguf.File) (*model.Model, error) {
	m := &model.Model{Listed: true}
	for _, f := range files {
		for _, t := range f.Tensors {
			m.Tensors = append(m.Tensors, model.Tensor{Name: t.Name, Stack: model.NoLayer, Layer: model.NoLayer, Shape: t.Shape, Stored: t.Format, TiedTo: model.NotTied})
		}
		m.FileBytes += f.Data
		m.Sources = append(m.Sources, model.Source{Name: f.Name, Kind: "gguf"})
	}
	return m, nil
}
