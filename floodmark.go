package floodmark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/estimate/llamacpp"
	"floodmark/estimate/megatron"
	"floodmark/estimate/training"
	"floodmark/estimate/vllm"
	"floodmark/fit"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/record"
	"floodmark/replay"
	"floodmark/workload"
)

// Request is what an estimate is asked about.
type Request struct {
	// Adapter is the file that describes the adapter that is trained; nil where the
	// workload does (see Tune).
	Adapter   *load.AdapterConfig
	Model     *model.Model
	ModelPath string            // read when Model is nil: what [LoadModel] takes
	Workload  workload.Workload // without an operation: loading alone
	Card      *device.Card      // the card under every rank; nil asks for no verdict
	Platform  device.Platform   // where the card is used; empty for device.UnknownPlatform
	// Free is what is free on the device of a rank, whoever holds the rest, by
	// the device's index; AnyDevice is for those that are not listed.
	Free map[int]account.Figure
	// Devices is how many devices the machine has; 0 when nobody said.
	Devices int
	// Here says that what is free was read of devices, of which ranks may leave
	// some alone.
	Here bool
	// Declared is where the parts of the workload were read, of a recipe.
	Declared []workload.Declaration
	// Open reads the models of what stays resident; nil is [LoadModel].
	Open func(ctx context.Context, name string) (*model.Model, error)
	// Warnings are what reading the request had to say.
	Warnings []account.Warning

	calibration *calibration // see Calibrated; nil for none
	trials      *trials      // of the advice that tries this request; nil for none
	changes     string       // the settings by which an advice came to it
}

// AnyDevice is every device of which nothing else is said.
const AnyDevice = -1

// Prediction is what an estimate gives.
type Prediction struct {
	Request  Request
	Engine   estimate.Engine
	Capacity *estimate.Capacity
	Budgets  fit.Budgets  // empty without a card
	Verdict  *fit.Verdict // nil without a card; that of main memory where it is the worse one
	Host     *fit.Verdict // of main memory; nil where the workload puts nothing there or declares none
	Starts   *fit.Verdict // of an engine that starts before it works: its start alone

	plans    []parallel.RankPlan
	shares   []*estimate.Share // one a class of ranks; nil for engines that take no share
	accounts []account.Account // one a class of equal ranks
	onHost   bool              // the verdict is that of main memory
	events   int               // of the timelines of all classes
}

// LoadModel reads the model at a path: a Hugging Face folder or its
// config.json.
func LoadModel(path string) (*model.Model, error) { return load.Open(path) }

// FindCard is the catalogue's card of that name: "h100", "rtx-4090".
func FindCard(name string) (device.Card, error) { return device.Find(name) }

// Estimate predicts the memory of a workload on each rank, and with a card
// decides whether it fits.
func Estimate(ctx context.Context, r Request) (*Prediction, error) {
	if r.Workload.Operation == "" {
		r.Workload.Operation = workload.Load
	}
	r.Workload = r.Workload.Admitted()
	if r.Model == nil {
		m, err := LoadModel(r.ModelPath)
		if err != nil {
			return nil, err
		}
		r.Model = m
	}
	e, err := engine(r.Workload)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checked(r.Workload), busy(r.Workload), shallow(r.Model, r.Workload), sighted(r.Model, r.Workload), placed(r.Model, r.Workload), r.devices()); err != nil {
		return nil, err
	}
	if r, err = r.read(e); err != nil {
		return nil, err
	}
	if r, err = r.trained(); err != nil {
		return nil, err
	}
	r = r.unpacked().beside(ctx).pinned()
	if ranks := r.Workload.Mesh.Ranks(); r.Devices > 0 && ranks > r.Devices {
		return nil, &parallel.NotSupportedError{Rule: fmt.Sprintf("the layout takes %d devices and there is %d", ranks, r.Devices)}
	}
	plans, err := divided(e, r)
	if err != nil {
		return nil, &LayoutError{Err: fmt.Errorf("dividing the model: %w", err), Runs: runnable(e, r)}
	}
	p := &Prediction{Request: r, Engine: e, plans: rankClasses(plans, r.Workload)}
	made, err := p.predict(ctx, r)
	if err != nil {
		return nil, err
	}
	p.accounts, p.Capacity, p.shares, p.events = made.accounts, made.capacity, made.shares, made.events
	p.leaveOpen()
	p.decide()
	return p, nil
}

