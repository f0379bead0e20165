package modules

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"floodmark/internal/torch"
)

// Software is whose modules and training loop a program is of.
type Software string

// The software whose modules have programs.
const (
	Transformers Software = "" // with its Trainer
	Torchtune    Software = "torchtune"
	LitGPT       Software = "litgpt"
	TorchTitan   Software = "torchtitan"
	Timm         Software = "timm"
)

// Own lists the software that has modules of its own.
func Own() []Software { return []Software{Torchtune, LitGPT, TorchTitan, Timm} }

// Torch is the release of PyTorch that a release of the software was made for, the
// latest stable one of its day; the newest for transformers
// (README.md of torchtune v0.1.0 names 2.2.2, pyproject.toml of litgpt 2.2 on
// 2024-04-24).
func (s Software) Torch(r Release) torch.Release {
	switch {
	case s == TorchTitan && !r.since(0, 1, 20240724): // it runs on nightly builds of the next one
		return torch.Release{Major: 2, Minor: 4}
	case s == TorchTitan && !r.since(0, 1, 20241017):
		return torch.Release{Major: 2, Minor: 5}
	case s == TorchTitan && !r.since(0, 1, 20250129):
		return torch.Release{Major: 2, Minor: 6}
	case s == TorchTitan && !r.since(0, 1, 20250423):
		return torch.Release{Major: 2, Minor: 7}
	case s == TorchTitan && !r.since(0, 1, 20250806):
		return torch.Release{Major: 2, Minor: 8}
	case s == LitGPT && !r.since(0, 1, 20231024):
		return torch.Release{Major: 2, Minor: 1}
	case s == LitGPT && !r.since(0, 4, 0):
		return torch.Release{Major: 2, Minor: 2}
	case s != Torchtune:
		return torch.Release{}
	case !r.since(0, 2, 0):
		return torch.Release{Major: 2, Minor: 2}
	case !r.since(0, 3, 20240724):
		return torch.Release{Major: 2, Minor: 3}
	case !r.since(0, 4, 20241017):
		return torch.Release{Major: 2, Minor: 4}
	case !r.since(0, 6, 20250129):
		return torch.Release{Major: 2, Minor: 5}
	case r != Release{} && !r.since(0, 7, 0):
		return torch.Release{Major: 2, Minor: 6}
	}
	return torch.Release{}
}

// Loss is how the software computes the loss where nobody says it: as the
// configurations of the release have it.
func (s Software) Loss(r Release) Loss {
	if s == Torchtune && r.stepApart() || s == TorchTitan && r.since(0, 1, 20260427) && r != (Release{}) {
		return ChunkedLoss
	}
	return PlainLoss
}

// Release is a release of that software; the zero one is the newest. A build
// between two releases has the day it was made, as "0.5.0.dev20241118" says it.
type Release struct{ Major, Minor, Patch, Day int }

// ParseRelease reads the numbers of a version, the third where it is one, and its
// day.
func ParseRelease(version string) (Release, error) {
	if version == "" {
		return Release{}, nil
	}
	var r Release
	var err, err2, err3 error
	parts := strings.SplitN(version, ".", 3)
	if r.Major, err = strconv.Atoi(parts[0]); len(parts) > 1 {
		r.Minor, err2 = strconv.Atoi(parts[1])
	}
	if len(parts) > 2 {
		patch, _, _ := strings.Cut(parts[2], ".")
		r.Patch, _ = strconv.Atoi(patch)
	}
	if _, day, dev := strings.Cut(version, ".dev"); dev {
		r.Day, err3 = strconv.Atoi(day)
	}
	if r.Day >= someDay {
		_, err3 = time.Parse("20060102", strconv.Itoa(r.Day))
	}
	if err != nil || err2 != nil || err3 != nil || r.Major < 0 || r.Minor < 0 || r == (Release{}) {
		return Release{}, fmt.Errorf("%q is not a release: write it as 0.5, or 0.5.0.dev20241118", version)
	}
	return r, nil
}

// someDay is the least number of a build that is a day: others count builds.
const someDay = 1000_00_00

// Beyond reports a release later than those whose modules were read, or earlier than
// there was the software.
func (s Software) Beyond(r Release) bool {
	switch s {
	case Transformers:
		return r.Major > 5
	case LitGPT:
		return r.Major > 0 || r.Minor > 4
	case Torchtune:
		return r.Major > 0 || r.Minor > 7
	case TorchTitan:
		return r.Day >= someDay && r.Day < 20240101
	}
	return false // whose program says it itself
}

// since reports a release with what came on a day before release major.minor.
func (r Release) since(major, minor, day int) bool {
	switch {
	case r == Release{} || r.Major > major || r.Major == major && r.Minor > minor:
		return true
	case r.Major == major && r.Minor == minor:
		return r.Day == 0 || r.Day >= day
	}
	return false
}

// Loss is how the loss of a step is computed.
type Loss string

// The losses.
const (
	PlainLoss   Loss = "plain"   // cross_entropy of all logits
	ChunkedLoss Loss = "chunked" // head and cross_entropy in parts of the sequence
	// GatheredLoss is of logits that tensor-parallel ranks gather first.
	GatheredLoss Loss = "gathered"
)

// loop is the names of a training loop that live from one step to the next.
type loop struct {
	logits, labels torch.Tensor
	list           []torch.Tensor // logits by part of the sequence
}

// bind gives a name of the loop a new value: the old one goes when it is there.
func (n *Net) bind(name *torch.Tensor, value torch.Tensor) {
	was := *name
	*name = n.m.Keep(value)
	n.m.Drop(was)
}
