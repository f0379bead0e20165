// Package record is the documents that Floodmark writes: one Go type a kind,
// each with the same envelope.
//
// In: values that the caller copied out of its own types. Out: JSON, by
// [Encode] or into a file that did not exist before, by [Create]; and back, by
// [Read], which dispatches on kind. The schema in schema.json is generated from
// the types.
//
// Rules of the form: byte counts are integers, or null when nobody knows them;
// one that is an interval is null with x_low_bytes and x_high_bytes beside it;
// lists are never null; addresses and streams are strings. Fields may be added
// and then keep their names; schema_version rises only if one would change. A
// count that is added later is a pointer: records that lack it are read as not
// knowing it.
//
// What is read back is checked as any file is: it is whole, no key comes twice
// or in another case, counts are not negative, and intervals have their low
// first.
//
// It imports nothing of the project but the words, and creates files: nothing
// else does.
package record
