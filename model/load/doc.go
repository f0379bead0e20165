// Package load finds the files of a model and hands each to its reader.
//
// In: a path, the name of a repository of a hub, or a name of the catalogue.
// Out: a [model.Model], or an [Adapter] or [Preprocessor]. It is the only place
// that looks into a folder to see what lies there; the readers get open
// sources, and only their headers are read.
//
// Where weight files lie beside a configuration, tensors and bytes are those
// that the files list. The configuration says what they are for: names are
// matched against its own, and names.go holds the rules for those that it does
// not spell. What does not agree is a warning of the model with both numbers.
//
// It does not know what a family of models looks like, nor any engine.
package load
