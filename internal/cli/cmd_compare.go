package cli

import (
	"github.com/spf13/cobra"

	"floodmark"
)

func newCompare(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "What changed between two memory snapshots, and which stacks moved the peak",
		Long: `Sets two PyTorch memory snapshots side by side. For each device it lists the
stacks whose allocations explain the difference of the peaks of requested bytes,
largest first; the rows and the rest sum to the difference.`,
		Example: "  floodmark compare before.pickle after.pickle\n  floodmark compare before.pickle after.pickle --json",
		Args:    takes(2, 2, "two snapshots"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			a, err := s.open(cmd, args[0])
			if err != nil {
				return err
			}
			b, err := s.open(cmd, args[1])
			if err != nil {
				return err
			}
			document, err := floodmark.Compare(a, b, s.tool)
			if err != nil {
				return err
			}
			return s.answer(document)
		},
	}
}
