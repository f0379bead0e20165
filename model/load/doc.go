// Package load finds the files of a model and hands each to its reader.
//
// In: a path. Out: a model.Model. It is the only place that looks into a folder
// to see what lies there; the readers get open sources.
package load
