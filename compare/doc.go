// Package compare sets two accounts side by side.
//
// In: two accounts, and the conditions under which each came about. Out: what was
// changed, a row for each term, scope, phase and rank with the difference, and
// the residual that no term explains. Scopes that differ, several changed
// conditions or other inputs are refused, with the reason.
//
// It does not know where an account comes from, and advises nothing.
package compare