// outcome is what an engine predicts for every class of ranks.
type outcome struct {
	accounts []account.Account
	capacity *estimate.Capacity
	shares   []*estimate.Share
	events   int // of the timelines of all classes
}

// predict makes the account of each class of ranks on the card of a request.
func (p *Prediction) predict(ctx context.Context, r Request) (outcome, error) {
	var made outcome
	for _, plan := range p.plans {
		in := estimate.Input{Model: p.Request.Model, Plan: plan, Workload: &p.Request.Workload, Memory: memory(r, plan.Ranks)}
		result, err := p.Engine.Estimate(ctx, in)
		var settings *workload.SettingsError
		if errors.As(err, &settings) { // which are of no rank
			return outcome{}, &SettingsError{settings}
		}
		if err != nil {
			return outcome{}, fmt.Errorf("estimating rank %d: %w", plan.Ranks[0], err)
		}
		made.events += len(result.Timeline.Events)
		r.calibrate(result.Timeline)
		laid, err := lay(ctx, result.Timeline, in.Memory, replayOptions(r.Workload))
		if err != nil {
			return outcome{}, fmt.Errorf("laying out rank %d: %w", plan.Ranks[0], err)
		}
		if err := layCourse(ctx, result, laid, in.Memory); err != nil {
			return outcome{}, fmt.Errorf("laying out the orders of rank %d: %w", plan.Ranks[0], err)
		}
		made.accounts = append(made.accounts, budgeted(replay.Account(result.Timeline, laid.run, account.Calculated), result))
		made.shares = append(made.shares, result.Share)
		made.capacity = result.Capacity
	}
	return made, nil
}

// Engines lists the names of engines that a workload may give. What serves
// models by rules of its own is taken for serving in general, with a warning.
func Engines() []string {
	return []string{"eager", "transformers", "litgpt", "torchtune", "torchtitan", "trl", "timm", "autoawq", "autogptq", "megatron", "serving", "vllm", "llama.cpp", "ollama", "sglang", "tensorrt_llm", "tgi"}
}

// engine is the one that the workload names, else plain PyTorch.
func engine(w workload.Workload) (estimate.Engine, error) {
	if e, serves := server(w.Engine.Name); serves {
		if trains(w.Operation) {
			return nil, &SettingsError{fmt.Errorf("the engine %q serves models, and the operation is %s", w.Engine.Name, w.Operation)}
		}
		return e, nil
	}
	switch w.Engine.Name {
	case "", "eager", "transformers", "litgpt", "torchtune", "torchtitan", "trl", "timm", "autoawq", "autogptq":
		if trains(w.Operation) {
			return training.Engine{}, nil
		}
		return eager.Engine{}, nil
	case "megatron":
		if !trains(w.Operation) {
			return nil, &SettingsError{fmt.Errorf("the engine %q trains models, and the operation is %s", w.Engine.Name, w.Operation)}
		}
		return megatron.Engine{}, nil
	}
	return nil, &SettingsError{fmt.Errorf("the engine %q is not known; known are %s", w.Engine.Name, strings.Join(Engines(), ", "))}
}

// server is the engine of a name that serves models, which none of them trains.
func server(name string) (estimate.Engine, bool) {
	switch name {
	case "serving", "sglang", "tensorrt_llm", "tgi":
		return eager.Serving{}, true
	case "llama.cpp", "ollama":
		return llamacpp.Engine{Ollama: name == "ollama"}, true
	case "vllm":
		return vllm.Engine{}, true
	}
	return nil, false
}

// checked refuses lengths that contradict each other, or the engine.
func checked(w workload.Workload) error {
	if w.Engine.Name == "megatron" && w.Training != nil && w.Training.Lengths != nil {
		return &SettingsError{errors.New("training.lengths says how sequences differ, and Megatron-LM's all have the length of the context")}
	}
	for _, in := range w.Inputs {
		prefix, context := in.Dimensions[workload.SharedPrefix], in.Dimensions[workload.Context]
		if _, fits := bytesize.Add(context, in.Dimensions[workload.Generated]); !fits {
			return &SettingsError{fmt.Errorf("the input %s has more positions, context and generated, than 63 bits count", in.Name)}
		}
		if prefix > context {
			return &SettingsError{fmt.Errorf("the input %s shares a prefix of %d positions, more than its context of %d", in.Name, prefix, context)}
		}
		if err := batched(w, in); err != nil {
			return &SettingsError{err}
		}
	}
	return nil
}

