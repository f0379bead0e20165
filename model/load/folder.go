package load

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"floodmark/internal/gguf"
	"floodmark/internal/safetensors"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// The kinds of [model.Source].
const (
	configKind      = "config"
	safetensorsKind = "safetensors"
	indexKind       = "safetensors index"
	torchKind       = "torch"
	ggufKind        = "gguf"
	catalogueKind   = "catalogue"
)

const configName = "config.json"

// beside lists the files that refine a config.json when they lie next to it:
// quantisation that older tools write into a file of its own.
func beside() []string { return []string{"hf_quant_config.json", "quantize_config.json"} }

// contents is which files of a folder are the model.
type contents struct {
	config bool
	kind   string
	index  string   // an index that lists the weight files
	files  []string // weight files, without an index
	parts  []string // of a GGUF model
	aside  []string // weights in other formats, which are the same model again

	projectors []string // towers that llama.cpp loads beside a GGUF model
}

// sort finds which files of a folder are the model. Formats are never summed:
// safetensors stand before torch files, and both before GGUF; among
// safetensors, those of transformers before the consolidated ones of the
// model's maker.
func (c *contents) sort(folder string, files []string) error {
	c.config = slices.Contains(files, configName)
	tensors, consolidated := safetensorsOf(files)
	torch := torchOf(files)
	ggufs := sets(files)
	switch {
	case indexOf(files, ".safetensors") != "":
		c.kind, c.index = safetensorsKind, indexOf(files, ".safetensors")
	case len(tensors) > 0:
		c.kind, c.files = safetensorsKind, tensors
	case len(consolidated) > 0:
		c.kind, c.files, consolidated = safetensorsKind, consolidated, nil
	case indexOf(files, ".bin") != "":
		c.kind, c.index, torch = torchKind, indexOf(files, ".bin"), nil
	case len(torch) > 0:
		c.kind, c.files, torch = torchKind, torch, nil
	case len(ggufs) == 1:
		c.kind, c.parts, ggufs = ggufKind, ggufs[0], nil
	case len(ggufs) > 1 && !c.config:
		var names []string
		for _, s := range ggufs {
			names = append(names, s[0])
		}
		return source.InField(folder, "", "has %d GGUF models: %s", len(names), several(names)).
			WithHint("name one of the files; of a repository on the hub, write a part of its name after a colon: org/name:Q4_K_M")
	}
	c.aside = slices.Concat(consolidated, torch)
	c.projectors = projectorsOf(files)
	for _, s := range ggufs {
		c.aside = append(c.aside, s...)
	}
	return nil
}

// indexOf finds the index of files with that ending: the one that transformers
// and diffusers write.
func indexOf(files []string, ending string) string {
	for _, stem := range []string{"model", "pytorch_model", "diffusion_pytorch_model"} {
		if name := stem + ending + ".index.json"; slices.Contains(files, name) {
			return name
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, ending+".index.json") {
			return name
		}
	}
	return ""
}

// safetensorsOf is the weight files of a folder without an index. Where there
// is a file of all weights, shards beside it are another copy.
func safetensorsOf(files []string) (tensors, consolidated []string) {
	for _, name := range files {
		switch {
		case !strings.HasSuffix(name, ".safetensors") || strings.Contains(name, "/") || strings.HasPrefix(name, "adapter_"):
		case strings.HasPrefix(name, "consolidated"):
			consolidated = append(consolidated, name)
		default:
			tensors = append(tensors, name)
		}
	}
	for _, whole := range []string{"model.safetensors", "diffusion_pytorch_model.safetensors"} {
		if slices.Contains(tensors, whole) {
			return []string{whole}, consolidated
		}
	}
	return tensors, consolidated
}

// torchOf is the torch files that hold a model: not those that a trainer
// leaves beside it.
func torchOf(files []string) []string {
	var list []string
	for _, name := range files {
		switch ending := path.Ext(name); {
		case strings.Contains(name, "/"), ending != ".bin" && ending != ".pt" && ending != ".pth":
		case strings.HasPrefix(name, "pytorch_model"), strings.HasPrefix(name, "consolidated"), strings.HasPrefix(name, "model"), strings.HasPrefix(name, "diffusion_pytorch_model"):
			list = append(list, name)
		}
	}
	if slices.Contains(list, "pytorch_model.bin") {
		return []string{"pytorch_model.bin"}
	}
	return list
}

// isProjector reports whether a GGUF file is a tower with its projector, by the
// part that llama.cpp's converter puts into its name.
func isProjector(name string) bool { return strings.Contains(name, "mmproj") }

func projectorsOf(files []string) []string {
	var list []string
	for _, name := range files {
		if strings.HasSuffix(name, ".gguf") && isProjector(name) {
			list = append(list, name)
		}
	}
	return list
}

// sets is the GGUF models of a folder, each with its parts.
func sets(files []string) [][]string {
	var list [][]string
	for _, name := range files {
		if !strings.HasSuffix(name, ".gguf") || isProjector(name) || strings.Contains(name, "imatrix") {
			continue
		}
		part, split := gguf.ParsePartName(name)
		switch {
		case !split:
			list = append(list, []string{name})
		case part.No == 1:
			list = append(list, part.All())
		}
	}
	return list
}

