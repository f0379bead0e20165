package cli

import (
	"github.com/spf13/cobra"

	"floodmark"
)

func newGPUs(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "gpus [NAME]",
		Short: "The catalogue of cards: label against reported bytes",
		Long: `Lists the cards of the catalogue, or the one of that name: what is printed on
the box beside the totals that such cards were seen to report. A label is not a
capacity.`,
		Example: "  floodmark gpus\n  floodmark gpus h100 --json",
		Args:    takes(0, 1, "at most one card"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			document, err := floodmark.GPUs(name, s.tool)
			if err != nil {
				return err
			}
			return s.answer(document)
		},
	}
}
