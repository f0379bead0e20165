package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/hub"
	"floodmark/internal/source"
	"floodmark/model"
)

const (
	adapterName = "adapter_config.json"
	maxAdapter  = 16 << 20
)

// Kinds of adapters that are no pair of matrices.
const (
	ia3      = "ia3"
	lnTuning = "ln_tuning"
	oft      = "oft"
)

// AdapterConfig is what an adapter_config.json of PEFT says of a LoRA adapter
// (src/peft/tuners/lora/config.py of https://github.com/huggingface/peft).
type AdapterConfig struct {
	Base        string // base_model_name_or_path
	Rank        int    // r
	Kind        string // "" for LoRA and DoRA; else "ia3", "ln_tuning" or "oft"
	Alpha       float64
	DoRA        bool           // use_dora: a magnitude for each output
	BiasOfB     bool           // lora_bias: B has a bias
	Targets     selection      // target_modules
	Excluded    selection      // exclude_modules
	Saved       []string       // modules_to_save: trained and stored whole
	RankPattern map[string]int // rank_pattern: patterns of modules with another rank
	Layers      []int64        // layers_to_transform; nil for all
	planned     bool           // it is yet to be trained: no file says it
	Dropout     bool           // lora_dropout, or the kind's own, is more than 0
	// Options are the sizes that kinds of adapters have beside a rank, as PEFT calls them.
	Options map[string]int64
	// Feedforward is the modules whose input IA3 scales (feedforward_modules); none
	// for the last layer of each network.
	Feedforward []string
	counted     adapterKind // the line that counts it; none for LoRA, IA3, trained norms and OFT
	Biases      string      // bias: which biases of the base model are trained; "none" for none
	open        []string    // fields that are not known here
}

// Tuned is what an adapter adds to one module, or to one of every expert.
type Tuned struct {
	Module       string // as the base model calls it
	Role         model.Role
	Stack, Layer int32
	Rank         int  // 0 for a module that is saved whole
	Saved        bool // a copy of the module, not a pair of matrices
	Parameters   int64
	Tensor       int       // index of the module's weight among the model's tensors
	Shapes       [][]int64 // the tensors that are trained: A, B, and what DoRA and a bias add
	Frozen       []FrozenTensor
	Once         bool // it stands beside the modules: a bank that they share, or a prompt
}

// Adapter is an adapter on its base model.
type Adapter struct {
	Config     AdapterConfig
	Tuned      []Tuned
	Parameters account.Figure // Σ r·(in + out), magnitudes, and modules saved whole
	Stored     account.Figure // bytes of its own weight file; unknown without one
	Formats    []dtype.Format // in that file, each once
	Warnings   []account.Warning
	// Open is what the configuration asks for beyond what is counted, each with its
	// field: over it nothing is known to fit.
	Open []string
}

// Bytes is what the adapter takes beside its base model: what its weight file
// stores, or without one two to four bytes a parameter, as peft keeps adapters in
// the base's format or in 32 bits.
func (a *Adapter) Bytes() account.Figure {
	if a.Stored.Known() {
		return a.Stored
	}
	n, exact := a.Parameters.IsExact()
	low, fits := bytesize.Mul(n, 2)
	high, also := bytesize.Mul(n, 4)
	p := account.Provenance{Origin: account.Assumed, Scope: account.Requested, Source: "https://huggingface.co/docs/peft/package_reference/peft_model (autocast_adapter_dtype)"}
	if !exact || !fits || !also {
		return account.Unknown("how many parameters the adapter has is not known", p)
	}
	return account.Between(low, high, p)
}

// OpenAdapter reads the adapter in a folder or repository and counts it on its
// base model. Where its weight file lies beside it, that is read too, and a
// difference is a warning.
func OpenAdapter(ctx context.Context, name string, base *model.Model, o Options) (*Adapter, error) {
	folder := source.Dir(strings.TrimSuffix(name, "/"+adapterName))
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if repository, ok := hub.ParseName(name); ok {
			if folder, err = hub.Open(ctx, o.Hub, repository); err != nil {
				return nil, err
			}
		}
	}
	src, err := folder.Open(ctx, adapterName)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	config, err := ReadAdapter(src)
	if err != nil {
		return nil, err
	}
	a, err := config.On(base)
	if err != nil {
		return nil, err
	}
	return a, a.list(ctx, folder)
}

