// Package report is how a record reads in a terminal.
//
// In: a document of package record, and a [Style] (width, colour, unit). Out:
// text. Every table has one unit, named in its heading; unknown is "—" and
// never 0; "≥" marks a figure of which only the lower end is known.
//
// It sees records only, computes no bytes, and prints where it is told.
package report
