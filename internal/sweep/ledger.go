package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"floodmark/internal/source"
)

// Names within a sweep's folder.
const (
	planFile   = "plan.json"
	ledgerFile = "ledger.jsonl"
	// Points is the folder of the measurements and of what the programs printed.
	Points = "points"
)

// maxLedger bounds what is read back: 10,000 points with long errors.
const maxLedger = 64 << 20

// Ledger is the folder of one sweep: the plan, and a line for each point that is
// known. Several processes may append to it.
type Ledger struct {
	Folder string
	Plan   Plan
	points []Point
	// again is the newest attempt of each value that is to be run again: its line
	// and those before it no longer count.
	again map[int64]int
}

// Create makes the folder of a new sweep, which must not exist; the folders above
// it are made where they are missing.
func Create(folder string, p Plan) (*Ledger, error) {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return nil, source.OfFile(folder, err)
	}
	if err := os.Mkdir(folder, 0o755); errors.Is(err, fs.ErrExist) {
		return nil, source.OfFile(folder, errors.New("already exists; a sweep that was begun there goes on with --resume"))
	} else if err != nil {
		return nil, source.OfFile(folder, err)
	}
	l := &Ledger{Folder: folder, Plan: p}
	if err := l.begin(); err != nil {
		return nil, errors.Join(err, l.Discard()) // a folder without a plan can neither go on nor begin
	}
	return l, nil
}

func (l *Ledger) begin() error {
	if err := os.Mkdir(filepath.Join(l.Folder, Points), 0o755); err != nil {
		return source.OfFile(l.Folder, err)
	}
	text, err := json.MarshalIndent(l.Plan, "", "  ")
	if err != nil {
		return err
	}
	return writeNew(filepath.Join(l.Folder, planFile), append(text, '\n'))
}

// Discard removes the folder of a sweep that never had a point.
func (l *Ledger) Discard() error { return source.OfFile(l.Folder, os.RemoveAll(l.Folder)) }

// Open reads the folder of a sweep that was begun.
func Open(folder string) (*Ledger, error) {
	text, err := read(filepath.Join(folder, planFile), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, source.OfFile(folder, errors.New("holds no sweep: there is no "+planFile))
	}
	if err != nil {
		return nil, err
	}
	l := &Ledger{Folder: folder}
	if err := json.Unmarshal(text, &l.Plan); err != nil {
		return nil, source.InField(filepath.Join(folder, planFile), "plan", "is no plan of a sweep: %v", err)
	}
	if _, err := l.Plan.Prepared(); err != nil {
		return nil, source.InField(filepath.Join(folder, planFile), "plan", "%v", err)
	}
	return l, l.Reload()
}

// Reload reads what others have appended since. The newest line of a value
// counts; a last line that was cut off is not there yet.
func (l *Ledger) Reload() error {
	path := filepath.Join(l.Folder, ledgerFile)
	text, err := read(path, maxLedger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.points = l.points[:0]
	for offset := 0; offset < len(text); {
		end := bytes.IndexByte(text[offset:], '\n')
		if end < 0 {
			break
		}
		line := text[offset : offset+end]
		if !Torn(line) {
			p, err := l.parse(line)
			if err != nil {
				return source.AtByte(path, int64(offset), "is no point of this sweep: %v", err).WithHint("a line is one JSON object that sweep wrote; the file was changed")
			}
			l.add(p)
		}
		offset += end + 1
	}
	return nil
}

// parse reads a line, which must be of a value that the plan asks for.
func (l *Ledger) parse(line []byte) (Point, error) {
	var p Point
	if err := json.Unmarshal(line, &p); err != nil {
		return p, err
	}
	switch p.Status {
	case Passed, OutOfMemory, Failed, Lost:
	default:
		return p, fmt.Errorf("its status is %.40q", p.Status)
	}
	if !l.Plan.asks(p.Value) {
		return p, fmt.Errorf("the plan asks for no %s = %d", l.Plan.Dimension, p.Value)
	}
	return p, nil
}

// Torn reports a line that a killed process began and the next one closed.
func Torn(line []byte) bool {
	var v json.RawMessage
	return len(line) == 0 || errors.Is(json.NewDecoder(bytes.NewReader(line)).Decode(&v), io.ErrUnexpectedEOF)
}

// Retry forgets the values whose attempts say nothing about memory, those that
// were lost or failed for another reason, so that they are run again. Their lines
// stay in the file.
func (l *Ledger) Retry() {
	l.again = map[int64]int{}
	for _, p := range l.points {
		if p.Status == Lost || p.Status == Failed {
			l.again[p.Value] = p.Attempt
		}
	}
	l.points = slices.DeleteFunc(l.points, l.forgotten)
}

func (l *Ledger) forgotten(p Point) bool {
	newest, retried := l.again[p.Value]
	return retried && p.Attempt <= newest
}

func (l *Ledger) add(p Point) {
	if l.forgotten(p) {
		return
	}
	if i := slices.IndexFunc(l.points, func(q Point) bool { return q.Value == p.Value }); i >= 0 {
		l.points[i] = p
		return
	}
	l.points = append(l.points, p)
}

// Append adds a line.
func (l *Ledger) Append(p Point) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := AppendLine(filepath.Join(l.Folder, ledgerFile), line); err != nil {
		return err
	}
	l.add(p)
	return nil
}

// AppendLine adds a line to a file under its lock, so that lines of several
// processes stay whole, also after one that was cut off.
func AppendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return source.OfFile(path, err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return source.OfFile(path, fmt.Errorf("locking: %w", err))
	}
	line = append(slices.Clone(line), '\n')
	if cut, err := endsWithin(f); err != nil {
		return source.OfFile(path, err)
	} else if cut {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return source.OfFile(path, err)
	}
	return source.OfFile(path, f.Sync())
}

// endsWithin reports whether the file ends within a line: somebody was killed
// while writing it.
func endsWithin(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

// Points is what is known, in the order of the ledger.
func (l *Ledger) Points() []Point { return slices.Clone(l.points) }

// Point is what is known of one value.
func (l *Ledger) Point(value int64) (Point, bool) {
	i := slices.IndexFunc(l.points, func(p Point) bool { return p.Value == value })
	if i < 0 {
		return Point{}, false
	}
	return l.points[i], true
}

// Missing is the values of the plan of which nothing is known, in its order.
func (l *Ledger) Missing() []int64 {
	var missing []int64
	for _, v := range l.Plan.Values {
		if _, known := l.Point(v); !known {
			missing = append(missing, v)
		}
	}
	return missing
}

// NewAttempt is a name in the folder for another attempt at a value, which no
// other process has taken. The record and the output of the program begin with
// it.
func (l *Ledger) NewAttempt(value int64) (name string, attempt int, err error) {
	for attempt = 1; ; attempt++ {
		name = filepath.Join(Points, fmt.Sprintf("%s-%d.%d", l.Plan.Dimension, value, attempt))
		f, err := os.OpenFile(filepath.Join(l.Folder, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			return name, attempt, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", 0, source.OfFile(l.Folder, err)
		}
	}
}

func read(path string, limit int64) ([]byte, error) {
	f, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return source.ReadAll(f, limit)
}

func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return source.OfFile(path, err)
	}
	_, err = f.Write(text)
	return source.OfFile(path, errors.Join(err, f.Close()))
}