// ReadAdapter reads an adapter_config.json. A kind of adapter that is not counted
// is a [source.FormatError].
func ReadAdapter(src source.Source) (*AdapterConfig, error) {
	if err := source.RefusePointer(src); err != nil {
		return nil, err
	}
	data, err := source.ReadAll(src, maxAdapter)
	if err != nil {
		return nil, err
	}
	f := fields{file: src.Name()}
	if err := json.Unmarshal(data, &f.object); err != nil {
		return nil, malformed(src.Name(), err)
	}
	if err := source.OneOfEachKey(src.Name(), data); err != nil {
		return nil, err
	}
	c := &AdapterConfig{
		Base: f.text("base_model_name_or_path"), Rank: f.count("r"), DoRA: f.flag("use_dora", false), BiasOfB: f.flag("lora_bias", false),
		Targets: f.selection("target_modules"), Excluded: f.selection("exclude_modules"), Biases: f.text("bias"),
	}
	if err := c.read(&f); err != nil {
		return nil, err
	}
	f.read(&c.Alpha, "a number", "lora_alpha")
	f.read(&c.Saved, "a list of names", "modules_to_save")
	if slices.Contains(c.Saved, "") {
		f.fail("modules_to_save", "a list of names")
	}
	if slices.Contains(c.Targets.names, "") {
		f.fail("target_modules", "a text or a list of texts")
	}
	if !slices.Contains([]string{"", "none", "all"}, c.Biases) && !strings.HasSuffix(c.Biases, "_only") {
		f.fail("bias", "none, all or lora_only")
	}
	if c.counted == nil || c.counted[kindName] != "adalora" { // whose pattern is what training left of each rank
		f.read(&c.RankPattern, "ranks by pattern", "rank_pattern")
	}
	if !c.onModules() {
		c.Targets = selection{}
	}
	var one int64
	if raw := f.object["layers_to_transform"]; json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		c.Layers = []int64{one}
	} else {
		f.read(&c.Layers, "a layer or a list of layers", "layers_to_transform")
	}
	if f.err == nil && c.Rank <= 0 && c.counted == nil && (c.Kind == "" || c.Kind == oft && c.Options["oft_block_size"] == 0) {
		f.fail("r", "a rank of 1 or more")
	}
	if f.err == nil && c.Targets.empty() && len(c.Saved) == 0 && c.onModules() {
		f.fail("target_modules", "names of modules, or a pattern")
	}
	if f.err != nil {
		return nil, f.err
	}
	return c, nil
}

// NewAdapter is the configuration of an adapter that is yet to be trained:
// targets as PEFT takes them, "all-linear" alone for every linear layer but the
// head.
func NewAdapter(kind string, rank int, targets, saved []string) *AdapterConfig {
	c := &AdapterConfig{Rank: rank, DoRA: kind == "dora", Saved: saved, Biases: "none", planned: true}
	switch kind {
	case lnTuning: // copies of norms are trained whole
		c.Saved = append(slices.Clone(saved), targets...)
		return c
	case ia3, oft:
		c.Kind = kind
	case "", "lora", "dora":
	default:
		var known bool
		if c.counted, known = kindCalled(func(k adapterKind) bool { return k[kindName] == kind }); !known {
			c.Kind = kind // refused on a model
		}
	}
	if len(targets) == 1 && strings.EqualFold(targets[0], allLinear) {
		c.Targets.pattern = allLinear
	} else {
		c.Targets.names = targets
	}
	return c
}

