package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// beside lists the files that refine a config.json when they lie next to it:
// quantisation that older tools write into a file of its own.
func beside() []string { return []string{"hf_quant_config.json", "quantize_config.json"} }

// Open reads the model at a path: a folder with a config.json, or such a file.
func Open(path string) (*model.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config := path
	if info.IsDir() {
		config = filepath.Join(path, "config.json")
		if _, err := os.Stat(config); err != nil {
			return nil, source.InField(path, "", "has no config.json").
				WithHint("name a Hugging Face model folder, or the config.json itself")
		}
	}
	return fromConfig(config)
}

func fromConfig(path string) (*model.Model, error) {
	config, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer config.Close()
	var extra []source.Source
	for _, name := range beside() {
		s, err := source.Open(filepath.Join(filepath.Dir(path), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer s.Close()
		extra = append(extra, s)
	}
	m, err := hfmodel.Read(config, extra...)
	if errors.Is(err, source.ErrNotThisFormat) {
		return nil, source.InField(path, "", "is not the config.json of a model").
			WithHint("a model configuration names its sizes: hidden_size, num_hidden_layers, vocab_size and so on")
	}
	if err != nil {
		return nil, err
	}
	if m.Name == "" {
		m.Name = filepath.Base(filepath.Dir(absolute(path)))
	}
	return m, nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
