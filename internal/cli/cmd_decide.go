package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/internal/report"
	"floodmark/record"
)

type decideOptions struct {
	options, qualities, margins, outOfScope, cards []string
	estimate, verified, choose, reason             string
	markdown, html                                 string
}

func newDecide(s *session) *cobra.Command {
	o := &decideOptions{}
	cmd := &cobra.Command{
		Use:   "decide --option NAME=FILE…",
		Short: "The decision record, its raw results named by their content",
		Long: `Makes the short record of a choice between measured options: what was calculated,
what was observed and what is assumed, apart. Each option names its raw result,
which is read and hashed; a missing one is an error. An option that failed, or
whose quality nobody judged, cannot be chosen: memory alone chooses nothing. The
lab network is no evidence. A margin is a list of named variations in bytes;
there is no percentage. Each card is looked at by itself.`,
		Example: `  floodmark decide --estimate estimate.json \
    --option "batch 1=b1.json" --quality "batch 1=loss 2.13 on the validation set" \
    --option "batch 2=b2.json" --quality "batch 2=loss 2.12 on the validation set" \
    --choose "batch 2" --reason "the same quality in half the time" --verified verify.json \
    --margin "longest input 9,216 instead of 8,192=1.2GiB" --out-of-scope "resume" \
    --card rtx-4090 --output decision.json --markdown decision.md`,
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := o.request()
			if err != nil {
				return err
			}
			if err := s.ready(o.markdown, o.html); err != nil {
				return err
			}
			document, err := floodmark.Decide(request, s.tool)
			if err != nil {
				return err
			}
			return s.answer(document, s.markdown(o.markdown, document), s.page(o.html, "decision", document, nil))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *decideOptions) addFlags(f *pflag.FlagSet) {
	textsFlag(f, &o.options, "option", "a candidate and its raw result, `NAME=FILE`; may be given several times, the first is what others are compared with")
	textsFlag(f, &o.qualities, "quality", "how good a candidate's results are, and by which rule: `NAME=TEXT`")
	textFlag(f, &o.choose, "choose", "the `name` of the candidate that is taken")
	textFlag(f, &o.reason, "reason", "`why` it is taken")
	textFlag(f, &o.estimate, "estimate", "the `record` of an estimate: the weights, and the phases that the work declares")
	textFlag(f, &o.verified, "verified", "the `record` of a run without instruments (measure --no-phases)")
	textsFlag(f, &o.margins, "margin", "a named variation and its bytes, `TEXT=BYTES`; without =BYTES they are unknown")
	textsFlag(f, &o.outOfScope, "out-of-scope", "`something` that was not tried")
	textsFlag(f, &o.cards, "card", "a `card` of the catalogue to compare with; may be given several times")
	newFileFlag(f, &o.markdown, "markdown", "", "also write the decision as Markdown to this new `file`")
	newFileFlag(f, &o.html, "html", "", "also write a page to this new `file`, which opens offline")
}

func (o *decideOptions) request() (floodmark.DecisionRequest, error) {
	r := floodmark.DecisionRequest{Estimate: o.estimate, Chosen: o.choose, Reason: o.reason, Verified: o.verified, Cards: o.cards, OutOfScope: o.outOfScope}
	for _, text := range o.options {
		name, file, ok := strings.Cut(text, "=")
		if !ok || name == "" || file == "" {
			return r, &usageError{err: fmt.Errorf("--option %q names no file", text), hint: `--option "batch 2=b2.json"`}
		}
		if slices.ContainsFunc(r.Options, func(p floodmark.DecisionOption) bool { return p.Name == name }) {
			return r, &usageError{err: fmt.Errorf("--option: %q is named twice", name)}
		}
		r.Options = append(r.Options, floodmark.DecisionOption{Name: name, File: file})
	}
	if len(r.Options) == 0 {
		return r, &usageError{err: errors.New("decide needs an option"), hint: `--option "batch 2=b2.json"`}
	}
	for _, text := range o.qualities {
		name, quality, _ := strings.Cut(text, "=")
		i := slices.IndexFunc(r.Options, func(p floodmark.DecisionOption) bool { return p.Name == name })
		if i < 0 || quality == "" {
			return r, &usageError{err: fmt.Errorf("--quality %q is of no option", text), hint: `--quality "NAME=TEXT", with the NAME of an --option`}
		}
		r.Options[i].Quality = quality
	}
	for _, text := range o.margins {
		v, err := variation(text)
		if err != nil {
			return r, err
		}
		r.Margin = append(r.Margin, v)
	}
	return r, nil
}

// variation reads "longest input=1.2GiB". A share of anything is refused.
func variation(text string) (record.Variation, error) {
	i := strings.LastIndex(text, "=")
	if i < 0 {
		i = len(text)
	}
	v := record.Variation{Variation: strings.TrimSpace(text[:i]), Origin: "assumed"}
	if v.Variation == "" || strings.HasSuffix(strings.TrimSpace(text), "%") {
		return v, &usageError{err: fmt.Errorf("--margin %q names no variation in bytes", text), hint: `there is no percentage: --margin "longest input 9,216=1.2GiB"`}
	}
	if i == len(text) {
		return v, nil
	}
	n, err := memorySize(strings.TrimSpace(text[i+1:]))
	if err != nil {
		return v, ofFlag("--margin", err)
	}
	v.Bytes = &n
	return v, nil
}

// markdown writes a decision as Markdown, where that is asked for.
func (s *session) markdown(file string, d *record.Decision) func() error {
	return func() error {
		if file == "" {
			return nil
		}
		return s.write(file, func(w io.Writer) error { return report.DecisionMarkdown(w, d) })
	}
}
