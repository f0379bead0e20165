package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"floodmark/measurement"
)

// Spool is the folder in which the processes of a run write their readings, and
// from which they load the Python file. It outlives a process that is killed.
type Spool struct{ folder string }

// SpoolPattern is the name of such folders.
func SpoolPattern() string { return filepath.Join(os.TempDir(), spoolPrefix+"*") }

const spoolPrefix = "floodmark-"

// NewSpool makes the folder, in the system's folder for temporary files.
func NewSpool() (*Spool, error) {
	folder, err := os.MkdirTemp("", spoolPrefix)
	if err != nil {
		return nil, err
	}
	s := &Spool{folder}
	for _, sub := range []string{s.scripts(), s.Streams()} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			s.Remove()
			return nil, err
		}
	}
	if err := WriteScript(s.scripts()); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func (s *Spool) scripts() string { return filepath.Join(s.folder, "python") }

// Script is the Python file, to be run by itself.
func (s *Spool) Script() string { return filepath.Join(s.scripts(), ScriptName) }

// Streams is the folder of the streams.
func (s *Spool) Streams() string { return filepath.Join(s.folder, "streams") }

// Remove deletes the folder.
func (s *Spool) Remove() { os.RemoveAll(s.folder) }

// Injected is an environment in which every Python process starts the probe
// before anything else. What stood in PYTHONPATH stays in it.
func (s *Spool) Injected(environment []string, settings map[string]string) []string {
	path := s.scripts()
	if old, set := lookup(environment, "PYTHONPATH"); set && old != "" {
		path += string(filepath.ListSeparator) + old
	}
	return with(environment, merged(settings, map[string]string{"PYTHONPATH": path, EnvOut: s.Streams()}))
}

// Observed is an environment for the Python file that is run by itself.
func (s *Spool) Observed(environment []string) []string {
	return with(environment, map[string]string{EnvOut: s.Streams()})
}

// Read reads what the processes wrote.
func (s *Spool) Read() ([]*measurement.Stream, error) {
	entries, err := os.ReadDir(s.Streams())
	if err != nil {
		return nil, err
	}
	var list []*measurement.Stream
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".jsonl") {
			continue
		}
		stream, err := openStream(filepath.Join(s.Streams(), e.Name()))
		if err != nil {
			continue // a process that was killed before its first line
		}
		list = append(list, stream)
	}
	return list, nil
}

func openStream(path string) (*measurement.Stream, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return measurement.ReadStream(filepath.Base(path), f)
}

func lookup(environment []string, name string) (string, bool) {
	for _, e := range slices.Backward(environment) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// with is an environment with some variables set anew.
func with(environment []string, values map[string]string) []string {
	list := slices.DeleteFunc(slices.Clone(environment), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		_, anew := values[name]
		return anew
	})
	for _, name := range sortedNames(values) {
		list = append(list, fmt.Sprintf("%s=%s", name, values[name]))
	}
	return list
}

func sortedNames(values map[string]string) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func merged(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for name, value := range m {
			all[name] = value
		}
	}
	return all
}
