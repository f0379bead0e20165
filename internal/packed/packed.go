package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// most bounds what a packed text may be: those of this program are smaller.
const most = 8 << 20

// Text is the text of a gzip file that is part of the program.
func Text(file []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return "", fmt.Errorf("a packed text of this program: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return "", fmt.Errorf("a packed text of this program: %w", err)
	}
	return string(text), nil
}
