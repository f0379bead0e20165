package floodmark

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/internal/sorting"
	"floodmark/record"
	"floodmark/workload"
)

// Utilization is the share of its card that an engine is given, as a field that
// can be solved for.
const Utilization workload.Dimension = "utilization"

// window is the shares of a card that an engine can be given, in bytes of one
// card: least for one request of the longest length, most that the card leaves
// beside. The low of each is what is possible, the high of the first and the low
// of the second what is certain.
type window struct {
	total        account.Figure
	least, bare  account.Figure // for one request, and for none
	most         account.Figure
	mostBecause  string
	leastBecause string
}

// windowOf is the window of the rank whose window is the narrowest.
func (p *Prediction) windowOf() (window, error) {
	var narrowest window
	found := false
	for i, s := range p.shares {
		if s == nil {
			return window{}, &SettingsError{fmt.Errorf("the engine %s takes no share of its card; utilization is solved for vllm", p.Engine.Name())}
		}
		m := memory(p.Request, p.accounts[i].Ranks)
		if !m.Total.Known() {
			return window{}, &SettingsError{fmt.Errorf("a share is of a card: name one with --gpu")}
		}
		w := shareWindow(s, m)
		if !found || spareOf(w) < spareOf(narrowest) {
			narrowest, found = w, true
		}
	}
	if !found {
		return window{}, &SettingsError{fmt.Errorf("the engine %s takes no share of its card; utilization is solved for vllm", p.Engine.Name())}
	}
	return narrowest, nil
}

func spareOf(w window) int64 { return w.most.Low() - highOf(w.least) }

// highOf is the most that a figure can be; as much as can be counted where nobody
// can say.
func highOf(f account.Figure) int64 {
	if n, known := f.High(); known {
		return n
	}
	return math.MaxInt64 / 4
}

// shareWindow is the window of one rank.
func shareWindow(s *estimate.Share, m estimate.Memory) window {
	q := account.Provenance{Origin: account.Calculated, Scope: account.Device, Counter: "vllm.budget"}
	w := window{total: m.Total, bare: s.Spent, least: account.Sum(q, s.Spent, s.Request)}
	w.leastBecause = fmt.Sprintf("weights, the trial run and what lies outside the allocator take %s, and one request of the longest length %s", between(s.Spent), between(s.Request))
	w.most = m.Total.Minus(s.Beside, q)
	w.mostBecause = fmt.Sprintf("the engine holds %s beside its share when it warms its sampler up", upTo(s.Beside))
	if m.Free.Known() {
		if free := m.Free.Minus(account.Between(0, highOf(s.Initial), q), q); free.Low() < w.most.Low() {
			w.most, w.mostBecause = free, fmt.Sprintf("%s of the card is free when the engine starts, less its own context of %s", between(m.Free), upTo(s.Initial))
		}
	}
	return w
}

func between(f account.Figure) string { return f.In(bytesize.GiB) }

// upTo is the most that a figure can be, which is what bounds a share; a low end
// that may even be below 0 would only read as an error.
func upTo(f account.Figure) string {
	if high, known := f.High(); known && high > f.Low() {
		return "up to " + account.Exact(high, f.Provenance).In(bytesize.GiB)
	}
	return between(f)
}

// thousandths of the card: up for a least share, down for a most.
func up(bytes, total int64) float64   { return math.Ceil(1000*float64(bytes)/float64(total)) / 1000 }
func down(bytes, total int64) float64 { return math.Floor(1000*float64(bytes)/float64(total)) / 1000 }

