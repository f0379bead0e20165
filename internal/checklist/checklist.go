package checklist

import "testing"

// Statements is how many statements there are; they are numbered from 1.
const Statements = 225

// Covers says that the test t checks these statements. It only refuses numbers
// that no statement has: which tests cover what is read from their sources, so
// the numbers stand in the call as plain integers.
func Covers(t testing.TB, statements ...int) {
	t.Helper()
	if len(statements) == 0 {
		t.Error("checklist.Covers without a statement")
	}
	for _, n := range statements {
		if n < 1 || n > Statements {
			t.Errorf("there is no statement %d: they are numbered 1 to %d", n, Statements)
		}
	}
}
