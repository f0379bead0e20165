package enginelog

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used. A few
// dozen of them would cost every start of the program some milliseconds, also
// where no log is read.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