// On counts the adapter on a base model: two matrices of r·in and r·out for
// each module that it targets. Worked number: rank 16 on a module of
// [4096, 4096] is 16 · 8192 = 131,072 parameters. A target that the model does
// not have, and a pattern that this program cannot match, are errors.
func (c *AdapterConfig) On(base *model.Model) (*Adapter, error) {
	if c.Kind != "" && c.Kind != ia3 && c.Kind != oft && c.Kind != lnTuning {
		return nil, fmt.Errorf("the adapter is of the kind %q, expected lora, dora, ia3, ln_tuning, oft or one of %s", c.Kind, strings.Join(AdapterKinds(), ", "))
	}
	if c.Targets.empty() && len(c.Saved) == 0 && c.onModules() {
		return nil, fmt.Errorf("the adapter does not say which modules it targets: name them (q_proj, v_proj), or all-linear")
	}
	if err := c.refuseOptions(); err != nil {
		return nil, err
	}
	choose, err := c.chooser()
	if err != nil {
		return nil, err
	}
	a := &Adapter{Config: *c, Open: slices.Clone(c.open)}
	if biased := slices.ContainsFunc(base.Tensors, func(t model.Tensor) bool { return strings.HasSuffix(t.Name, ".bias") }); biased && c.Biases != "" && c.Biases != "none" {
		a.Open = append(a.Open, adapterName+": bias: "+quote(c.Biases)+" trains biases of the base model too, which are not counted")
	}
	for i, t := range base.Tensors {
		t.Shape = base.Linear(t)
		module, is := moduleOf(t)
		if bias, of := strings.CutSuffix(t.Name, ".bias"); of && c.saves(bias) { // a module is saved whole
			module, is = bias, true
		}
		if !is {
			continue
		}
		tuned, ok, err := choose.tune(module, t)
		if err != nil {
			return nil, err
		}
		if ok {
			tuned.Tensor = i
			a.Tuned = append(a.Tuned, tuned)
		}
	}
	once, has, err := c.once(base, a.Tuned)
	if err != nil {
		return nil, err
	}
	if has {
		a.Tuned = append(a.Tuned, once)
	}
	p := account.Provenance{Origin: account.Calculated, Counter: "adapter.parameters", Source: "https://arxiv.org/abs/2106.09685"}
	if len(a.Tuned) == 0 && c.planned {
		return nil, c.unmatched(base)
	}
	if len(a.Tuned) == 0 {
		return nil, source.InField(adapterName, "target_modules", "no module of %s is called so", quote(base.Name)).
			WithHint("name the base model that the adapter was trained on: %s", c.Base)
	}
	a.Open = append(a.Open, a.unsaved(base)...)
	var sum int64
	for _, t := range a.Tuned {
		var fits bool
		if sum, fits = bytesize.Add(sum, t.Parameters); !fits {
			a.Parameters = account.Unknown(bytesize.ErrOverflow.Error(), p)
			return a, nil
		}
	}
	a.Parameters = account.Exact(sum, p)
	a.Stored = account.Unknown("no weight file of the adapter was read", account.Provenance{Scope: account.Requested})
	return a, nil
}

// unsaved lists the names of modules to save that the model has not. PEFT adds both
// names of a classifier's head, of which a model has one
// (PeftModelForSequenceClassification in src/peft/peft_model.py).
func (a *Adapter) unsaved(base *model.Model) []string {
	heads := []string{"classifier", "score"}
	saved := func(name string) bool {
		return slices.ContainsFunc(a.Tuned, func(t Tuned) bool { return t.Saved && ends(strings.ReplaceAll(t.Module, "*", "0"), name) })
	}
	var open []string
	for _, name := range a.Config.Saved {
		if !saved(name) && !(slices.Contains(heads, name) && slices.ContainsFunc(heads, saved)) {
			open = append(open, adapterName+": modules_to_save: no module of "+quote(base.Name)+" that is counted is called "+quote(name))
		}
	}
	return open
}