// placed refuses lengths for which the table of a text's learned positions has no
// row: the lookup fails in the first pass. What generation makes last is not
// looked up. Tables have up to two rows before the first position (OPT, BART).
func placed(m *model.Model, w workload.Workload) error {
	if slices.ContainsFunc(m.Stacks, func(s model.Stack) bool { return s.Kind != model.Decoder && s.Kind != model.Encoder }) {
		return nil // a tower has a table of its own
	}
	context, _ := w.Dimension(workload.Context)
	generated, _ := w.Dimension(workload.Generated)
	encoded, _ := w.Dimension(workload.EncoderLength)
	asked := max(encoded, context+max(0, generated-1))
	for _, t := range m.Tensors {
		most := int64(m.MaxPosition)
		if t.Role != model.RolePositionEmbedding || len(t.Shape) != 2 || t.Shape[0] < most || t.Shape[0] > most+2 || asked <= most {
			continue
		}
		return &SettingsError{fmt.Errorf("the workload takes %s positions, and the model has learned %s (%s): a longer input fails in its first pass", bytesize.Group(asked), bytesize.Group(most), t.Name)}
	}
	return nil
}

// Accounts is one account a class of equal ranks.
func (p *Prediction) Accounts() []account.Account { return p.accounts }

// divided is the model as an engine divides it.
func divided(e estimate.Engine, r Request) ([]parallel.RankPlan, error) {
	rules, err := rules(e, &r.Workload)
	if err != nil {
		return nil, err
	}
	return rules.Plan(r.Model, r.Workload.Mesh)
}

// rules is how an engine divides a model.
func rules(e estimate.Engine, w *workload.Workload) (parallel.Rules, error) {
	switch e.(type) {
	case vllm.Engine:
		return vllm.Rules(w), nil
	case megatron.Engine:
		return megatron.Rules(w)
	case training.Engine:
		return training.Rules(w), nil
	}
	return parallel.Plain(), nil
}

// memory is what an engine may know of the card under ranks: of what is free the
// least, for the one that has least decides.
func memory(r Request, ranks []int) estimate.Memory {
	var m estimate.Memory
	if r.Card != nil {
		m = estimate.Memory{Total: budget(*r.Card, r.Platform).Capacity, Name: r.Card.Name, Arch: r.Card.Arch}
	}
	for _, rank := range ranks {
		free, declared := r.freeOn(rank)
		if declared && (!m.Free.Known() || free.Low() < m.Free.Low()) {
			m.Free = free
		}
	}
	return m
}

// decide puts the requested card under every rank and asks for the verdict.
func (p *Prediction) decide() {
	r := p.Request
	p.Host = p.judgeHost(p.accounts)
	if r.Card == nil && r.Free == nil {
		return
	}
	p.Budgets = r.budgets(p.accounts)
	judged := p.accounts
	if r.Free == nil { // equal cards under equal ranks have one answer
		judged = firstRanks(judged)
	}
	v := p.judge(r.Card, judged, p.Budgets)
	if p.onHost = p.hostBinds(v); p.onHost {
		v = *p.Host
	}
	p.Verdict = &v
	if started := starting(p.accounts); started != nil {
		s := p.judge(r.Card, started, p.Budgets)
		p.Starts = &s
	}
}

// budget is the whole of a card, of which nobody declared another owner.
func budget(c device.Card, platform device.Platform) fit.Budget {
	if platform == "" {
		platform = device.UnknownPlatform
	}
	p := account.Provenance{Origin: account.Assumed, Scope: account.Device}
	others := account.Zero("no other owner of the card was declared", p)
	if c.Unified() {
		others = account.Unknown("what the operating system and other programs hold of the memory that "+c.Label()+" shares with them is not known; say what is free (--free)", p)
	}
	return fit.Budget{Card: c.Label(), Capacity: c.Reported(platform), Others: others}
}

// Evidence is anything that says what memory was or would be: a snapshot, an
// out-of-memory text, a record, a prediction.
type Evidence interface {
	// Accounts is what the evidence says, one account a class of equal ranks
	// and device.
	Accounts() []account.Account
	// Record is the document of the evidence, a pointer to a type of package
	// record.
	Record(record.Tool) any
}
