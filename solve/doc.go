// Package solve finds the largest or smallest value of one dimension that still
// fits.
//
// In: the dimension, its bounds, and a function that decides one value. Out: the
// value, the bytes that remain, what limits it, and the decision there. Where a
// decision cannot tell, the answer says so and is no value.
//
// It does not know how a value is decided, or what the dimension means.
package solve
