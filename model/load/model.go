package load

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"floodmark/internal/hub"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
	"floodmark/model/load/catalogue"
)

// Options say where a name may lead.
type Options struct {
	Hub hub.Settings // the zero value asks no hub
}

// Model reads the model that a name means. The first of these counts: a file
// or folder of that path; a repository of the hub, org/name or
// org/name@revision, with :file after it for one of several GGUF models as in
// org/name:Q4_K_M; a name of the catalogue, as "llama-3.1-8b".
//
// A repository that the hub does not give, but that the catalogue has, is read
// from there, with a warning; one of timm's vision transformers, as
// "timm/vit_base_patch16_224", from what timm's function of that name builds.
func Model(ctx context.Context, name string, o Options) (*model.Model, error) {
	if _, err := os.Stat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return fromPath(ctx, name)
	}
	repository, isName := hub.ParseName(name)
	if !isName {
		return fromCatalogue(name)
	}
	m, err := fromHub(ctx, repository, o.Hub)
	if err == nil || ctx.Err() != nil {
		return m, err
	}
	if m, is := fromTimm(repository.Repository()); is {
		m.Warnings = append(m.Warnings, warning("timm_instead_of_hub", "the sizes are those that timm gives this name, and 1,000 classes are assumed; a config.json beside the weights says their own: %v", err))
		return m, nil
	}
	entry, known, _ := catalogue.Find(repository.Repository())
	if !known || !strings.EqualFold(entry.ID, repository.Repository()) {
		return nil, noPath(err)
	}
	m, wrong := fromEntry(entry)
	if wrong != nil {
		return nil, err
	}
	m.Warnings = append(m.Warnings, warning("catalogue_instead_of_hub", "the sizes are those of the catalogue: %v", err))
	return m, nil
}

// timmOwner is whose repositories timm's weights are.
const timmOwner = "timm/"

// fromTimm is a vision transformer that timm has a function for. What stands behind
// a dot names the weights, not the model.
func fromTimm(repository string) (*model.Model, bool) {
	name, is := strings.CutPrefix(repository, timmOwner)
	function, _, _ := strings.Cut(name, ".")
	if !is || !hfmodel.TimmKnown(function) {
		return nil, false
	}
	m, err := hfmodel.Read(source.Bytes(repository, []byte(`{"architecture": "`+function+`", "num_classes": 1000}`)))
	if err != nil {
		return nil, false
	}
	m.Name = repository
	m.Sources = []model.Source{{Name: "https://github.com/huggingface/pytorch-image-models/blob/v1.0.31/timm/models/vision_transformer.py", Kind: catalogueKind}}
	return m, true
}

// noPath adds to the hint of an error about a repository that its name may have
// been meant as a path.
func noPath(err error) error {
	var f *source.FormatError
	if errors.As(err, &f) && f.Hint != "" {
		return f.WithHint("%s; there is no file or folder of that name here", f.Hint)
	}
	return err
}

// fromHub reads a repository.
func fromHub(ctx context.Context, name hub.Name, s hub.Settings) (*model.Model, error) {
	folder, err := hub.Open(ctx, s, name)
	if err != nil {
		return nil, err
	}
	if name.File != "" {
		return fromSelected(ctx, folder, name)
	}
	return fromFolder(ctx, folder, name.Repository())
}

// fromSelected reads one file of a repository, or the one GGUF model whose name
// has that part.
func fromSelected(ctx context.Context, folder source.Folder, name hub.Name) (*model.Model, error) {
	files, err := folder.Files(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(files, name.File) {
		return fromFile(ctx, folder, name.File, name.Repository())
	}
	var found []string
	for _, set := range sets(files) {
		if strings.Contains(strings.ToLower(set[0]), strings.ToLower(name.File)) {
			found = append(found, set[0])
		}
	}
	if len(found) != 1 {
		return nil, source.InField(name.String(), "", "is %d of the GGUF models there: %s", len(found), several(found)).
			WithHint("write the whole name of the file after the colon")
	}
	return fromFile(ctx, folder, found[0], name.Repository())
}

// fromCatalogue reads a name that is neither a path nor a repository.
func fromCatalogue(name string) (*model.Model, error) {
	entry, known, err := catalogue.Find(name)
	var ambiguous *catalogue.AmbiguousError
	switch {
	case errors.As(err, &ambiguous):
		return nil, source.InField(name, "", "is the beginning of several names: %s", strings.Join(ambiguous.Candidates, ", ")).WithHint("write one of them")
	case err != nil:
		return nil, err
	case !known:
		err := source.InField(name, "", "is no file or folder, and no name of the catalogue").
			WithHint("name a folder, a file, a repository of the hub (org/name), or a model of the catalogue: %s", offered(name))
		err.Err = fs.ErrNotExist
		return nil, err
	}
	return fromEntry(entry)
}

// offered lists the names of the catalogue that share a word with a name, or
// else all of them.
func offered(name string) string {
	all, err := catalogue.Names()
	if err != nil {
		return "llama-3.1-8b"
	}
	var near []string
	word, _, _ := strings.Cut(strings.ToLower(name), "-")
	for _, short := range all {
		if word != "" && strings.Contains(short, word) {
			near = append(near, short)
		}
	}
	if len(near) > 0 {
		return strings.Join(near, ", ")
	}
	return strings.Join(all, ", ")
}

func fromEntry(e catalogue.Entry) (*model.Model, error) {
	m, err := hfmodel.Read(source.Bytes(e.ID, e.Config))
	if err != nil {
		return nil, err
	}
	m.Name = e.ID
	m.Sources = []model.Source{{Name: e.Origin + "/blob/" + e.Commit + "/" + e.Path, Kind: catalogueKind}}
	return m, nil
}
