// Package device is the catalogue of cards: what is printed on each, and what
// drivers and programs really reported of it.
//
// In: a name as a person writes it ("h100", "rtx 4090", "A100-80"). Out: a
// [Card], whose capacity is the interval between the lowest and the highest
// total that was reported to programs on a platform, each reading with its
// source. A label is never a capacity: "80 GB" is neither 80·10⁹ nor 80·2³⁰
// bytes to a program.
//
// catalogue.tsv is written by scripts/reduce_gpu_records.py from public
// reports, is embedded, and is parsed when it is asked for.
//
// It reads no machine (that is for its subpackages), and knows nothing of
// models or of whether they fit.
package device
