package workload

import (
	"fmt"
	"strings"

	"floodmark/dtype"
)

// StateFormat is the declared format of one kind of tensor that training keeps
// beside the parameters. The zero StateFormat is undeclared.
type StateFormat struct {
	Format   dtype.Format // Unknown where there is none, or nobody declared it
	Declared bool
	// Blockwise is 8 bits an element and a 32-bit maximum for each block, whose
	// size is the optimizer's.
	Blockwise bool
}

// None reports a kind of tensor that is declared not to exist.
func (s StateFormat) None() bool { return s.Declared && s.Format == dtype.Unknown }

// String is the format as a layout spells it.
func (s StateFormat) String() string {
	switch {
	case !s.Declared:
		return "not declared"
	case s.None():
		return "none"
	case s.Blockwise:
		return "8bit"
	}
	return FormatName(s.Format)
}

// FormatName is a format as layouts and flags spell it.
func FormatName(f dtype.Format) string {
	switch f {
	case dtype.F64:
		return "fp64"
	case dtype.F32:
		return "fp32"
	case dtype.F16:
		return "fp16"
	}
	return strings.ToLower(f.String())
}

// In is a declared format.
func In(f dtype.Format) StateFormat { return StateFormat{Format: f, Declared: true} }

// Without is the declaration that there is no such tensor.
func Without() StateFormat { return StateFormat{Declared: true} }

// EightBit is 8 bits an element, in blocks.
func EightBit() StateFormat {
	return StateFormat{Format: dtype.U8, Declared: true, Blockwise: true}
}

// ParseStateFormat reads "fp32", "8bit" or "none".
func ParseStateFormat(text string) (StateFormat, bool) {
	switch text {
	case "":
		return StateFormat{}, true
	case "none", "no":
		return Without(), true
	case "8bit":
		return EightBit(), true
	}
	f, ok := dtype.Parse(text)
	if !ok || f != dtype.F32 && f != dtype.F16 && f != dtype.BF16 && f != dtype.F64 {
		return StateFormat{}, false
	}
	return In(f), true
}

// Layouts lists layouts of training tensors that are in use, each named by what
// it holds. Any other name of the same words is read too.
func Layouts() []string {
	return []string{
		"bf16-params-bf16-grads-fp32-master-fp32-moments", // 2+2+4+4+4
		"bf16-params-fp32-grads-fp32-master-fp32-moments", // 2+4+4+4+4
		"fp32-params-autocast",                            // 4+4+4+4
		"fp32-params",                                     // 4+4+4+4
		"bf16-params",                                     // 2+2+2+2
		"bf16-params-8bit-moments",                        // 2+2+1+1 and maxima
		"bf16-params-no-moments",                          // 2+2
	}
}

// ParseLayout reads the name of a layout: words such as bf16-params, fp32-grads,
// fp32-master, 8bit-moments, no-moments and autocast. What a name leaves out is
// as PyTorch has it: gradients and moments in the format of what they belong to,
// the master copy where there is one, and no master copy. "mixed" names no
// layout, for it leaves open which tensor has which format.
func ParseLayout(name string) (p Precision, autocast dtype.Format, err error) {
	words := strings.Split(strings.ToLower(strings.TrimSpace(name)), "-")
	if len(words) == 1 && strings.HasPrefix(words[0], "mixed") {
		return p, autocast, fmt.Errorf("%q does not say which format each tensor has: declare parameters, gradients, master_copy, first_moment and second_moment, or name a layout by them (%s)", name, strings.Join(Layouts(), ", "))
	}
	if err := p.words(words, &autocast); err != nil {
		return p, autocast, fmt.Errorf("%q is no layout of training tensors: %w; layouts are named by what they hold, as %s", name, err, strings.Join(Layouts(), ", "))
	}
	if p.Parameters == dtype.Unknown {
		return p, autocast, fmt.Errorf("%q does not say which format the parameters have: it needs a word such as bf16-params", name)
	}
	p.Layout = name
	return p, autocast, nil
}

