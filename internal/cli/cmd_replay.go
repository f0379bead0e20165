package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/bytesize"
	"floodmark/record"
)

type replayOptions struct {
	confs    []string
	capacity string
	total    string
	smallest bool
	pytorch  string
}

func (o *replayOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.confs, "conf", nil, "`settings` to try, as PYTORCH_ALLOC_CONF spells them; may be given several times, and \"\" is the defaults")
	textFlag(f, &o.capacity, "capacity", "`bytes` that the driver could give to the allocator (22.5GiB; default: no limit)")
	textFlag(f, &o.total, "total-memory", "`bytes` of the card, of which per_process_memory_fraction is taken")
	f.BoolVar(&o.smallest, "smallest-capacity", false, "find the least capacity with which the program still runs")
	textFlag(f, &o.pytorch, "pytorch", "the `version` of PyTorch whose rules hold (default: the newest)")
}

func newReplay(s *session) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay SNAPSHOT",
		Short: "Under other allocator settings, what would be reserved? With a certificate",
		Long: `Runs what a PyTorch memory snapshot recorded through a simulated caching
allocator. First under the recorded settings: every address, segment and release
must come out as recorded, which certifies the simulation on this very trace.
Then under each --conf, and with --capacity on a card that gives less. Without a
certificate there is no what-if (exit 4). A what-if is a simulation: it is not
validated on hardware.`,
		Example: `  floodmark replay snapshot.pickle
  floodmark replay snapshot.pickle --conf expandable_segments:True --conf max_split_size_mb:128
  floodmark replay snapshot.pickle --capacity 22GiB --smallest-capacity`,
		Args: takes(1, 1, "one snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			request, err := o.request(args[0])
			if err != nil {
				return err
			}
			replayed, err := floodmark.Replay(cmd.Context(), request)
			if err != nil {
				return err
			}
			document := replayed.Record(s.tool).(*record.Replay)
			if err := s.answer(document); err != nil {
				return err
			}
			return replayExit(document)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *replayOptions) request(path string) (floodmark.ReplayRequest, error) {
	r := floodmark.ReplayRequest{Path: path, Confs: o.confs, SmallestCapacity: o.smallest, PyTorch: o.pytorch}
	for _, size := range []struct {
		flag, text string
		into       *int64
	}{{"--capacity", o.capacity, &r.Capacity}, {"--total-memory", o.total, &r.TotalMemory}} {
		if size.text == "" {
			continue
		}
		n, err := bytesize.Parse(size.text)
		if err == nil && n < 1 {
			err = fmt.Errorf("%q is no amount of memory", size.text)
		}
		if err != nil {
			return r, &usageError{err: fmt.Errorf("%s: %w", size.flag, err)}
		}
		*size.into = n
	}
	return r, nil
}

// replayExit is 4 where a certificate does not hold, and otherwise the answer
// of the what-ifs: 3 when all of them run out of memory, 4 when none is known
// to run.
func replayExit(d *record.Replay) error {
	tried, failed, undecided := 0, 0, 0
	for _, device := range d.Devices {
		if !device.Certificate.Holds || device.Certificate.Refusal != nil {
			return &verdictError{exitCannotTell}
		}
		for _, w := range device.WhatIf {
			tried++
			switch {
			case w.OutOfMemory == nil:
				undecided++
			case *w.OutOfMemory:
				failed++
			}
		}
	}
	switch {
	case tried > 0 && failed == tried:
		return &verdictError{exitDoesNotFit}
	case tried > 0 && failed+undecided == tried:
		return &verdictError{exitCannotTell}
	}
	return nil
}