// solveUtilization is the window as a document, with the changes that would reopen
// it where no share works.
func solveUtilization(ctx context.Context, r SolveRequest) (*Solved, error) {
	p, err := r.ask(ctx, r.Request)
	if err != nil {
		return nil, err
	}
	w, err := p.windowOf()
	if err != nil {
		return nil, err
	}
	least, most := w.total.Low(), highOf(w.total)
	out := &record.Window{
		Given: p.shares[0].Given,
		Low:   up(highOf(w.least), least), High: down(w.most.Low(), least), Bare: up(highOf(w.bare), least),
		PossibleLow: up(w.least.Low(), most), PossibleHigh: down(highOf(w.most), most),
		LowBytes: highOf(w.least), HighBytes: w.most.Low(),
		LowBecause: w.leastBecause, HighBecause: w.mostBecause,
	}
	out.Low, out.High, out.PossibleHigh = math.Min(out.Low, 9.999), math.Max(out.High, 0), math.Min(out.PossibleHigh, 1)
	out.High = math.Min(out.High, 1)
	out.Direction = direction(out)
	s := record.Solution{Field: string(Utilization), Window: out, LimitReason: w.mostBecause}
	if out.Low > out.High {
		if out.Changes, err = reopening(ctx, r, p); err != nil {
			return nil, err
		}
	}
	return &Solved{Field: Utilization, Prediction: p, Solution: s}, nil
}

// direction is where the share that is given stands to the window.
func direction(w *record.Window) string {
	switch {
	case w.PossibleLow > w.PossibleHigh:
		return "none" // no value works
	case w.Low > w.High:
		return "unsure"
	case w.Given < w.Low:
		return "raise"
	case w.Given > w.High:
		return "lower"
	}
	return "keep"
}

// knob is one change that can reopen a window, in steps that go further.
type knob struct {
	name  string
	steps []func(*Request) string // each makes the change and names its value
}

// reopening is the three changes that reopen the window with the least to spare:
// the smallest that do.
func reopening(ctx context.Context, r SolveRequest, now *Prediction) ([]record.Reopening, error) {
	var list []record.Reopening
	for _, k := range knobs(now) {
		for _, step := range k.steps {
			q := r.Request
			serving, budget := workload.Serving{}, workload.Budget{}
			if q.Workload.Serving != nil {
				serving = *q.Workload.Serving
			}
			if serving.Budget != nil {
				budget = *serving.Budget
			}
			serving.Budget = &budget
			q.Workload.Serving = &serving
			value := step(&q)
			p, err := r.ask(ctx, q)
			if err != nil {
				continue // a layout that the model cannot be divided over is no change
			}
			w, err := p.windowOf()
			if err != nil {
				return nil, err
			}
			if spare := spareOf(w); spare >= 0 {
				total := w.total.Low()
				list = append(list, record.Reopening{Change: k.name, Value: value, Low: up(highOf(w.least), total), High: down(w.most.Low(), total), SpareBytes: spare})
				break
			}
		}
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[i].SpareBytes, list[j].SpareBytes) })
	return list[:min(3, len(list))], ctx.Err()
}

// knobs are the settings that move an end of the window.
func knobs(now *Prediction) []knob {
	w := now.Request.Workload
	length := int64(now.Request.Model.MaxPosition)
	if w.Serving != nil && w.Serving.MaxLength > 0 {
		length = w.Serving.MaxLength
	}
	var list []knob
	halves := func(name string, from, least int64, set func(*Request, int64)) {
		k := knob{name: name}
		for n := from / 2; n >= least; n /= 2 {
			k.steps = append(k.steps, func(r *Request) string { set(r, n); return bytesize.Group(n) })
		}
		list = append(list, k)
	}
	halves("--max-model-len", length, 256, func(r *Request, n int64) { r.Workload.Serving.MaxLength = n })
	halves("--max-num-seqs", 1024, 8, func(r *Request, n int64) { r.Workload.Serving.MaxRequests = n })
	halves("--max-num-batched-tokens", 8192, 512, func(r *Request, n int64) { r.Workload.Serving.Budget.BatchedTokens = n })
	list = append(list,
		knob{"--enforce-eager", []func(*Request) string{func(r *Request) string { r.Workload.Serving.Budget.Eager = true; return "" }}},
		knob{"--kv-cache-dtype", []func(*Request) string{func(r *Request) string { r.Workload.Precision.Cache = dtype.F8E4M3; return "fp8" }}})
	ranks := knob{name: "--tensor-parallel-size"}
	for n := max(1, w.Mesh.TensorParallel) * 2; n <= 8; n *= 2 {
		ranks.steps = append(ranks.steps, func(r *Request) string {
			r.Workload.Mesh.TensorParallel = n
			r.Free, r.Devices = nil, 0
			return fmt.Sprint(n)
		})
	}
	return append(list, ranks)
}
