package cli

import (
	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/record"
)

// mostCompared bounds how many records stand in one table.
const mostCompared = 64

func newCompare(s *session) *cobra.Command {
	var o floodmark.CompareOptions
	var most string
	cmd := &cobra.Command{
		Use:   "compare A B…",
		Short: "What changed, which terms moved, and what that switch can reach",
		Long: `Sets two estimates side by side, two measurements, or two PyTorch memory
snapshots.

Of estimates and measurements exactly one thing may differ. More than one changed
variable, another policy, other contents of the inputs or tokens that were cut off
make the two not comparable, which is refused; --force shows them all the same, and
says so. What the one thing can reach is said beside what it moved: which terms it
can touch where the peak is, and how much of that peak they are. With --fail-over
the exit code is 5 where a peak of B is greater than that of A by more than so many
bytes: a gate for CI, over a baseline of the same machine.

More than two are one table against the first, in the order in which they were
named: memory alone ranks nothing.

Of snapshots it lists for each device the stacks whose allocations explain the
difference of the peaks of requested bytes, largest first; the rows and the rest
sum to the difference.`,
		Example: `  floodmark compare plan.json checkpointed.json
  floodmark compare before.pickle after.pickle
  floodmark compare baseline.json run.json --fail-over 256MiB
  floodmark compare batch1.json batch2.json batch4.json`,
		Args: takes(2, mostCompared, "two or more estimates or measurements, or two snapshots"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			document, err := s.compare(cmd, args, o)
			if err != nil {
				return err
			}
			limit := int64(-1)
			if most != "" {
				if limit, err = tolerance(most); err != nil {
					return ofFlag("--fail-over", err)
				}
			}
			if err := s.answer(document); err != nil {
				return err
			}
			return overLimit(document, limit)
		},
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "compare what is not comparable, and say so")
	textFlag(cmd.Flags(), &most, "fail-over", "`bytes` by which a peak may grow (0B, 256MiB); beyond, the exit code is 5")
	return cmd
}

func (s *session) compare(cmd *cobra.Command, args []string, o floodmark.CompareOptions) (*record.Comparison, error) {
	var list []floodmark.Evidence
	for _, path := range args {
		e, err := s.open(cmd, path)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if len(list) > 2 {
		return floodmark.CompareSeveral(list, args, o, s.tool)
	}
	return floodmark.Compare(list[0], list[1], [2]string{args[0], args[1]}, o, s.tool)
}

// tolerance is an amount of bytes that may be none.
func tolerance(text string) (int64, error) {
	if text == "0" || text == "0B" {
		return 0, nil
	}
	return memorySize(text)
}

// overLimit is exit code 5 where a peak grew by more than the limit; −1 is none.
// A peak that one side does not have, or whose growth may or may not be within it,
// cannot be told.
func overLimit(d *record.Comparison, limit int64) error {
	if limit < 0 {
		return nil
	}
	for _, r := range d.Records {
		if r.DifferenceLow != nil && *r.DifferenceLow > limit {
			return &verdictError{exitDiffers}
		}
	}
	for i, r := range d.Records {
		if i > 0 && (r.DifferenceHigh == nil || *r.DifferenceHigh > limit) {
			return &verdictError{exitCannotTell}
		}
	}
	for _, total := range d.Totals {
		if n := leastGrowth(total); n != nil && *n > limit {
			return &verdictError{exitDiffers}
		}
	}
	for _, total := range d.Totals {
		within := total.DifferenceBytes != nil || total.DifferenceHigh != nil && *total.DifferenceHigh <= limit
		if !within && total.Term == "peak" {
			return &verdictError{exitCannotTell}
		}
	}
	if len(d.Totals)+len(d.Records) == 0 {
		return &verdictError{exitCannotTell}
	}
	return nil
}

// leastGrowth is the least by which a row grew; nil where nobody knows.
func leastGrowth(r record.ComparisonRow) *int64 {
	if r.DifferenceBytes != nil {
		return r.DifferenceBytes
	}
	return r.DifferenceLow
}