// fromFolder reads the model in a folder; name is for one that does not say its
// own.
func fromFolder(ctx context.Context, folder source.Folder, name string) (*model.Model, error) {
	files, err := folder.Files(ctx)
	if err != nil {
		return nil, err
	}
	var c contents
	if err := c.sort(folder.Name(), files); err != nil {
		return nil, err
	}
	if !c.config && c.kind == "" {
		return nil, nothing(folder, files)
	}
	if c.kind == ggufKind {
		return c.setAside(folder, name, fromParts(ctx, folder, c.parts))
	}
	config := &model.Model{}
	if c.config {
		if config, err = fromConfig(ctx, folder, configName); err != nil {
			return nil, err
		}
		// A processor that is damaged costs no byte of the weights.
		if config.Images, err = images(ctx, folder); err != nil {
			config.Warnings = append(config.Warnings, warning("preprocessor_not_read", "%v", err))
		}
	}
	return c.setAside(folder, name, withWeights(ctx, folder, config, c))
}

// nothing is the error about a folder in which no model lies.
func nothing(folder source.Folder, files []string) error {
	err := source.InField(folder.Name(), "", "has no %s and no weight file", configName)
	switch {
	case slices.Contains(files, "adapter_config.json"):
		return err.WithHint("it is an adapter: name its base model, and this folder with --adapter")
	case slices.Contains(files, "model_index.json"):
		return err.WithHint("it is a pipeline of several models: name the folder of one, as transformer or unet")
	}
	return err.WithHint("name a Hugging Face model folder, its config.json, or a weight file")
}

// setAside notes which files were not counted.
func (c contents) setAside(folder source.Folder, name string, read result) (*model.Model, error) {
	if read.err != nil {
		return nil, read.err
	}
	m := read.model
	if len(c.aside) > 0 {
		m.Warnings = append(m.Warnings, warning("other_formats_aside", "%s: %s hold the weights in another format and do not count", folder.Name(), several(c.aside)))
	}
	if len(c.projectors) > 0 && c.kind == ggufKind {
		m.Warnings = append(m.Warnings, warning("projector_aside", "%s: %s is loaded beside the model for images or sound, and does not count", folder.Name(), several(c.projectors)))
	}
	if m.Name == "" {
		m.Name = name
	}
	return m, nil
}

// result is what a reader returns.
type result struct {
	model *model.Model
	err   error
}

// fromConfig reads a configuration and what lies beside it. One of a kind that
// is not known is an empty model with that unknown.
func fromConfig(ctx context.Context, folder source.Folder, name string) (*model.Model, error) {
	config, err := folder.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer config.Close()
	if err := source.RefusePointer(config); err != nil {
		return nil, err
	}
	var extra []source.Source
	for _, name := range beside() {
		s, err := folder.Open(ctx, name)
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
		return nil, source.InField(config.Name(), "", "is not the config.json of a model").
			WithHint("a model configuration names its sizes: hidden_size, num_hidden_layers, vocab_size and so on")
	}
	return m, err
}

// withWeights replaces the tensors of a configuration by those that weight
// files list. Where only an index is there, the configuration stays, and is
// compared with it.
func withWeights(ctx context.Context, folder source.Folder, config *model.Model, c contents) result {
	files, listed := c.files, (*safetensors.Index)(nil)
	if c.index != "" {
		index, err := readIndex(ctx, folder, c.index)
		if err != nil {
			return result{nil, err}
		}
		there, err := present(ctx, folder, index.Shards)
		if err != nil {
			return result{nil, err}
		}
		config.Sources = append(config.Sources, model.Source{Name: c.index, Kind: indexKind})
		if !there && len(config.Sources) == 1 {
			return result{nil, source.InField(folder.Name(), c.index, "lists %d weight files, but none of them is there, nor a %s", len(index.Shards), configName).
				WithHint("fetch the weight files, or the configuration")}
		}
		if !there {
			compare(config, c.index, index)
			return result{config, nil}
		}
		files, listed = index.Shards, index
	}
	if len(files) == 0 {
		return result{config, nil}
	}
	w, err := list(ctx, folder, c.kind, complete(files))
	if err != nil {
		return result{nil, err}
	}
	if listed != nil {
		w.check(c.index, listed)
	}
	m := assemble(config, w)
	for _, name := range files {
		m.Sources = append(m.Sources, model.Source{Name: name, Kind: c.kind})
	}
	return result{m, nil}
}

// present reports whether any shard of an index is in the folder: a folder
// without one was fetched for its texts only.
func present(ctx context.Context, folder source.Folder, shards []string) (bool, error) {
	files, err := folder.Files(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range shards {
		if slices.Contains(files, s) {
			return true, nil
		}
	}
	return false, nil
}

func readIndex(ctx context.Context, folder source.Folder, name string) (*safetensors.Index, error) {
	src, err := folder.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	index, err := safetensors.ReadIndex(src)
	if errors.Is(err, source.ErrNotThisFormat) {
		return nil, source.InField(src.Name(), "", "is not an index of weight files").
			WithHint("fetch it again, or name the config.json alone to estimate without it")
	}
	return index, err
}

// check compares an index with the headers. Its warnings are the model's.
func (w *weights) check(name string, index *safetensors.Index) {
	w.warnings = append(w.warnings, index.Warnings...)
	var absent []string
	for _, e := range index.Entries {
		if _, has := w.places[e.Name]; !has {
			absent = append(absent, e.Name)
		}
	}
	// No name stands twice in an index.
	more := len(w.tensors) - (len(index.Entries) - len(absent))
	if len(absent) > 0 {
		w.warnings = append(w.warnings, warning("index_names_absent", "%s names %d tensors that no weight file has: %s", name, len(absent), several(absent)))
	}
	if more > 0 {
		w.warnings = append(w.warnings, warning("index_lacks_names", "%s lacks %d tensors that the weight files have", name, more))
	}
	if total, whole := index.TotalSize.Value(); whole && total > 0 && total != w.data {
		w.warnings = append(w.warnings, warning("total_size_differs", "%s declares a total_size of %d bytes; the headers of the weight files list %d, %+d, which count", name, total, w.data, w.data-total))
	}
}
