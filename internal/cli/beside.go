package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/internal/source"
	"floodmark/record"
)

// besideOptions are the flags that say which estimate stands beside evidence.
type besideOptions struct {
	against, gpu, capacity, engine string
}

func (o *besideOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.against, "against", "an estimate (`file` of estimate --json, or a workload or compose file) to set beside the evidence")
	textFlag(f, &o.gpu, "gpu", "the `card` under every rank of the command behind --, by a name of the catalogue")
	textFlag(f, &o.capacity, "capacity", "the `total` that the card reports to a program, in place of the catalogue's (79.19GiB)")
	textFlag(f, &o.engine, "engine", "the engine of the command behind --, with its version (`vllm@0.19.0`)")
}

// takesBeside is takes for arguments behind which a command may stand.
func takesBeside(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before, _, _ := behindDash(cmd, args)
		return takes(least, most, what)(cmd, before)
	}
}

// beside is the evidence and the estimate that was asked for; nil where none was.
// Of an estimate and evidence either may be named first.
func (s *session) beside(cmd *cobra.Command, o *besideOptions, args []string, evidence floodmark.Evidence) (floodmark.Evidence, *record.Estimate, error) {
	_, _, launched := behindDash(cmd, args)
	switch {
	case launched && o.against != "":
		return nil, nil, &usageError{err: errors.New("--against and a command behind -- are two estimates")}
	case !launched && o.against == "":
		return evidence, nil, nil
	}
	if e, is := evidence.Record(s.tool).(*record.Estimate); is && !launched {
		other, err := s.open(cmd, o.against)
		return other, e, err
	}
	// A record is known by its content, whatever its name ends in.
	if e, err := estimateIn(o.against); err == nil || strings.HasSuffix(o.against, ".json") {
		return evidence, e, err
	}
	work := workOptions{cardOptions: cardOptions{gpu: o.gpu, capacity: o.capacity}, engine: o.engine, layout: layoutOptions{1, 1, 1, 1, 1}}
	request, err := s.request(cmd, &work, o.against)
	if err != nil {
		return nil, nil, err
	}
	p, err := floodmark.Estimate(cmd.Context(), request)
	if err != nil {
		return nil, nil, err
	}
	return evidence, p.Record(s.tool).(*record.Estimate), nil
}

// estimateIn reads an estimate that floodmark wrote.
func estimateIn(path string) (*record.Estimate, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	document, err := record.Read(src)
	if err != nil {
		return nil, err
	}
	e, is := document.(*record.Estimate)
	if !is {
		return nil, source.InField(path, "kind", "is no estimate").WithHint("floodmark estimate … -o plan.json writes one")
	}
	return e, nil
}
