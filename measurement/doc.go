// Package measurement is readings: for each phase, rank and device the counters
// at its start, its peaks and its end, and the policy under which they were taken.
//
// In: the readings that a probe wrote, finished or not, and the samples that
// were taken of devices and processes meanwhile. Out: a measurement and its
// accounts; a counter that was not read is missing, and the last readings of a
// failed run are lower bounds.
//
// Two peaks are never subtracted: a difference exists only between readings of
// one checkpoint. Samples can miss a peak, so a sampled peak is a lower bound.
//
// It touches no device, and compares nothing with an estimate.
package measurement
