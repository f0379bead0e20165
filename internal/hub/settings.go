package hub

import (
	"path/filepath"
	"strings"
	"time"

	"floodmark/internal/source"
)

// Settings say where the hub is and how to ask it. The zero value asks nobody.
type Settings struct {
	Endpoint string // HF_ENDPOINT; empty: no hub is asked
	Token    string // HF_TOKEN; sent to the endpoint's own host and to no other
	Saved    string // the file in which "hf auth login" keeps a token, for where there is no other; may be empty
	Offline  bool   // HF_HUB_OFFLINE
	Cache    string // HF_HUB_CACHE; empty: there is none

	Timeout time.Duration // of one request with its answer; 0 for 30 seconds
	Pause   time.Duration // before a second try; 0 for 300 milliseconds
}

// FromEnvironment makes settings of the variables that huggingface_hub reads.
// home is the person's own folder, and may be empty.
func FromEnvironment(getenv func(string) string, home string) Settings {
	first := func(names ...string) string {
		for _, name := range names {
			if v := strings.TrimSpace(getenv(name)); v != "" {
				return v
			}
		}
		return ""
	}
	s := Settings{
		Endpoint: strings.TrimRight(first("HF_ENDPOINT"), "/"),
		Token:    first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
		Offline:  truth(first("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
		Cache:    first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
	}
	if s.Endpoint == "" {
		s.Endpoint = "https://huggingface.co"
	}
	base := first("HF_HOME")
	switch caches := first("XDG_CACHE_HOME"); {
	case base != "":
	case caches != "":
		base = filepath.Join(caches, "huggingface")
	case home != "":
		base = filepath.Join(home, ".cache", "huggingface")
	}
	if s.Saved = first("HF_TOKEN_PATH"); s.Saved == "" && base != "" {
		s.Saved = filepath.Join(base, "token")
	}
	if truth(first("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		s.Saved = ""
	}
	if s.Cache == "" && base != "" {
		s.Cache = filepath.Join(base, "hub")
	}
	return s
}

// token is the token to send: the one given, else the saved one.
func (s Settings) token() string {
	if s.Token != "" || s.Saved == "" {
		return s.Token
	}
	const longest = 4096
	if token, whole := line(s.Saved, longest); whole && !strings.ContainsAny(token, " \r\n\t") {
		return token
	}
	return ""
}

// truth is what huggingface_hub takes for yes.
func truth(v string) bool {
	switch strings.ToUpper(v) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

func (s Settings) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return 30 * time.Second
}

func (s Settings) pause() time.Duration {
	if s.Pause > 0 {
		return s.Pause
	}
	return 300 * time.Millisecond
}

// Name is a repository of the hub at a revision, and one of its files where the
// repository holds several models: org/name@revision:file.
type Name struct {
	Owner, Model string
	Revision     string // a branch, a tag or a commit; "main" where none is given
	File         string // a path, or a part of a file's name as "Q4_K_M"; may be empty
}

// plain reports whether a text is of letters, digits and the given marks, does
// not begin or end with a hyphen or a point, and is no longer than that: the
// rule for names (huggingface_hub, utils/_validators.py). It is no pattern,
// because one that counts takes a millisecond to compile at every start.
func plain(text, marks string, longest int) bool {
	if text == "" || len(text) > longest || strings.ContainsAny(text[:1]+text[len(text)-1:], "-./") {
		return false
	}
	for _, c := range []byte(text) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(marks, c) >= 0) {
			return false
		}
	}
	return !strings.Contains(text, "..")
}

// isCommit reports whether a revision is the full hash of a commit.
func isCommit(text string) bool {
	return len(text) == 40 && strings.Trim(text, "0123456789abcdef") == ""
}

// ParseName reads org/name, org/name@revision, either with :file after it, and
// the address of a model's page. It is false for a text that cannot be one.
func ParseName(text string) (Name, bool) {
	for _, start := range []string{"https://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/"} {
		text = strings.TrimPrefix(text, start)
	}
	text, file, selects := strings.Cut(text, ":")
	repository, rev, has := strings.Cut(strings.TrimSuffix(text, "/"), "@")
	if !has {
		rev = "main"
	}
	owner, model, slash := strings.Cut(repository, "/")
	fine := slash && plain(owner, "-_.", 96) && plain(model, "-_.", 96) && plain(rev, "-_./", 250)
	fine = fine && (!selects || plain(file, "-_./", 250))
	return Name{owner, model, rev, file}, fine && !strings.Contains(repository, "--")
}

// Repository is the name without the revision.
func (n Name) Repository() string { return n.Owner + "/" + n.Model }

// String is the name as a person writes it.
func (n Name) String() string {
	text := n.Repository()
	if n.Revision != "main" {
		text += "@" + n.Revision
	}
	if n.File != "" {
		text += ":" + n.File
	}
	return text
}

// fault is an error about a repository.
func (n Name) fault(cause error, hint, format string, args ...any) *source.FormatError {
	err := source.InField(n.String(), "", format, args...).WithHint("%s", hint)
	err.Err = cause
	return err
}
