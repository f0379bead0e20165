// Package estimate is the contract between a workload on one rank and the
// engine that would run it.
//
// In: a model, what one rank holds of it, a workload, and the memory that the
// rank would have, all by value ([Input]). Out: a [Result]: a timeline whose
// terms are each counted, zero because of something, or unknown because of
// something. One package below this one is one engine.
//
// It imports no device and sees no measurement.
package estimate
