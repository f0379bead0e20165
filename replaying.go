package floodmark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/internal/source"
	"floodmark/replay"
	"floodmark/snapshot"
)

// ReplayRequest is what a replay is asked about.
type ReplayRequest struct {
	Path string // a PyTorch memory snapshot
	// Confs are settings to try, as PYTORCH_ALLOC_CONF spells them; an empty one
	// is the defaults. The recording itself is always the first of the what-ifs;
	// without any settings, the recorded ones are tried where a capacity is given.
	Confs []string
	// Capacity is the bytes that the driver could give to the allocator. 0 is
	// what it could give in the recording, where that is known because a request
	// failed, else without a limit; so is NoLimit in any case.
	Capacity         int64
	TotalMemory      int64  // bytes of the card, of which memory fractions are taken; 0 when not known
	SmallestCapacity bool   // look for the least capacity with which the program still runs
	PyTorch          string // version whose rules hold; empty for the newest
}

// NoLimit is a capacity that nothing exceeds.
const NoLimit int64 = -1

// Replayed is a snapshot and the replay of each of its devices.
type Replayed struct {
	Request ReplayRequest
	Name    string
	Devices []ReplayedDevice
	// Warnings are about the request; those of a what-if are its own.
	Warnings []account.Warning
}

// ReplayedDevice is one device's certificate, and what other settings would do
// where the certificate holds.
type ReplayedDevice struct {
	*replay.Recorded
	WhatIfs []TriedSettings
	Refusal error // why there are no what-ifs: a [*replay.NotCertifiedError]
}

// TriedSettings is one what-if, with the least capacity where it was sought. The
// first of a device is the recording itself.
type TriedSettings struct {
	*replay.WhatIf
	SmallestCapacity int64  // bytes; 0 when not sought, or when the program never runs
	CapacityOrigin   string // given, recorded, memory_fraction, or empty without a capacity
}

