package floodmark

import (
	"context"
	"errors"
	"fmt"

	"floodmark/allocator"
	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
)

// ReplayRequest is what a replay is asked about.
type ReplayRequest struct {
	Path string // a PyTorch memory snapshot
	// Confs are settings to try, as PYTORCH_ALLOC_CONF spells them; an empty one
	// is the defaults. Without any, the recorded settings are tried where a
	// capacity is given, and else nothing but the certificate is made.
	Confs            []string
	Capacity         int64  // bytes that the driver could give to the allocator; 0 without a limit
	TotalMemory      int64  // bytes of the card, of which memory fractions are taken; 0 when not known
	SmallestCapacity bool   // look for the least capacity with which the program still runs
	PyTorch          string // version whose rules hold; empty for the newest
}

// Replayed is a snapshot and the replay of each of its devices.
type Replayed struct {
	Request ReplayRequest
	Name    string
	Devices []ReplayedDevice
}

// ReplayedDevice is one device's certificate, and what other settings would do
// where the certificate holds.
type ReplayedDevice struct {
	*replay.Recorded
	WhatIfs []TriedSettings
	Refusal error // why there are no what-ifs: a [*replay.NotCertifiedError]
}

// TriedSettings is one what-if, with the least capacity where it was sought.
type TriedSettings struct {
	*replay.WhatIf
	SmallestCapacity int64 // bytes; 0 when not sought, or when the program never runs
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
	for _, recording := range s.Recordings() {
		d := ReplayedDevice{Recorded: replay.Replay(s, recording, rules, r.TotalMemory)}
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
		s, err := allocator.ParseConf(conf)
		if err != nil {
			return rules, nil, &SettingsError{fmt.Errorf("allocator settings %q: %w", conf, err)}
		}
		if s.Backend != allocator.Native {
			return rules, nil, &SettingsError{fmt.Errorf("allocator settings %q: %w", conf, replay.ErrBackend)}
		}
		list = append(list, s)
	}
	return rules, list, nil
}

// try runs each of the settings; without a certificate it notes the refusal.
func (d *ReplayedDevice) try(ctx context.Context, r ReplayRequest, rules allocator.Rules, settings []allocator.Settings) error {
	if len(settings) == 0 && (r.Capacity > 0 || r.SmallestCapacity) {
		settings = []allocator.Settings{d.Run.Settings}
	}
	for _, s := range settings {
		o := replay.Options{Settings: s, Rules: rules, Capacity: r.Capacity, TotalMemory: r.TotalMemory}
		w, err := d.WhatIf(ctx, o)
		var refusal *replay.NotCertifiedError
		if errors.As(err, &refusal) {
			d.Refusal = refusal
			return nil
		}
		if err != nil {
			return err
		}
		tried := TriedSettings{WhatIf: w}
		if r.SmallestCapacity {
			if tried.SmallestCapacity, err = d.SmallestCapacity(ctx, o); err != nil {
				return err
			}
		}
		d.WhatIfs = append(d.WhatIfs, tried)
	}
	return nil
}

// Record is the replay as a document.
func (r *Replayed) Record(tool record.Tool) any {
	document := &record.Replay{
		Head:   record.Head{Envelope: record.NewEnvelope(record.KindReplay, tool, nil)},
		Source: r.Name,
	}
	for _, d := range r.Devices {
		document.Devices = append(document.Devices, d.record())
	}
	return document
}

func (d ReplayedDevice) record() record.ReplayDevice {
	r := record.ReplayDevice{
		Device: d.Recording.Timeline.Device, Settings: d.Run.Settings.String(), Certificate: certificateRecord(d.Recorded.Certificate)}
	if d.Refusal != nil {
		r.Certificate.Refusal = record.Text(d.Refusal.Error())
	}
	if d.Certificate.Holds() && d.Certificate.Addresses.Total > 0 {
		r.PeakAllocatedBytes = &d.Run.Peaks.Allocated.Bytes
	}
	r.CapacityBytes, r.CapacityLowBytes, _ = record.Interval(d.Capacity())
	for _, w := range d.WhatIfs {
		r.WhatIf = append(r.WhatIf, w.record())
	}
	return r
}

func certificateRecord(c replay.Certificate) record.Certificate {
	r := record.Certificate{
		Holds:         c.Holds(),
		Addresses:     record.Matched(c.Addresses),
		Segments:      record.Matched(c.Segments),
		Releases:      record.Matched(c.Releases),
		ReservedPeak:  record.Compared{Recorded: c.ReservedPeakRecorded, Replayed: c.ReservedPeakReplayed},
		EndStateEqual: c.EndStateEqual,
	}
	if m := c.FirstMismatch; m != nil {
		r.FirstMismatch = &record.Mismatch{Event: m.Entry, Action: m.Action, Text: m.Text}
	}
	return r
}

func (w TriedSettings) record() record.WhatIf {
	r := record.WhatIf{Settings: w.Settings.String(), ValidatedOnHardware: w.ValidatedOnHardware,
		Warnings: record.NewEnvelope("", record.Tool{}, w.Warnings).Warnings}
	if w.Capacity > 0 {
		r.CapacityBytes = &w.Capacity
	}
	if w.SmallestCapacity > 0 {
		r.SmallestCapacityBytes = &w.SmallestCapacity
	}
	r.PeakReservedBytes, r.PeakReservedLowBytes, r.PeakReservedHighBytes = record.Interval(w.PeakReserved)
	r.PeakAllocatedBytes, r.PeakAllocatedLowBytes, r.PeakAllocatedHighBytes = record.Interval(w.PeakAllocated)
	if w.OutOfMemory != replay.CannotTell {
		ran := w.OutOfMemory == replay.Yes
		r.OutOfMemory = &ran
	}
	return r
}
