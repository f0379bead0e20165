package launch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"floodmark/internal/aliases"

	"github.com/goccy/go-yaml"
)

// mostBytes bounds a compose file.
const mostBytes = 1 << 20

// service is what a compose file says of one container.
type service struct {
	Image       string `yaml:"image"`
	Command     any    `yaml:"command"`
	Entrypoint  any    `yaml:"entrypoint"`
	Environment any    `yaml:"environment"`
	Deploy      struct {
		Resources struct {
			Reservations struct {
				Devices []struct {
					Count     any      `yaml:"count"`
					DeviceIDs []string `yaml:"device_ids"`
				} `yaml:"devices"`
			} `yaml:"reservations"`
		} `yaml:"resources"`
	} `yaml:"deploy"`
}

// ErrNotCompose is a YAML file without services.
var ErrNotCompose = errors.New("is no compose file: it has no services")

// IsCompose reports a YAML text whose services are named at its top.
func IsCompose(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "services:") {
			return true
		}
	}
	return false
}

// Compose reads the service of a compose file that runs an engine; of several the
// one that is named.
func Compose(data []byte, name string) (*Command, error) {
	if len(data) > mostBytes {
		return nil, &Error{Msg: fmt.Sprintf("a compose file of %d bytes is not read", len(data))}
	}
	if err := aliases.Check(data); err != nil {
		return nil, &Error{Msg: "the compose file: " + err.Error()}
	}
	var file struct {
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, &Error{Msg: "the compose file: " + yaml.FormatError(err, false, false)}
	}
	if len(file.Services) == 0 {
		return nil, ErrNotCompose
	}
	var engines []string
	for _, key := range slices.Sorted(maps.Keys(file.Services)) {
		if strings.Contains(file.Services[key].Image, "vllm") && (name == "" || key == name) {
			engines = append(engines, key)
		}
	}
	switch len(engines) {
	case 0:
		return nil, &Error{Msg: "no service of the compose file runs an image of vLLM", Hint: "its services are " + strings.Join(slices.Sorted(maps.Keys(file.Services)), ", ")}
	case 1:
		return file.Services[engines[0]].parse()
	}
	return nil, &Error{Msg: fmt.Sprintf("the compose file runs %d engines (%s), each of which is a workload of its own", len(engines), strings.Join(engines, ", ")), Hint: "split the file, or give one service's command after --"}
}

func (s service) parse() (*Command, error) {
	r := &reader{environment: map[string]string{}}
	switch e := s.Environment.(type) {
	case []any:
		for _, v := range e {
			if text, single := scalar(v); single {
				r.assign(text)
			}
		}
	case map[string]any:
		for k, v := range e {
			if text, single := scalar(v); single {
				r.environment[k] = text
			}
		}
	}
	for _, d := range s.Deploy.Resources.Reservations.Devices {
		switch n := d.Count.(type) {
		case uint64:
			r.devices = int(min(n, 1<<16))
		}
		if len(d.DeviceIDs) > 0 {
			r.devices = len(d.DeviceIDs)
		}
	}
	before, err := wordsOf(s.Entrypoint)
	if err != nil {
		return nil, err
	}
	after, err := wordsOf(s.Command)
	if err != nil {
		return nil, err
	}
	words := append(before, after...)
	if len(words) > mostWords {
		return nil, &Error{Msg: "the service's command is too long"}
	}
	if len(words) > 0 && (words[0] == "bash" || words[0] == "sh" || words[0] == "/bin/bash" || words[0] == "/bin/sh") {
		return nil, &Error{Msg: "the service runs a shell script, which is not read", Hint: "give the engine's own command after --"}
	}
	rest, err := r.image(s.Image, words)
	if err != nil {
		return nil, err
	}
	return r.finish(rest)
}

// wordsOf is a command that is a list, or a text that a shell would split.
func wordsOf(v any) ([]string, error) {
	switch c := v.(type) {
	case string:
		return Split(c), nil
	case []any:
		words := make([]string, len(c))
		for i, w := range c {
			text, single := scalar(w)
			if !single {
				return nil, &Error{Msg: fmt.Sprintf("word %d of a service's command is a list or a table, expected a text or a number", i+1)}
			}
			words[i] = text
		}
		return words, nil
	}
	return nil, nil
}

// scalar is a value that is no list and no table. A few aliases of aliases stand for
// more of those than memory holds, so that they are never written out.
func scalar(v any) (text string, single bool) {
	switch v.(type) {
	case []any, map[string]any, map[any]any, yaml.MapSlice:
		return "", false
	}
	return fmt.Sprint(v), true
}

// Split cuts a text into words as a shell does: blanks part them, quotes hold them
// together, a backslash takes the next character as it is.
func Split(text string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	open, escaped := false, false
	end := func() {
		if open {
			words = append(words, word.String())
		}
		word.Reset()
		open = false
	}
	for _, c := range text {
		switch {
		case escaped:
			if c != '\n' {
				word.WriteRune(c)
				open = true
			}
			escaped = false
		case c == '\\' && quote != '\'':
			escaped = true
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				word.WriteRune(c)
			}
		case c == '"' || c == '\'':
			quote, open = c, true
		case strings.ContainsRune(" \t\r\n", c):
			end()
		default:
			word.WriteRune(c)
			open = true
		}
		if len(words) > mostWords {
			break
		}
	}
	end()
	return words
}
