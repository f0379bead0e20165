// Package source reads bytes that somebody else wrote, and says what is wrong
// with them and where.
//
// In: a path or a byte slice. Out: a [Source], which is a named [io.ReaderAt]
// of known size; a [Folder], files that belong together; [FormatError] with
// file, offset or field, and a hint; [FileError] for what the system refused;
// and the sentinel [ErrNotThisFormat], by which a reader hands a file on to the
// next. [Visible] is the one way in which foreign text is shown.
//
// It looks into a file only to tell a Git LFS pointer from the file itself, and
// every read is bounded by the file's size. Bytes of a hub come from
// internal/hub, so that whoever reads a file does not carry an HTTP client.
package source
