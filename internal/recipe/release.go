package recipe

import (
	"slices"
	"strconv"
	"strings"

	"floodmark/workload"
)

// Reader reads what is trained with what is known beside its files.
type Reader struct {
	Files  Files
	Engine workload.Engine // what runs the model, whose release has its own defaults; may be empty
}

// release is the first two numbers of a version.
type release struct{ major, minor int }

// releaseOf reads a version such as 0.16 or 4.57.1; ok is false for none.
func releaseOf(version string) (r release, ok bool) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var err, err2 error
	if r.major, err = strconv.Atoi(major); minor != "" {
		r.minor, err2 = strconv.Atoi(minor)
	}
	return r, err == nil && err2 == nil
}

func (r release) before(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

// before reports that the engine is a software's release before another one. It is
// false where nobody says a release.
func (p *plan) before(software string, major, minor int) bool {
	r, ok := releaseOf(p.engine.Version)
	return ok && p.engine.Name == software && r.before(release{major, minor})
}

// trlDefault is what TRL's configurations say of a field since a release; the value "-"
// is none.
type trlDefault struct {
	field field
	value any
	since string
}

// trlDefaultsOf are the lines of tables/trl.txt that hold for a method, in a release where
// one is stated and in the newest otherwise.
func trlDefaultsOf(text, method string, of release, stated bool) []trlDefault {
	var defaults []trlDefault
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] == "#" {
			continue
		}
		since, _ := releaseOf(words[2])
		if words[1] != "*" && !slices.Contains(strings.Split(words[1], ","), method) || stated && of.before(since) {
			continue
		}
		d := trlDefault{field(words[0]), scalar(words[3]), words[2]}
		i := slices.IndexFunc(defaults, func(before trlDefault) bool { return before.field == d.field })
		if i < 0 {
			defaults = append(defaults, d)
			continue
		}
		defaults[i] = d
	}
	return defaults
}

// trlDefaults gives what TRL's configurations say otherwise than the Trainer's, as the
// release of the engine has it, or the newest.
func (p *plan) trlDefaults() {
	text, err := tableText("trl")
	if err != nil {
		p.keep(err)
		return
	}
	of, stated := releaseOf(p.engine.Version)
	for _, d := range trlDefaultsOf(text, p.method, of, stated && p.engine.Name == "trl") {
		if d.value == "-" || d.field == "bf16" && p.yes("fp16") {
			continue
		}
		p.otherwise(d.field, d.value, "default of TRL's configurations since "+d.since)
	}
}
