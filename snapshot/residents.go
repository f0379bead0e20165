package snapshot

import (
	"cmp"

	"floodmark/account"
	"floodmark/internal/sorting"
	"floodmark/timeline"
)

// residents are the allocations that lived before the trace, are alive at its
// end, and have no stack. Nothing says what one of them is for; but a set of
// them can have the shape of a model: the sizes of its weights, once for the
// weights and once more for gradients and each moment.
type residents struct {
	x     *Explanation
	known map[Verdict]uint8
	sizes []residentSize // by bytes of all that have the size, most first
	bytes int64
	held  int64 // bytes of all that lived before the trace and are alive at its end

	gradients map[int64]int // those that stacks told, by size
}

// residentSize is the residents of one size, by address.
type residentSize struct {
	size   int64
	allocs []uint32
}

func (s *residentSize) bytes() int64 { return s.size * int64(len(s.allocs)) }

// take hands out up to n residents from the front, and leaves the rest.
func (s *residentSize) take(n int) []uint32 {
	n = min(max(n, 0), len(s.allocs))
	taken := s.allocs[:n]
	s.allocs = s.allocs[n:]
	return taken
}

// residents decides by sizes and lifetimes what stacks cannot decide. Of equal
// blocks the lower addresses are taken for the weights, which come first into a
// process; the bytes of a category do not depend on that.
func (x *Explanation) residents(known map[Verdict]uint8) {
	r := &residents{x: x, known: known}
	r.collect()
	r.gradients = r.together(account.CategoryGradient)
	if len(r.sizes) == 0 || !r.lifetimeMeansSomething() {
		return
	}
	if trained := r.trained(); len(trained) > 0 {
		r.giveTrained(trained)
	}
	r.giveRest()
}

func (r *residents) collect() {
	x, bySize := r.x, map[int64][]uint32{}
	for a := range x.of {
		if x.lives.birth[a] != never || !x.lives.kept(a) {
			continue
		}
		alloc := x.r.Timeline.Allocs[a]
		r.held += alloc.Requested
		if x.Verdict(uint32(a)).Evidence == NoEvidence && len(x.r.Timeline.Stacks.Stack(alloc.Stack)) == 0 {
			bySize[alloc.Requested] = append(bySize[alloc.Requested], uint32(a))
			r.bytes += alloc.Requested
		}
	}
	for size, allocs := range bySize {
		sorting.By(allocs, func(i, j int) int { return cmp.Compare(x.r.Addresses[allocs[i]], x.r.Addresses[allocs[j]]) })
		r.sizes = append(r.sizes, residentSize{size, allocs})
	}
	sorting.By(r.sizes, func(i, j int) int {
		a, b := r.sizes[i], r.sizes[j]
		return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), cmp.Compare(b.size, a.size))
	})
}

// minRecorded is how many other stacks must have been recorded before having
// none means to be older than the recording.
const minRecorded = 10

// lifetimeMeansSomething reports whether living from the beginning to the end
// says anything: in a file without a trace everything does, unless stacks show
// that a recording was going on.
func (r *residents) lifetimeMeansSomething() bool {
	if r.traced() {
		return true
	}
	recorded := 0
	for _, alloc := range r.x.r.Timeline.Allocs {
		if len(r.x.r.Timeline.Stacks.Stack(alloc.Stack)) > 0 {
			recorded++
		}
	}
	return recorded >= minRecorded
}

// trained is how many weights of each size have a gradient or optimizer state,
// as far as stacks told those.
func (r *residents) trained() map[int64]int {
	if len(r.gradients) > 0 {
		return r.gradients
	}
	states, resident, half := r.x.states, map[int64]int{}, map[int64]int{}
	for _, s := range r.sizes {
		resident[s.size], half[s.size] = len(s.allocs), len(s.allocs)/2
	}
	if r.unseenGradients() {
		// They are among the residents, one beside each weight.
		if weights := divided(states, half); weights != nil {
			return weights
		}
	}
	return divided(states, resident)
}

// maxMoments is how many tensors an optimizer is believed to keep for a weight;
// Adam with AMSGrad keeps three.
const maxMoments = 3

// divided makes a weight of each so many tensors of state, for every size: the
// fewest for which there are residents enough; nil when no number does.
func divided(states, resident map[int64]int) map[int64]int {
	for copies := 1; copies <= maxMoments && len(states) > 0; copies++ {
		weights := map[int64]int{}
		for size, n := range states {
			if n%copies == 0 && n/copies <= resident[size] {
				weights[size] = n / copies
			}
		}
		if len(weights) == len(states) {
			return weights
		}
	}
	return nil
}

