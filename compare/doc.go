// Package compare sets two pieces of evidence side by side.
//
// In: amounts of like scope under names that mean the same on both sides. Out:
// rows with both amounts and their difference, largest difference first, and a
// residual for what no row shows, so that the rows always sum to the difference
// of the totals. A name that one side lacks holds 0 there only when that side
// was counted whole; otherwise it is unknown.
//
// Of what was foreseen and what was seen: the difference as an interval, whether
// the two can be the same, errors of parts that hide each other in their sum, and
// which bytes a difference is.
//
// It does not know where amounts come from, and it never compares two scopes.
package compare
