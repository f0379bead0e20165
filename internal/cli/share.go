package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/record"
)

// maxShared bounds the workloads of one device: more than any has processes.
const maxShared = 64

// share decides several workloads on one device.
func (s *session) share(cmd *cobra.Command, o *estimateOptions, args []string) (*record.Estimate, error) {
	if o.card == everyCard {
		return nil, &usageError{err: errors.New("--share is of one card, and --card all asks for every card")}
	}
	index, err := deviceIndex("--share", o.share)
	if err != nil {
		return nil, err
	}
	var workloads []floodmark.Workload
	for _, arg := range args {
		request, err := s.request(cmd, &o.workOptions, arg)
		if err != nil {
			return nil, err
		}
		workloads = append(workloads, floodmark.Workload{Name: arg, Request: request})
	}
	shared, err := floodmark.Share(cmd.Context(), index, workloads)
	if err != nil {
		return nil, err
	}
	return shared.Record(s.tool).(*record.Estimate), nil
}
