package device

import (
	"context"
	"time"
)

// Sample is the memory of one device at one moment of a watch.
type Sample struct {
	Index int // of the reader's Devices
	Memory
}

// Watcher is a [Reader] that can watch more cheaply than by reading again and
// again.
type Watcher interface {
	// Watch is as the function of that name.
	Watch(ctx context.Context, indexes []int, every time.Duration, into func(Sample))
}

// Watch reads some devices at once and then every so often until the context
// ends, and hands each sample over in the order in which it was taken. Whatever
// happens between two samples is not seen: a maximum over them is a lower bound
// of the peak, and their times say how far apart they really were. It returns
// when the context has ended; no sample comes after that.
func Watch(ctx context.Context, r Reader, indexes []int, every time.Duration, into func(Sample)) {
	if w, cheaper := r.(Watcher); cheaper {
		w.Watch(ctx, indexes, every, into)
		return
	}
	ticker := time.NewTicker(max(every, time.Millisecond))
	defer ticker.Stop()
	for ctx.Err() == nil {
		for _, i := range indexes {
			m := r.Read(ctx, i)
			if ctx.Err() != nil {
				return
			}
			into(Sample{Index: i, Memory: m})
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
