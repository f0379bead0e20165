package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"floodmark/internal/kit"
	"floodmark/record"
)

func newKit(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "kit --output DIR|ZIP",
		Short: "The lab to take along: script, notebook, instructions, an empty table",
		Long: `Writes a folder, or a ZIP where the name ends so, with the lab as a stand-alone
Python script and as a notebook without outputs, instructions with the limits of
what a result says, an empty table for comparisons, licence, version and
checksums. It runs where Floodmark is not installed.`,
		Example: "  floodmark kit --output lab\n  floodmark kit --output lab.zip",
		Args:    takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case s.output == "":
				return &usageError{err: errors.New("kit needs a name for what it makes"), hint: "floodmark kit --output lab, or --output lab.zip"}
			case s.json:
				return &usageError{err: errors.New("kit makes files and no record"), hint: "floodmark kit --output lab"}
			}
			if err := record.Free(s.output); err != nil {
				return err
			}
			s.writing.Lock()
			defer s.writing.Unlock()
			if err := kit.Write(s.output, s.env.Version); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the lab is in %s; begin with its README.md\n", s.output)
			return err
		},
	}
}
