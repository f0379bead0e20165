package snapshot

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
)

// findEmbedded finds the pickle in a page that torch.cuda._memory_viz wrote: a
// JSON list in the script has an object with the keys "name" and "base64". The
// pickle is padded with NULs to a multiple of three bytes.
func findEmbedded(b *bufio.Reader) (io.Reader, error) {
	for {
		// The key is short and the buffer long: what a read returns ends with
		// the quote, or is a full buffer without one.
		text, err := b.ReadSlice('"')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if !bytes.HasSuffix(text, []byte(`base64"`)) {
			continue
		}
		rest, err := b.Peek(8)
		if err != nil {
			return nil, err
		}
		skipped := bytes.TrimLeft(rest, " \t\r\n")
		if len(skipped) == 0 || skipped[0] != ':' {
			continue
		}
		skipped = bytes.TrimLeft(skipped[1:], " \t\r\n")
		if len(skipped) == 0 || skipped[0] != '"' {
			continue
		}
		if _, err := b.Discard(len(rest) - len(skipped) + 1); err != nil {
			return nil, err
		}
		return base64.NewDecoder(base64.StdEncoding, &quoted{b: b}), nil
	}
}

// quoted is a stream up to the next quote.
type quoted struct {
	b    *bufio.Reader
	done bool
}

func (q *quoted) Read(p []byte) (int, error) {
	if q.done {
		return 0, io.EOF
	}
	window, err := q.b.Peek(min(max(q.b.Buffered(), 1), len(p)))
	if len(window) == 0 {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	if end := bytes.IndexByte(window, '"'); end >= 0 {
		q.done = true
		window = window[:end]
	}
	n := copy(p, window)
	if _, err := q.b.Discard(n); err != nil {
		return n, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
