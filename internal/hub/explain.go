package hub

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"floodmark/internal/source"
)

// explain turns what went wrong into an error that says what can be done.
func (f *folder) explain(err error, file string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	about := f.name
	var status *statusError
	var length *lengthError
	switch {
	case errors.As(err, &status):
		return f.refused(status, file)
	case errors.As(err, &length):
		return about.fault(err, "a proxy may be in the way: fetch the model, and name its folder", "%s cannot be read", subject(file))
	case errors.Is(err, errUnreachable):
		return about.fault(err, "check the network, or HF_ENDPOINT; with HF_HUB_OFFLINE=1 only the cache is asked; or name a folder that holds the model", "%s cannot be read", subject(file))
	}
	return about.fault(err, "fetch the model, and name its folder", "%s cannot be read", subject(file))
}

func subject(file string) string {
	if file == "" {
		return "the list of files"
	}
	return file
}

// refused explains an answer by its status and by the code that the hub sends
// with it (huggingface_hub, utils/_http.py). Without a token the hub answers
// 401 for a repository that does not exist, so as not to tell.
func (f *folder) refused(s *statusError, file string) *source.FormatError {
	n := f.name
	token := "is HF_TOKEN valid, and does its owner see this model?"
	if f.settings.Token == "" {
		token = "check the name; if the model is private or gated, set HF_TOKEN to the token of an account that may read it"
	}
	switch {
	case s.code == "GatedRepo":
		return n.fault(s, "ask for access on the model's page, and set HF_TOKEN to a token of that account", "is gated")
	case s.code == "RevisionNotFound":
		return n.fault(join(s), "name a branch, a tag or a commit after @", "has no revision %q", n.Revision)
	case s.code == "EntryNotFound":
		return n.fault(join(s), "look at its files on the hub, or name another revision", "has no file %q", file)
	case s.status == http.StatusUnauthorized || s.status == http.StatusForbidden:
		return n.fault(s, token, "may not be read")
	case s.status == http.StatusNotFound:
		return n.fault(join(s), "check the name and the revision: org/name@revision", "is not found on the hub")
	case s.status == http.StatusTooManyRequests:
		return n.fault(s, "wait, or set HF_TOKEN: the hub answers accounts more often", "the hub is asked too often")
	}
	return n.fault(s, "try again later, or fetch the model and name its folder", "%s cannot be read", subject(file))
}

// join makes a refusal a file that is not there, too.
func join(err error) error { return missing{err} }

type missing struct{ error }

func (missing) Is(target error) bool { return target == fs.ErrNotExist }
