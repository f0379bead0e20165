// Package account is what every kind of evidence about memory reduces to.
//
// A prediction and a recorded trace are timelines; a measurement and a log are
// readings. Both become an [Account]: for each rank and phase the levels at
// start, peak and end in each scope, and the terms that are alive at the peak.
// Whatever decides, compares, explains or records sees accounts only.
//
// Every number is a [Figure]: an interval of bytes with its origin, scope and
// source, in which unknown is a value of its own and never zero. The words of
// the project (scopes, categories, phases, term ids) are listed here.
//
// It knows nothing of models, engines, files or cards.
package account
