// Package fit decides whether accounts stay within their cards.
//
// In: the account of each class of ranks, and the [Budget] of each rank's card.
// Out: a [Verdict] that names rank, phase and binding term. It compares exact
// integers, rank by rank, phase by phase, and never adds cards together.
//
// It does not know how an account came about, and it adds no margin.
package fit