// unmatched is the error of an adapter that is yet to be trained and whose targets
// the model does not have: with the names that it could have meant.
func (c *AdapterConfig) unmatched(base *model.Model) error {
	var names []string
	for _, t := range base.Tensors {
		module, is := moduleOf(t)
		if name := module[strings.LastIndex(module, ".")+1:]; is && len(t.Shape) >= 2 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	const most = 16
	names = names[:min(len(names), most)]
	return fmt.Errorf("the adapter targets %s, and no module of %s is called so: it has %s", strings.Join(append(slices.Clone(c.Targets.names), c.Saved...), ", "), base.Name, strings.Join(names, ", "))
}

// moduleOf is the module that a tensor is the weight of, packed or not.
func moduleOf(t model.Tensor) (string, bool) {
	for _, ending := range []string{".weight", ".qweight", ".weight_packed"} {
		if module, is := strings.CutSuffix(t.Name, ending); is {
			return module, t.Role.Category() == account.CategoryParameter
		}
	}
	return "", false
}

// saves reports a module that is trained and stored whole.
func (c *AdapterConfig) saves(module string) bool {
	key := strings.ReplaceAll(module, "*", "0")
	return slices.ContainsFunc(c.Saved, func(name string) bool { return ends(key, name) })
}

// tune is what the adapter adds to one module.
func (c *chooser) tune(module string, t model.Tensor) (Tuned, bool, error) {
	// The number of an expert is a star here; a pattern may ask for digits.
	key := strings.ReplaceAll(module, "*", "0")
	out := Tuned{Module: module, Role: t.Role, Stack: t.Stack, Layer: t.Layer}
	if c.config.saves(module) {
		n, fits := t.Parameters()
		out.Saved, out.Parameters, out.Shapes = true, n, [][]int64{t.Shape}
		return out, fits, nil
	}
	if len(t.Shape) < 2 || !c.on(key, t) {
		return out, false, nil
	}
	out.Rank = c.rank(key)
	if c.config.counted != nil {
		var err error
		if out.Shapes, out.Frozen, err = c.config.ofModule(out.Rank, t); err != nil {
			return out, false, source.InField(adapterName, "target_modules", "the adapter on %s cannot be counted: %v", quote(module), err)
		}
	} else {
		out.Shapes = c.config.shapes(out.Rank, t, key)
	}
	if out.Shapes == nil && c.config.counted == nil {
		return out, false, source.InField(adapterName, "r", "%d blocks do not divide the %d inputs of %s", out.Rank, t.Shape[len(t.Shape)-1], quote(module))
	}
	fits := true
	for _, shape := range out.Shapes {
		n, counted := bytesize.Mul(shape...)
		sum, added := bytesize.Add(out.Parameters, n)
		out.Parameters, fits = sum, fits && counted && added
	}
	if !fits {
		return out, false, source.InField(adapterName, "r", "rank %d on %s has more parameters than 63 bits count", out.Rank, quote(module))
	}
	return out, true, nil
}

// shapes is the two matrices of an adapter, r·(in + out) parameters, and what
// DoRA and a bias add; for experts that share a tensor those of each expert. A
// convolution's input counts its kernel. IA3 has a vector, of a network's last
// layer over its input; OFT the upper triangles of the blocks that turn the
// input; none where they do not divide it
// (src/peft/tuners/ia3/layer.py and oft/layer.py of https://github.com/huggingface/peft).
// Worked number: 32 blocks on 3,072 inputs are 32 · 96 · 95 / 2 = 145,920.
func (c *AdapterConfig) shapes(rank int, t model.Tensor, module string) [][]int64 {
	in := t.Shape[len(t.Shape)-1]
	if block := c.Options["oft_block_size"]; block > 0 {
		rank = int(in / block)
	}
	switch {
	case c.Kind == ia3 && c.feedsForward(t, module):
		return [][]int64{{1, in}}
	case c.Kind == ia3:
		return [][]int64{{t.Shape[0], 1}}
	case c.Kind == oft && (rank < 1 || in%int64(rank) != 0):
		return nil
	case c.Kind == oft:
		block := in / int64(rank)
		return [][]int64{{int64(rank), block * (block - 1) / 2}}
	}
	var experts []int64
	shape := t.Shape
	if len(shape) == 3 && strings.Contains(t.Name, "experts.") {
		experts, shape = shape[:1], shape[1:]
	}
	of := func(sizes ...int64) []int64 { return slices.Concat(experts, sizes) }
	list := [][]int64{of(append([]int64{int64(rank)}, shape[1:]...)...), of(shape[0], int64(rank))}
	if c.DoRA {
		list = append(list, of(shape[0]))
	}
	if c.BiasOfB {
		list = append(list, of(shape[0]))
	}
	return list
}

// feedsForward reports a layer whose input IA3 scales.
func (c *AdapterConfig) feedsForward(t model.Tensor, module string) bool {
	if len(c.Feedforward) == 0 {
		return t.Role == model.RoleDown
	}
	return slices.ContainsFunc(c.Feedforward, func(name string) bool { return ends(module, name) })
}

// list reads the adapter's own weight file, where there is one.
func (a *Adapter) list(ctx context.Context, folder source.Folder) error {
	for _, candidate := range []struct{ kind, file string }{{safetensorsKind, "adapter_model.safetensors"}, {torchKind, "adapter_model.bin"}} {
		tensors, err := header(ctx, folder, candidate.kind, candidate.file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var elements, bytes int64
		for _, t := range tensors {
			n, _ := bytesize.Mul(t.shape...)
			elements, bytes = elements+n, bytes+t.bytes
			if !slices.Contains(a.Formats, t.format) {
				a.Formats = append(a.Formats, t.format)
			}
		}
		a.Stored = account.Exact(bytes, account.Provenance{Origin: account.Observed, Scope: account.Requested, Counter: "adapter.weights", Source: candidate.file})
		if counted, exact := a.Parameters.IsExact(); exact && counted != elements {
			a.Warnings = append(a.Warnings, warning("adapter_differs", "%s lists %d parameters; the configuration on this base model makes %d", candidate.file, elements, counted))
		}
		return nil
	}
	return nil
}
