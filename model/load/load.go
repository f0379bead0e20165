package load

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"floodmark/internal/gguf"
	"floodmark/internal/hub"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/ggufmodel"
)

// Open is [Model] for a path, without a hub and without the catalogue.
func Open(path string) (*model.Model, error) {
	return fromPath(context.Background(), path)
}

// fromPath reads the model at a path: a folder, or a file of any kind that
// belongs to a model.
func fromPath(ctx context.Context, path string) (*model.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if info.IsDir() {
		if name, is := hub.CacheName(filepath.Base(absolute(path))); is {
			return fromHub(ctx, name, hub.Settings{Cache: filepath.Dir(absolute(path)), Offline: true})
		}
		return fromFolder(ctx, source.Dir(path), filepath.Base(absolute(path)))
	}
	return fromFile(ctx, source.Dir(filepath.Dir(path)), filepath.Base(path), filepath.Base(filepath.Dir(absolute(path))))
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// fromFile reads the model that one file of a folder stands for. A
// configuration stands for itself: weights beside it are read when the folder
// is named.
func fromFile(ctx context.Context, folder source.Folder, file, name string) (*model.Model, error) {
	m, err := readFile(ctx, folder, file)
	if err != nil {
		return nil, err
	}
	if m.Name == "" {
		m.Name = name
	}
	return m, nil
}

func readFile(ctx context.Context, folder source.Folder, file string) (*model.Model, error) {
	lower := strings.ToLower(file)
	switch {
	case strings.HasSuffix(lower, ".index.json"):
		kind := safetensorsKind
		if !strings.Contains(lower, ".safetensors") {
			kind = torchKind
		}
		return alone(ctx, folder, contents{kind: kind, index: file})
	case strings.HasSuffix(lower, ".safetensors"):
		return alone(ctx, folder, contents{kind: safetensorsKind, files: []string{file}})
	case strings.HasSuffix(lower, ".gguf"):
		parts := []string{file}
		if part, split := gguf.ParsePartName(file); split {
			parts = part.All()
		}
		r := fromParts(ctx, folder, parts)
		return r.model, r.err
	case strings.HasSuffix(lower, ".bin"), strings.HasSuffix(lower, ".pt"), strings.HasSuffix(lower, ".pth"):
		return alone(ctx, folder, contents{kind: torchKind, files: []string{file}})
	}
	return fromConfig(ctx, folder, file)
}

// alone reads weight files that were named themselves, with the configuration
// beside them where there is one that is understood.
func alone(ctx context.Context, folder source.Folder, c contents) (*model.Model, error) {
	config, err := fromConfig(ctx, folder, configName)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		config = &model.Model{}
	}
	r := withWeights(ctx, folder, config, c)
	return r.model, r.err
}

// fromParts reads a GGUF model from its parts.
func fromParts(ctx context.Context, folder source.Folder, parts []string) result {
	files := make([]*gguf.File, len(parts))
	errs := make([]error, len(parts))
	for i, name := range parts {
		files[i], errs[i] = ggufHeader(ctx, folder, name)
	}
	if err := absent(folder, parts, errs); err != nil {
		return result{nil, err}
	}
	if len(parts) > 1 || files[0].Split.Count > 1 {
		if err := gguf.CheckParts(files); err != nil {
			return result{nil, err}
		}
	}
	m, err := ggufmodel.Read(files)
	if err == nil && len(m.Tensors) == 0 {
		err = empty(folder, parts)
	}
	return result{m, err}
}

func ggufHeader(ctx context.Context, folder source.Folder, name string) (*gguf.File, error) {
	src, err := folder.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	f, err := gguf.Read(src)
	return f, misnamed(err)
}

var shardName = regexp.MustCompile(`^(.*[-_])([0-9]+)([-_]of[-_])([0-9]+)(\.[a-z]+)$`)

// complete adds the shards that numbered names say are there: their absence is
// then noticed. Names count from 1, or rarely from 0.
func complete(files []string) []string {
	m := shardName.FindStringSubmatch(files[0])
	if m == nil {
		return files
	}
	count, err := strconv.Atoi(m[4])
	if err != nil || count <= len(files) || count > 9999 {
		return files
	}
	first, _ := strconv.Atoi(m[2])
	all := make([]string, 0, count)
	for i := min(first, 1); len(all) < count; i++ {
		number := strconv.Itoa(i)
		number = strings.Repeat("0", max(0, len(m[2])-len(number))) + number
		all = append(all, m[1]+number+m[3]+m[4]+m[5])
	}
	return all
}
