package smi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"floodmark/device"
	"floodmark/internal/child"
)

// Watch follows one nvidia-smi that goes on printing: starting one for each
// sample would cost more than is measured. It lists no processes.
func (r *reader) Watch(ctx context.Context, indexes []int, every time.Duration, into func(device.Sample)) {
	args := []string{"--query-gpu=" + strings.Join(r.fields, ","), "--format=csv,noheader,nounits", fmt.Sprintf("--loop-ms=%d", max(every.Milliseconds(), 1))}
	index := map[string]int{}
	for _, i := range indexes {
		if i >= 0 && i < len(r.devices) && r.devices[i].Partition == nil {
			index[strconv.Itoa(r.devices[i].Card)] = i
		}
	}
	// The program that ends of itself leaves the rest of the watch without samples.
	_, _ = child.Run(ctx, child.Program{Path: r.path, Args: args, Follow: func(out io.Reader) {
		lines := bufio.NewScanner(out)
		for lines.Scan() && ctx.Err() == nil {
			card, ok := parse(lines.Text(), r.fields)
			i, wanted := index[card["index"]]
			if !ok || !wanted {
				continue
			}
			m := memory(time.Now(), card)
			m.NoProcesses = "nvidia-smi lists no processes while it goes on printing"
			into(device.Sample{Index: i, Memory: m})
		}
	}})
	<-ctx.Done()
}
