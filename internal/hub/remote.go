package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"floodmark/internal/source"
)

const (
	blockSize = 256 << 10
	maxRun    = 16 // blocks of one request: 4 MiB
	maxBlocks = 64 // that are kept: 16 MiB a file
	maxWhole  = 64 << 20
)

// remote is a file of the hub that is read a range at a time.
type remote struct {
	*client
	ctx     context.Context // of whoever opened the file: reads have none of their own
	folder  *folder
	file    string
	address string
	size    int64

	mu     sync.Mutex
	whole  []byte           // the file, from a server that sends it in one piece
	blocks map[int64][]byte // by their number
	order  []int64          // the oldest block first
	next   int64            // the block after the last request
	run    int64            // blocks of the next request where reading goes on
}

func (r *remote) Name() string { return r.folder.Name() + "/" + r.file }
func (r *remote) Size() int64  { return r.size }
func (r *remote) Close() error { return nil }

// open asks for the first block, whose answer tells the size.
func (r *remote) open() error {
	r.blocks, r.run = map[int64][]byte{}, 1
	a, err := r.get(r.ctx, r.address, span(0, blockSize), maxWhole)
	var status *statusError
	switch {
	case errors.As(err, &status) && status.status == http.StatusRequestedRangeNotSatisfiable:
		// An empty file has no first byte.
		if _, total, ok := contentRange(a.header.Get("Content-Range")); ok && total == 0 {
			return nil
		}
		return r.folder.explain(err, r.file)
	case err != nil:
		return r.folder.explain(err, r.file)
	case a.status == http.StatusOK:
		r.whole, r.size = a.body, int64(len(a.body))
		return nil
	}
	from, total, ok := contentRange(a.header.Get("Content-Range"))
	if !ok || from != 0 || total < int64(len(a.body)) || int64(len(a.body)) != min(total, blockSize) {
		return r.wrong(a)
	}
	r.size = total
	r.keep(0, a.body)
	r.next = 1
	return nil
}

// span is a Range header.
func span(from, length int64) string { return fmt.Sprintf("bytes=%d-%d", from, from+length-1) }

// contentRange reads "bytes 0-99/1234" and "bytes */0".
func contentRange(text string) (from, total int64, ok bool) {
	rest, isBytes := strings.CutPrefix(text, "bytes ")
	span, size, whole := strings.Cut(rest, "/")
	total, err := strconv.ParseInt(size, 10, 64)
	if !isBytes || !whole || err != nil || total < 0 {
		return 0, 0, false
	}
	first, _, _ := strings.Cut(span, "-")
	if first == "*" {
		return 0, total, true
	}
	from, err = strconv.ParseInt(first, 10, 64)
	return from, total, err == nil && from >= 0
}

// wrong is the error about an answer to a request for a range that is another.
func (r *remote) wrong(a *answer) error {
	return source.InField(r.Name(), "Content-Range", "the server answers a request for a range with %q and %d bytes", clip(a.header.Get("Content-Range")), len(a.body)).
		WithHint("a proxy may be in the way: fetch the model, and name its folder")
}

// ReadAt reads through the blocks that are kept.
func (r *remote) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("%s: a read at %d: %w", r.Name(), off, fs.ErrInvalid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(p) && off < r.size {
		block, err := r.block(off/blockSize, int64(len(p)-n))
		if err != nil {
			return n, err
		}
		c := copy(p[n:], block[off%blockSize:])
		n += c
		off += int64(c)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// block is one block of the file; wanted is how many bytes the reader is about
// to read from here.
func (r *remote) block(number, wanted int64) ([]byte, error) {
	if r.whole != nil {
		return r.whole[number*blockSize : min(int64(len(r.whole)), (number+1)*blockSize)], nil
	}
	if b, kept := r.blocks[number]; kept {
		return b, nil
	}
	// Who goes on where the last request ended reads a list: more at a time.
	if number == r.next {
		r.run = min(2*r.run, maxRun)
	} else {
		r.run = 1
	}
	count := min(max(r.run, (wanted+blockSize-1)/blockSize), maxRun)
	from := number * blockSize
	length := min(count*blockSize, r.size-from)
	a, err := r.get(r.ctx, r.address, span(from, length), length)
	if err != nil {
		return nil, r.folder.explain(err, r.file)
	}
	at, total, ok := contentRange(a.header.Get("Content-Range"))
	if a.status != http.StatusPartialContent || !ok || at != from || total != r.size || int64(len(a.body)) != length {
		return nil, r.wrong(a)
	}
	for i := int64(0); i < length; i += blockSize {
		r.keep(number+i/blockSize, a.body[i:min(length, i+blockSize)])
	}
	r.next = number + (length+blockSize-1)/blockSize
	return r.blocks[number], nil
}

// keep keeps a block, and drops the oldest when there are too many.
func (r *remote) keep(number int64, b []byte) {
	if _, kept := r.blocks[number]; !kept {
		r.order = append(r.order, number)
	}
	r.blocks[number] = b
	for len(r.order) > maxBlocks {
		delete(r.blocks, r.order[0])
		r.order = r.order[1:]
	}
}

// clip shortens a text from a server for a message.
func clip(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}
