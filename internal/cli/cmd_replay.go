package cli

import (
	"fmt"
	"regexp"
	"strings"

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
	textFlag(f, &o.capacity, "capacity", "`bytes` that the driver could give to the allocator (22.5GiB, or none; default: as in a recording in which a request failed, else none)")
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
Then under each --conf, and with --capacity on a card that gives less. Where a
request failed in the recording, what the driver could give then is the limit,
and a row that serves that request ends there: what the program would have done
next is not recorded (exit 4 where no row is known to run). Without a certificate
there is no what-if (exit 4). A what-if is a simulation: it is not validated on
hardware.`,
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
		if size.text == "none" && size.into == &r.Capacity {
			r.Capacity = floodmark.NoLimit
			continue
		}
		n, err := memorySize(size.text)
		if err != nil {
			return r, ofFlag(size.flag, err)
		}
		*size.into = n
	}
	return r, nil
}

// reGrouped is bytes as tables print them: 24,528,289,792 B.
var reGrouped = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+ ?B$`)

// memorySize reads an amount of memory, which has a unit: 22 bytes are nobody's
// capacity, and 22 may be meant as GiB or GB.
func memorySize(text string) (int64, error) {
	if reGrouped.MatchString(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	if strings.TrimLeft(text, "+-0123456789. ") == "" {
		return 0, &usageError{err: fmt.Errorf("%.80q has no unit", text), hint: fmt.Sprintf("write %.40[1]sGiB, or %.40[1]sB for bytes", strings.TrimSpace(text))}
	}
	n, err := bytesize.Parse(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%.80q is no amount of memory", text)
	}
	return n, err
}

// replayExit is 4 where a certificate does not hold or nothing was recorded at
// all, and otherwise the answer of the what-ifs, the recording itself aside: 3
// when all of them run out of memory, 4 when none is known to run.
func replayExit(d *record.Replay) error {
	certified, tried, failed, undecided := 0, 0, 0, 0
	for _, device := range d.Devices {
		holds := device.Certificate.Holds
		switch {
		case holds == nil:
			continue
		case !*holds:
			return &verdictError{exitCannotTell}
		}
		certified++
		for _, w := range device.WhatIf {
			switch {
			case w.Recorded:
				continue
			case w.OutOfMemory == nil:
				undecided++
			case *w.OutOfMemory:
				failed++
			}
			tried++
		}
	}
	switch {
	case tried > 0 && failed == tried:
		return &verdictError{exitDoesNotFit}
	case certified == 0, tried > 0 && failed+undecided == tried:
		return &verdictError{exitCannotTell}
	}
	return nil
}
