package torchfile

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// The form before PyTorch 1.6 is five pickles in a row: a magic number, the
// protocol 1001, facts about the machine, the object, and the storages' keys.
// The storages follow, each with eight bytes of length in front.
const (
	// legacyMagic is 0x1950a86a20f9469cfc6c as pickle protocol 2 writes it.
	legacyMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
	// legacyProtocol is 1001, likewise.
	legacyProtocol = "\x80\x02M\xe9\x03."
	// legacyHead is where the pickle about the machine surely ends: it is a dict
	// of three entries.
	legacyHead = 512
)

// readLegacy reads the object's pickle, which is the fourth.
func readLegacy(s source.Source, head string) (*File, error) {
	rest, ok := strings.CutPrefix(head, legacyMagic+legacyProtocol)
	if !ok {
		return nil, source.AtByte(s.Name(), int64(len(legacyMagic)), "is a torch file of another protocol than 1001").
			WithHint("load it with its own PyTorch and save it again")
	}
	machine, err := machineFacts(s.Name(), rest)
	if err != nil {
		return nil, err
	}
	start := int64(len(head)-len(rest)) + machine
	b := newBuilder()
	left := s.Size() - start
	f, err := b.read(io.NewSectionReader(s, start, left), s.Name(), min(left, maxPickle))
	if err != nil {
		return nil, shift(err, start)
	}
	f.Legacy = true
	// The storages are the end of the file; each has its length in front.
	if needed := 8 * int64(len(f.Storages)); f.Data > left-needed {
		return nil, source.AtByte(s.Name(), s.Size(), "its storages have %d bytes, but the file has %d in all", f.Data, s.Size()).
			WithHint("the file is cut off: fetch it again")
	}
	return f, nil
}

// machineFacts is the length of the pickle about the machine. The pickle reader
// does not say where a pickle ends; this one is so short that each full stop in
// it can be tried.
func machineFacts(name, text string) (int64, error) {
	for i := 0; i < len(text); i++ {
		if text[i] != '.' {
			continue
		}
		b := newBuilder()
		if _, err := pickle.Read(bytes.NewReader([]byte(text[:i+1])), name, int64(i+1), b.strings, b, pickle.Options{}); err == nil {
			return int64(i + 1), nil
		}
	}
	return 0, source.AtByte(name, int64(len(legacyMagic)+len(legacyProtocol)), "the facts about the machine that saved it are not a pickle").
		WithHint("the file is damaged: fetch it again")
}

// shift makes an error's offset in the object's pickle one in the file.
func shift(err error, start int64) error {
	var format *source.FormatError
	if !errors.As(err, &format) || format.Offset < 0 {
		return err
	}
	placed := *format
	placed.Offset += start
	return &placed
}
