package floodmark

import (
	"errors"
	"fmt"

	"floodmark/account"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// howToRecord is what a person does whose file has nothing to replay.
const howToRecord = "call torch.cuda.memory._record_memory_history() before the work begins, and torch.cuda.memory._dump_snapshot(path) after it"

// Record is the replay as a document.
func (r *Replayed) Record(tool record.Tool) any {
	document := &record.Replay{
		Head:   record.Head{Envelope: record.NewEnvelope(record.KindReplay, tool, r.Warnings)},
		Source: r.Name,
	}
	for _, d := range r.Devices {
		row := d.record()
		if limit := d.Limit(); limit > 0 && r.Request.TotalMemory >= limit {
			outside := r.Request.TotalMemory - limit
			row.OutsideBytes = &outside
		}
		document.Devices = append(document.Devices, row)
	}
	return document
}

func (d ReplayedDevice) record() record.ReplayDevice {
	r := record.ReplayDevice{
		Device: d.Recording.Timeline.Device, Settings: d.Run.Settings.String(), SettingsOrigin: string(account.Assumed),
		Certificate: certificateRecord(d.Recorded.Certificate)}
	if d.SettingsRecorded {
		r.SettingsOrigin = string(account.Observed)
	}
	switch {
	case errors.Is(d.Refusal, replay.ErrNothingRecorded):
		r.Certificate.Holds, r.Certificate.Refusal = nil, record.Text("nothing was recorded; "+howToRecord)
	case d.Refusal != nil:
		r.Certificate.Refusal = record.Text(d.Refusal.Error())
	default:
		r.PeakAllocatedBytes, r.PeakActiveBytes = &d.Run.Peaks.Allocated.Bytes, &d.Run.Peaks.Active.Bytes
	}
	r.CapacityBytes, r.CapacityLowBytes, _ = record.Interval(d.Capacity())
	for _, w := range d.WhatIfs {
		r.WhatIf = append(r.WhatIf, w.record(d.Recorded))
	}
	return r
}

func certificateRecord(c replay.Certificate) record.Certificate {
	holds := c.Holds()
	r := record.Certificate{
		Holds:         &holds,
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

func (w TriedSettings) record(of *replay.Recorded) record.WhatIf {
	r := record.WhatIf{Recorded: w.Recorded, Settings: w.Settings.String(), ValidatedOnHardware: w.ValidatedOnHardware,
		CapacityOrigin: record.Text(w.CapacityOrigin),
		Warnings:       record.NewEnvelope("", record.Tool{}, w.Warnings).Warnings}
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
	for _, run := range []*replay.Run{w.Kept, w.Fresh} {
		if run != nil && run.Failure() != nil && (r.Failure == nil || w.OutOfMemory == replay.Yes) {
			r.Failure = requestRecord(of, run.Failure())
		}
	}
	r.Served = requestRecord(of, w.Served())
	return r
}

// requestRecord is where a replay ended: the entry of the trace and its stack.
func requestRecord(of *replay.Recorded, stop *replay.Stop) *record.Request {
	if stop == nil {
		return nil
	}
	tl := &of.Recording.Timeline
	r := &record.Request{Event: -1, RequestBytes: &stop.Requested, ReservedBytes: &stop.Reserved}
	if stop.Moment < 0 || stop.Moment >= len(tl.Events) {
		return r
	}
	r.Event = int64(of.Recording.Entries[stop.Moment])
	stack := timeline.NoStack
	switch e := tl.Events[stop.Moment]; e.Kind {
	case timeline.OutOfMemory:
		r.AsRecorded, stack = true, tl.Failures[e.Alloc].Stack
	case timeline.Born:
		stack = tl.Allocs[e.Alloc].Stack
	}
	r.Stack, r.Where = frames(&tl.Stacks, stack), snapshot.Where(&tl.Stacks, stack)
	return r
}

// unknownVersion warns of a version whose rules nobody read.
func unknownVersion(version, taken string) account.Warning {
	return account.Warning{Code: "pytorch_version_unknown", Text: fmt.Sprintf("PyTorch %s is not known here; the rules of %s are taken", version, taken)}
}
