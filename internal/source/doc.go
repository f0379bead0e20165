// Package source reads bytes that somebody else wrote, and says what is wrong
// with them and where.
//
// In: a path or a byte slice. Out: a [Source], which is a named [io.ReaderAt]
// of known size; [FormatError] with file, offset or field, and a hint; and the
// sentinel [ErrNotThisFormat], by which a reader hands a file on to the next.
//
// It never looks inside a file, and every read is bounded by the file's size.
package source
