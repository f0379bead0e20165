// Package timeline is births and deaths of allocations, in order.
//
// A prediction and a recorded trace have the same form: a [Timeline] of
// allocations (24 bytes each), events (8 bytes each) whose index is the
// moment, spans that name the phases, and bounds for bytes that have no births
// (intervals, unknowns, and what lies outside the allocator). In: whatever
// builds one. Out: levels of requested bytes, their peaks and what is alive at
// a moment; [Envelope] is the only level-of-detail code, for every view.
//
// It does not know how an allocator rounds, where a trace comes from, or what
// a model is. Allocated and reserved bytes come from package replay.
package timeline
