package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/record"
)

// partitionsField is what solve finds without a workload.
const partitionsField = "partitions"

// partitionOptions are the flags of solve partitions.
type partitionOptions struct {
	layout, budget, parameters string
}

func (o *partitionOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.layout, "layout", "of partitions: bytes of parameters, gradients, master copy and both moments (2+2+4+4+4), or a `layout` named by formats")
	textFlag(f, &o.budget, "state-budget", "of partitions: `bytes` of one part (64GB)")
	textFlag(f, &o.parameters, "parameters", "of partitions, in place of a model: a `count` of parameters")
}

// partitions answers solve partitions, of a model or of a number of parameters.
func (s *session) partitions(cmd *cobra.Command, o *partitionOptions, args []string) (*record.Solve, error) {
	if o.layout == "" || o.budget == "" {
		return nil, &usageError{err: errors.New("solve partitions takes --layout and --state-budget"), hint: "floodmark solve partitions --parameters 70600000000 --layout 2+2+4+4+4 --state-budget 64GB"}
	}
	budget, err := memory("--state-budget", o.budget)
	if err != nil {
		return nil, err
	}
	var name *string
	var parameters int64
	switch {
	case (o.parameters == "") != (len(args) == 1):
		return nil, &usageError{err: errors.New("solve partitions is of a model, or of --parameters")}
	case o.parameters != "":
		if parameters, err = count("--parameters", o.parameters); err != nil {
			return nil, err
		}
	default:
		m, err := s.model(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		exact, known := m.Parameters().IsExact()
		if !known {
			return nil, fmt.Errorf("how many parameters %s has is not known: %s", args[0], m.Parameters().Reason())
		}
		parameters, name = exact, &m.Name
	}
	p, err := floodmark.SolvePartitions(parameters, name, o.layout, budget)
	if err != nil {
		return nil, err
	}
	return p.Record(s.tool).(*record.Solve), nil
}
