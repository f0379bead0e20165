package catalogue

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"floodmark/internal/packed"
)

//go:embed catalogue.jsonl.gz
var list []byte

// Entry is one model.
type Entry struct {
	ID     string          `json:"id"`     // as the hub calls it
	Origin string          `json:"origin"` // the repository that its facts come from
	Commit string          `json:"commit"`
	Path   string          `json:"path"`
	Note   string          `json:"note"`   // where the facts are not just those of the origin
	Config json.RawMessage `json:"config"` // a config.json
}

// Entries is every model, in the order of the file. The slice is the caller's
// own.
func Entries() ([]Entry, error) {
	var entries []Entry
	number := 0
	text, err := packed.Text(list)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		number++
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("catalogue.jsonl: line %d: %w", number, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Names is the name of every model without its owner, in the order of the file, in
// the case that [Find] does not mind.
func Names() ([]string, error) {
	entries, err := Entries()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.ToLower(e.ID[strings.LastIndexByte(e.ID, '/')+1:])
	}
	return names, nil
}

// AmbiguousError is a name that several models have.
type AmbiguousError struct {
	Name       string
	Candidates []string // ids, in the order of the catalogue
}

// Error lists the candidates.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q is the beginning of several models of the catalogue: %s", e.Name, strings.Join(e.Candidates, ", "))
}

// Find finds a model by its id, by the part after the slash, or by the
// beginning of that part up to a hyphen, whatever the case: "llama-3.1-8b" is
// Llama-3.1-8B-Instruct. It is false for a name that no model has, and an
// [*AmbiguousError] for one that several have.
func Find(name string) (Entry, bool, error) {
	entries, err := Entries()
	if err != nil {
		return Entry{}, false, err
	}
	name = strings.ToLower(strings.TrimSpace(name))
	var begun []Entry
	for _, e := range entries {
		id := strings.ToLower(e.ID)
		_, model, _ := strings.Cut(id, "/")
		switch {
		case name == id || name == model:
			return e, true, nil
		case name != "" && (begins(model, name) || begins(id, name)):
			begun = append(begun, e)
		}
	}
	switch len(begun) {
	case 0:
		return Entry{}, false, nil
	case 1:
		return begun[0], true, nil
	}
	a := &AmbiguousError{Name: name}
	for _, e := range begun {
		a.Candidates = append(a.Candidates, e.ID)
	}
	return Entry{}, false, a
}

// begins reports whether a name begins with another, up to the end of a word.
func begins(whole, start string) bool {
	rest, has := strings.CutPrefix(whole, start)
	return has && rest != "" && strings.ContainsAny(rest[:1], "-_.")
}