// words takes a layout's name in its pairs of a format and what has it. Each word
// counts once, and none is left over: what is not understood is refused.
func (p *Precision) words(words []string, autocast *dtype.Format) error {
	format := ""
	for _, word := range words {
		switch word {
		case "bf16", "fp16", "fp32", "fp64", "8bit", "no":
			if format != "" {
				return fmt.Errorf("%q is followed by %q, expected what has it: params, grads, master, moments or autocast", format, word)
			}
			format = word
			continue
		case "params", "parameters", "autocast":
			if err := p.computes(word, format, autocast); err != nil {
				return err
			}
		default:
			if err := p.keeps(word, format); err != nil {
				return err
			}
		}
		format = ""
	}
	if format != "" {
		return fmt.Errorf("%q ends it, expected what has it: params, grads, master, moments or autocast", format)
	}
	return nil
}

// computes takes the word of the parameters, or of what is computed in.
func (p *Precision) computes(word, format string, autocast *dtype.Format) error {
	f := p.Parameters
	if word == "autocast" {
		f = *autocast
	}
	state, known := ParseStateFormat(format)
	switch {
	case f != dtype.Unknown:
		return fmt.Errorf("it says %s twice", word)
	case word == "autocast" && format == "":
		*autocast = dtype.BF16
	case word == "autocast" && (format == "bf16" || format == "fp16"):
		*autocast = state.Format
	case word == "autocast":
		return fmt.Errorf("autocast computes in bf16 or fp16, not %q; without autocast the word is left out", format)
	case !known || state.Blockwise || state.Format == dtype.Unknown:
		return fmt.Errorf("parameters are not trained in %q", format)
	default:
		p.Parameters = state.Format
	}
	return nil
}

// keeps takes the word of what training keeps beside the parameters.
func (p *Precision) keeps(word, format string) error {
	into, allowed := &p.Gradients, StateFormat.fullWidth
	switch word {
	case "grads", "gradients":
	case "master":
		into, allowed = &p.MasterCopy, func(s StateFormat) bool { return !s.Blockwise }
	case "moments":
		into, allowed = &p.FirstMoment, func(StateFormat) bool { return true }
	default:
		return fmt.Errorf("%q is no word of one", word)
	}
	state, known := ParseStateFormat(format)
	if !known || !state.Declared || !allowed(state) {
		return fmt.Errorf("%s need a format, not %q", word, format)
	}
	if into.Declared {
		return fmt.Errorf("it says %s twice", word)
	}
	*into = state
	if word == "moments" {
		p.SecondMoment = state
	}
	return nil
}

// fullWidth reports a tensor that is there, with each of its elements: what training
// without gradients, or with gradients in blocks of 8 bits, does not have.
func (s StateFormat) fullWidth() bool { return !s.None() && !s.Blockwise }

// Completed fills in what a layout's name leaves out.
func (p Precision) Completed() Precision {
	if p.Layout == "" {
		return p
	}
	if !p.Gradients.Declared {
		p.Gradients = In(p.Parameters)
	}
	if !p.MasterCopy.Declared {
		p.MasterCopy = Without()
	}
	updated := In(p.Parameters)
	if !p.MasterCopy.None() {
		updated = p.MasterCopy
	}
	if !p.FirstMoment.Declared {
		p.FirstMoment, p.SecondMoment = updated, updated
	}
	return p
}

// Undeclared lists the kinds of training tensors of which nobody declared the
// format, for an optimizer with so many moments of its parameters' choosing.
func (p Precision) Undeclared(moments int) []string {
	p = p.Completed()
	var missing []string
	if p.Parameters == dtype.Unknown {
		missing = append(missing, "parameters")
	}
	for _, s := range []struct {
		name   string
		format StateFormat
		needed bool
	}{
		{"gradients", p.Gradients, true}, {"master_copy", p.MasterCopy, true},
		{"first_moment", p.FirstMoment, moments > 0}, {"second_moment", p.SecondMoment, moments > 1},
	} {
		if s.needed && !s.format.Declared {
			missing = append(missing, s.name)
		}
	}
	return missing
}
