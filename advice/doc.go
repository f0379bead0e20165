// Package advice says which switch can reach which term.
//
// In: the term that binds an account, the phase in which it does, and the
// operation. Out: the switches that reach that term there, what each costs, and
// what has to be checked after it; and those that people try although they cannot
// reach it. All of it is one table.
//
// It promises no bytes and no percentage: what a switch gives is an estimate of
// its own.
package advice
