package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/account"
	"floodmark/internal/recipe"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
	"floodmark/model/megatronmodel"
	"floodmark/workload"
)

// settled puts together what a recipe and the flags over it say: a length that is
// given as a flag leaves the other dimensions of the recipe, and what nobody said
// stays open.
func (a *asked) settled(f *pflag.FlagSet, before []workload.Input) error {
	if a.recipe == nil {
		return nil
	}
	w := &a.Workload
	if slices.ContainsFunc([]string{"micro-batch", "context", "generated", "sequences", "images", "resolution"}, f.Changed) {
		for _, in := range before {
			dimensions := maps.Clone(in.Dimensions)
			for _, over := range w.Inputs {
				maps.Copy(dimensions, over.Dimensions)
			}
			w.Inputs = []workload.Input{{Name: in.Name, Dimensions: dimensions}}
		}
	}
	a.over(f)
	if a.recipe.Ranks != nil {
		a.recipe.Ranks(w)
	}
	for _, assumed := range a.recipe.Assumed {
		if !f.Changed(assumed.Flag) {
			w.Assumed = append(w.Assumed, assumed.Text)
		}
	}
	if a.recipe.Ranked == nil || !f.Changed("data-parallel") {
		return nil
	}
	return ofRecipe(a.recipe.Ranked(w))
}

// ofRecipe is an error of a recipe, of which one about words is one of usage.
func ofRecipe(err error) error {
	var wrong *recipe.Error
	if errors.As(err, &wrong) {
		return &usageError{err: wrong, hint: wrong.Hint}
	}
	return err
}

// over notes the flags that go over what a recipe says.
func (a *asked) over(f *pflag.FlagSet) {
	said := a.recipe.Declared
	if a.Model != "" {
		said = without(said, "model")
		said = append(said, workload.Declaration{Field: "model", Value: a.Model, Key: "MODEL"})
	}
	if f.Changed("context") {
		a.recipe.Warnings = slices.DeleteFunc(a.recipe.Warnings, func(w account.Warning) bool { return w.Code == recipe.LengthNotSaid })
	}
	if f.Changed("data-parallel") {
		said = without(said, "processes") // of which the flag says another number
	}
	f.Visit(func(flag *pflag.Flag) {
		name := strings.ReplaceAll(flag.Name, "-", "_")
		if name == "precision" {
			name = "formats"
		}
		if rest := without(said, name); len(rest) < len(said) {
			said = append(rest, workload.Declaration{Field: name, Value: flag.Value.String(), Key: "--" + flag.Name})
		}
	})
	a.recipe.Declared = said
}

// without is a list without what is said of a field.
func without(list []workload.Declaration, field string) []workload.Declaration {
	return slices.DeleteFunc(slices.Clone(list), func(d workload.Declaration) bool { return d.Field == field })
}

// ontoRecipe puts what a recipe says beside its workload into a request.
func (a *asked) ontoRecipe(r *floodmark.Request) error {
	c := a.recipe
	if c == nil {
		return nil
	}
	if err := ofRecipe(c.TargetsOf(&r.Workload, r.Model.Type)); err != nil {
		return err
	}
	if slices.Contains(r.Model.Components(), model.VisionTower) {
		c.FreezesOf(&r.Workload, r.Model.Type)
	}
	r.Declared = c.Declared
	r.Warnings = append(r.Warnings, c.Warnings...)
	if c.Hidden != nil && len(r.Model.Stacks) > 0 {
		c.Hidden(&r.Workload, int64(r.Model.Stacks[0].Width))
	}
	return nil
}

// modelOf reads the model that is asked about: the one that is named, or the first
// of a recipe's names that leads to one.
func (s *session) modelOf(ctx context.Context, a *asked) (*model.Model, error) {
	switch {
	case a.recipe == nil || a.Model != "":
		return s.model(ctx, a.Model)
	case a.recipe.Config != nil:
		return hfmodel.Read(source.Bytes("the model of the command", a.recipe.Config))
	case a.recipe.Arguments != nil:
		return megatronmodel.New("the model of the command", a.recipe.Arguments)
	case len(a.recipe.Models) == 0:
		return nil, &usageError{err: errors.New("the configuration names no model that is known here"), hint: "name it too: floodmark estimate MODEL …"}
	}
	var first error
	for _, name := range a.recipe.Models {
		m, err := s.model(ctx, name)
		if err == nil {
			return m, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
