package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"floodmark/internal/source"
)

// askAgain is how long a sweep waits for another that runs the same value.
const askAgain = 100 * time.Millisecond

// claim waits until no other process runs this value, and keeps it until it is
// released. The kernel releases what a killed process held.
func (l *Ledger) claim(ctx context.Context, value int64) (release func(), err error) {
	path := filepath.Join(l.Folder, Points, fmt.Sprintf("%s-%d.lock", l.Plan.Dimension, value))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, source.OfFile(path, err)
	}
	for {
		ours, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, source.OfFile(path, fmt.Errorf("locking: %w", err))
		}
		if ours {
			return func() { f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(askAgain):
		}
	}
}
