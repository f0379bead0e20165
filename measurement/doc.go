// Package measurement is readings: for each phase, rank and device the counters
// at its start, its peaks and its end, and the policy under which they were taken.
//
// In: the readings that a probe wrote, finished or not. Out: a measurement and
// its accounts; a counter that was not read is missing, and the last readings of
// a failed run are lower bounds.
//
// It touches no device, and compares nothing with an estimate.
package measurement
