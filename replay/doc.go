// Package replay runs a timeline through the caching allocator.
//
// In: a [timeline.Timeline], predicted or recorded, and settings of the
// allocator; or what a device recorded, a [snapshot.Recording] with its segment
// events. Out: the levels of requested, allocated, active and reserved bytes
// with their peaks and moments ([Run]), an account of them, and what would be
// reserved under other settings or on a smaller card ([WhatIf]).
//
// A what-if on a recording is believed only because the same simulation, under
// the settings of the recording, finds every recorded address, every segment
// and every release again. That comparison is the [Certificate]; without one
// that holds there is no what-if, but a [NotCertifiedError].
//
// A recording in which a request failed says what the driver could give. Under a
// what-if that request fails again, and the program ran out of memory as it did;
// or it is served, and the run ends there with lower bounds ([ErrServed]),
// because what the program would have done then is not recorded.
//
// It does not know what a model is, and it decides nothing. A what-if is not
// validated on hardware, and says so.
package replay
