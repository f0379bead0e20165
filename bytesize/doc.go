// Package bytesize is exact arithmetic, reading and printing of byte counts.
//
// In: integers and texts such as "80 GiB". Out: int64 byte counts, or the news
// that a count does not fit in 63 bits. Units exist only here and at the edge
// of the program: GB is 10⁹ bytes, GiB is 2³⁰ bytes (IEC 80000-13), and a bare
// "80G" is refused because it does not say which of the two is meant.
//
// It knows nothing of memory, tensors or cards.
package bytesize