// Replay runs what a snapshot recorded through the simulated allocator: first
// under the recorded settings, which certifies the simulation on this very
// trace, then under each of the settings that were asked for.
func Replay(ctx context.Context, r ReplayRequest) (*Replayed, error) {
	rules, settings, err := r.parse()
	if err != nil {
		return nil, err
	}
	src, err := source.Open(r.Path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	s, err := snapshot.Read(src)
	if errors.Is(err, source.ErrNotThisFormat) {
		return nil, source.InField(r.Path, "", "is not a PyTorch memory snapshot").
			WithHint("record one with torch.cuda.memory._record_memory_history() and _dump_snapshot(path)")
	}
	if err != nil {
		return nil, err
	}
	out := &Replayed{Request: r, Name: s.Name}
	if taken, known, err := allocator.NearestRelease(r.PyTorch); err == nil && !known {
		out.Warnings = append(out.Warnings, unknownVersion(r.PyTorch, taken))
	}
	recordings, recorded := s.Outlines(), slices.ContainsFunc(s.Traces, func(t snapshot.Trace) bool { return replay.HasHistory(&t) })
	if recorded {
		recordings = s.Recordings()
	}
	for _, recording := range recordings {
		d := ReplayedDevice{}
		if recorded {
			d.Recorded = replay.Replay(s, recording, rules, r.TotalMemory)
		} else {
			d.Recorded = replay.Unrecorded(s, recording, rules)
		}
		if err := d.try(ctx, r, rules, settings); err != nil {
			return nil, err
		}
		out.Devices = append(out.Devices, d)
	}
	return out, nil
}

// SettingsError is a request whose settings or version cannot be read.
type SettingsError struct{ Err error }

// Error is the cause's.
func (e *SettingsError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *SettingsError) Unwrap() error { return e.Err }

func (r ReplayRequest) parse() (allocator.Rules, []allocator.Settings, error) {
	rules := allocator.LatestRules()
	if r.PyTorch != "" {
		var err error
		if rules, err = allocator.RulesFor(r.PyTorch); err != nil {
			return rules, nil, &SettingsError{err}
		}
	}
	var list []allocator.Settings
	for _, conf := range r.Confs {
		s, err := allocator.ParseKnownConf(conf)
		if err == nil && s.Backend != allocator.Native {
			err = replay.ErrBackend
		}
		if err == nil && s.MemoryFraction < 1 && r.TotalMemory <= 0 {
			err = errTotal()
		}
		if err != nil {
			return rules, nil, &SettingsError{fmt.Errorf("allocator settings %q: %w", conf, err)}
		}
		list = append(list, s)
	}
	return rules, list, nil
}

// errTotal refuses a share of a card whose memory nobody named.
func errTotal() error {
	return source.InField("", "", "%v", replay.ErrTotalUnknown).WithHint("name the card's memory: --total-memory 40GiB")
}

// try adds the recording itself, and runs each of the settings; without a
// certificate it notes the refusal.
func (d *ReplayedDevice) try(ctx context.Context, r ReplayRequest, rules allocator.Rules, settings []allocator.Settings) error {
	recorded, err := d.AsRecorded()
	var refusal *replay.NotCertifiedError
	if errors.As(err, &refusal) {
		d.Refusal = refusal
		return nil
	}
	if err != nil {
		return err
	}
	base := TriedSettings{WhatIf: recorded}
	if recorded.Capacity > 0 {
		base.CapacityOrigin = capacityRecorded
	}
	o := replay.Options{Settings: recorded.Settings, Rules: rules, TotalMemory: r.TotalMemory}
	if err := d.least(ctx, r, &base, o); err != nil {
		return err
	}
	d.WhatIfs = append(d.WhatIfs, base)
	if len(settings) == 0 && r.Capacity != 0 {
		settings = []allocator.Settings{recorded.Settings}
	}
	for _, s := range settings {
		tried, err := d.tryOne(ctx, r, rules, s)
		if err != nil {
			return err
		}
		d.WhatIfs = append(d.WhatIfs, tried)
	}
	return nil
}

// Where a capacity comes from.
const (
	capacityGiven    = "given"
	capacityRecorded = "recorded"
	capacityFraction = "memory_fraction"
)

func (d *ReplayedDevice) tryOne(ctx context.Context, r ReplayRequest, rules allocator.Rules, s allocator.Settings) (TriedSettings, error) {
	o := replay.Options{Settings: s, Rules: rules, Capacity: r.Capacity, TotalMemory: r.TotalMemory}
	origin := capacityGiven
	if r.Capacity == 0 {
		o.Capacity = d.Limit()
		origin = capacityRecorded
	}
	w, err := d.WhatIf(ctx, o)
	if errors.Is(err, replay.ErrTotalUnknown) {
		return TriedSettings{}, &SettingsError{fmt.Errorf("the recorded allocator settings %q: %w", s, errTotal())}
	}
	if err != nil {
		return TriedSettings{}, err
	}
	tried := TriedSettings{WhatIf: w, CapacityOrigin: origin}
	switch {
	case w.Capacity == 0:
		tried.CapacityOrigin = ""
	case w.Capacity != o.Capacity:
		tried.CapacityOrigin = capacityFraction
	}
	return tried, d.least(ctx, r, &tried, o)
}

// least looks for the least capacity, if it was asked for; none where the
// program does not run whatever the capacity, or nobody knows of which card a
// fraction was taken.
func (d *ReplayedDevice) least(ctx context.Context, r ReplayRequest, tried *TriedSettings, o replay.Options) (err error) {
	if !r.SmallestCapacity || tried.Settings.MemoryFraction < 1 && r.TotalMemory <= 0 {
		return nil
	}
	tried.SmallestCapacity, err = d.SmallestCapacity(ctx, o)
	if errors.Is(err, replay.ErrNeverRuns) {
		return nil
	}
	if err == nil && len(d.Recording.Failures) > 0 {
		tried.Warnings = append(slices.Clone(tried.Warnings), account.Warning{Code: "least_capacity_to_the_failure",
			Text: "the least capacity serves the request that failed in the recording, too; what the program would have needed after it is not recorded"})
	}
	return err
}