// together is how many allocations of a category live at one time at most, by
// size.
func (r *residents) together(c account.Category) map[int64]int {
	tl := &r.x.r.Timeline
	now, most := map[int64]int{}, map[int64]int{}
	add := func(a uint32, n int) {
		if r.x.Verdict(a).Category == c {
			size := tl.Allocs[a].Requested
			now[size] += n
			most[size] = max(most[size], now[size])
		}
	}
	for _, a := range tl.Before {
		add(a, 1)
	}
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.Born:
			add(e.Alloc, 1)
		case timeline.FreeCompleted:
			add(e.Alloc, -1)
		}
	}
	return most
}

// giveTrained takes one resident for each trained weight, and one more for its
// gradient when a backward or a step ran and no gradient was seen: they are then
// among the residents.
func (r *residents) giveTrained(weights map[int64]int) {
	gradients := r.unseenGradients()
	for _, s := range r.sizes {
		gradients = gradients && len(s.allocs) >= 2*weights[s.size]
	}
	for i := range r.sizes {
		s := &r.sizes[i]
		n := weights[s.size]
		r.give(s.take(n), account.CategoryParameter, r.lived()+", one for each of this size that has a gradient or state")
		if gradients {
			r.give(s.take(n), account.CategoryGradient, r.lived()+", a second copy of the weights where a backward or step ran")
		}
	}
}

// unseenGradients reports whether gradients are in use that nothing on a stack
// tells.
func (r *residents) unseenGradients() bool {
	did := r.x.lives.did
	return (did[backward] || did[optimizerStep]) && len(r.gradients) == 0
}

// A model is believed where residents without stacks are at least half of what
// lives through the trace, and a size recurs as layers do.
const (
	minLayers = 4
	// most is the part of the bytes, in percent, whose sizes are weights' however
	// rarely they occur; a size outside it must recur.
	most       = 99
	minRecurse = 3
)

// giveRest takes what is left for weights that are not trained, or of which no
// training was seen. How often every size is there must be how many copies of
// the weights there are: a model's own layers, norms and tables have no divisor
// in common, for one of them is single.
func (r *residents) giveRest() {
	left, layers := int64(0), 0
	for _, s := range r.sizes {
		left += s.bytes()
		layers = max(layers, len(s.allocs))
	}
	copies := 1
	if r.unseenGradients() {
		copies = 2
	}
	divisor := r.commonDivisor(left)
	if left < r.held/2 || layers < minLayers || divisor != copies && !(divisor == 2 && r.infers()) {
		return
	}
	width, sum := r.width(), int64(0)
	for i := range r.sizes {
		s := &r.sizes[i]
		minor := sum > left/100*most
		sum += s.bytes()
		n := len(s.allocs)
		switch {
		case minor && n >= minLayers && s.size%width != 0:
			r.give(s.take(n), account.CategoryBuffer, r.lived()+", recurring as layers do, but the model's width is no factor of its size")
		case n%copies == 0 && (!minor || n >= minRecurse*copies):
			r.give(s.take(n/copies), account.CategoryParameter, r.lived()+", with sizes that recur as those of layers do (buffers may be among them)")
			r.give(s.take(n/copies*(copies-1)), account.CategoryGradient, r.lived()+", where a backward ran, no gradient was made, and every size is there twice")
		}
	}
}

// infers reports whether the trace shows forwards that keep nothing for a
// backward: an even count of everything is then chance.
func (r *residents) infers() bool {
	did := r.x.lives.did
	return did[forward] && !did[backward] && !did[optimizerStep] && !did[zeroGrad] && len(r.together(account.CategoryActivation)) == 0
}

// width is the smallest size that recurs as layers do: that of a norm's weight,
// which is a factor of every matrix beside it.
func (r *residents) width() int64 {
	width := int64(0)
	for _, s := range r.sizes {
		if len(s.allocs) >= minLayers && (width == 0 || s.size < width) {
			width = s.size
		}
	}
	return max(width, 1)
}

// commonDivisor is that of the counts of the sizes that recur as layers do or
// make up most of the bytes.
func (r *residents) commonDivisor(left int64) int {
	divisor, sum := 0, int64(0)
	for _, s := range r.sizes {
		if sum <= left/100*most || len(s.allocs) >= minLayers {
			for n := len(s.allocs); n != 0; {
				divisor, n = n, divisor%n
			}
		}
		sum += s.bytes()
	}
	return divisor
}

// traced reports whether there is a trace to live through; one entry alone is the
// mark that an earlier snapshot was taken.
func (r *residents) traced() bool { return r.x.r.Trace.Len() > 1 }

// lived is what the file shows of a resident: a trace that it outlasts, or that
// it was there before stacks were recorded.
func (r *residents) lived() string {
	if r.traced() {
		return "held through the whole trace"
	}
	return "older than the recording of stacks"
}

func (r *residents) give(allocs []uint32, c account.Category, why string) {
	for _, a := range allocs {
		r.x.set(int(a), Verdict{c, BySizes, why}, r.known)
	}
}
