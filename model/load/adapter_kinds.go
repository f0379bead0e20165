package load

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
)

// adapterTable is a kind of PEFT's adapters a line, as its layer.py and model.py of
// release 0.19 make it (https://github.com/huggingface/peft/tree/v0.19.0/src/peft/tuners):
// the name here, peft_type, the field that tells it from others of its type, its
// options with their defaults, and the tensors: trained and frozen of each module,
// trained and frozen once. Sizes are read from left to right; a colon divides upwards.
// A frozen tensor begins with its format.
//
//go:embed adapters.tsv
var adapterTable string

// The columns of the table.
const (
	kindName = iota
	kindType
	kindWhen
	kindOptions
	kindTrained
	kindFrozen
	kindOnce
	kindOnceFrozen
	kindColumns
)

// adapterKind is a line of the table.
type adapterKind []string

// AdapterKinds lists the kinds of adapters that the table counts.
func AdapterKinds() []string {
	var names []string
	for line := range strings.Lines(adapterTable) {
		name, _, _ := strings.Cut(line, "\t")
		names = append(names, name)
	}
	return names
}

// kindCalled is the line of a kind.
func kindCalled(match func(adapterKind) bool) (adapterKind, bool) {
	for line := range strings.Lines(adapterTable) {
		k := adapterKind(strings.Split(strings.TrimSpace(line), "\t"))
		if len(k) == kindColumns && match(k) {
			return k, true
		}
	}
	return nil, false
}

// kindOf is the kind that a configuration of PEFT has.
func kindOf(peftType string, object map[string]json.RawMessage) (adapterKind, bool) {
	return kindCalled(func(k adapterKind) bool {
		field, value, needs := strings.Cut(k[kindWhen], "=")
		return k[kindType] == peftType && (!needs || strings.EqualFold(strings.Trim(string(object[field]), `"`), value))
	})
}

// options are the sizes of a kind: those of the configuration, and PEFT's own where
// it says none.
func (k adapterKind) options(said map[string]int64) map[string]int64 {
	sizes := map[string]int64{}
	for pair := range strings.FieldsSeq(k[kindOptions]) {
		name, value, _ := strings.Cut(pair, "=")
		sizes[name], _ = strconv.ParseInt(value, 10, 64)
		if n, has := said[name]; has {
			sizes[name] = n
		}
	}
	return sizes
}

// refuseOptions names a size that the kind of the adapter does not have.
func (c *AdapterConfig) refuseOptions() error {
	known := []string{"oft_block_size", "tokens"}
	if c.counted != nil {
		for pair := range strings.FieldsSeq(c.counted[kindOptions]) {
			name, _, _ := strings.Cut(pair, "=")
			known = append(known, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Options)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the adapter has an option %s, which its kind does not: expected one of %s", quote(name), strings.Join(known, ", "))
		}
	}
	return nil
}

// FrozenTensor is what an adapter holds and does not train.
type FrozenTensor struct {
	Format dtype.Format
	Shape  []int64
}

// mostElements bounds a tensor of an adapter, far above every model's.
const mostElements = int64(1) << 40

// tensors reads a column with the sizes that its names stand for.
func (k adapterKind) tensors(column int, sizes map[string]int64) ([]FrozenTensor, error) {
	var list []FrozenTensor
	if k[column] == "-" {
		return nil, nil
	}
	formats := map[string]dtype.Format{"f32": dtype.F32, "i64": dtype.I64, "i32": dtype.I32}
	for text := range strings.SplitSeq(k[column], ";") {
		t := FrozenTensor{}
		if column == kindFrozen || column == kindOnceFrozen {
			t.Format, text = formats[text[:3]], text[4:]
		}
		for size := range strings.SplitSeq(text, ",") {
			n, err := evaluate(size, sizes)
			if err != nil {
				return nil, fmt.Errorf("%s: %s %w", k[kindName], size, err)
			}
			t.Shape = append(t.Shape, n)
		}
		if n, fits := bytesize.Mul(t.Shape...); !fits || n > mostElements {
			return nil, fmt.Errorf("%s: a tensor of %s has more than %s elements", k[kindName], text, bytesize.Group(mostElements))
		}
		list = append(list, t)
	}
	return list, nil
}

// evaluate is a size: names and numbers joined from left to right. Worked number:
// r-1*r/2 at r = 256 is 255 · 256 / 2 = 32,640.
func evaluate(text string, sizes map[string]int64) (int64, error) {
	const operators = "+-*/:"
	var value int64
	for operator := byte('+'); text != ""; {
		end := strings.IndexAny(text, operators)
		if end < 0 {
			end = len(text)
		}
		n, has := sizes[text[:end]]
		if number, err := strconv.ParseInt(text[:end], 10, 64); !has && err == nil {
			n, has = number, true
		}
		if !has {
			return 0, fmt.Errorf("needs %s, which is not known", text[:end])
		}
		next, fits := joined(value, operator, n)
		if !fits {
			return 0, fmt.Errorf("is no whole number where %d stands before %c %d", value, operator, n)
		}
		value = next
		if end == len(text) {
			break
		}
		operator, text = text[end], text[end+1:]
	}
	if value < 1 {
		return 0, fmt.Errorf("is %d, expected 1 or more", value)
	}
	return value, nil
}

func joined(a int64, operator byte, b int64) (int64, bool) {
	switch {
	case operator == '+':
		return bytesize.Add(a, b)
	case operator == '-':
		return a - b, a >= b && b >= 0
	case operator == '*':
		return bytesize.Mul(a, b)
	case b < 1 || a < 0:
		return 0, false
	case operator == ':':
		return (a + b - 1) / b, a+b-1 >= 0
	}
	return a / b, a%b == 0
}

// ofModule is what an adapter of the table adds to a layer of [out, in].
func (c *AdapterConfig) ofModule(rank int, t model.Tensor) (shapes [][]int64, frozen []FrozenTensor, err error) {
	sizes := c.counted.options(c.Options)
	if _, has := sizes["r"]; has && rank > 0 {
		sizes["r"] = int64(rank)
	}
	out, in := t.Shape[0], t.Shape[len(t.Shape)-1]
	sizes["out"], sizes["in"], sizes["min"], sizes["max"] = out, in, min(out, in), max(out, in)
	trained, err := c.counted.tensors(kindTrained, sizes)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range trained {
		shapes = append(shapes, t.Shape)
	}
	frozen, err = c.counted.tensors(kindFrozen, sizes)
	return shapes, frozen, err
}

// once is what an adapter of the table holds beside its modules: a bank that they
// share, or a prompt. It stands beside the embedding.
func (c *AdapterConfig) once(base *model.Model, on []Tuned) (Tuned, bool, error) {
	if c.counted == nil || c.counted[kindOnce] == "-" && c.counted[kindOnceFrozen] == "-" {
		return Tuned{}, false, nil
	}
	sizes := c.counted.options(c.Options)
	if _, has := sizes["r"]; has && c.Rank > 0 {
		sizes["r"] = int64(c.Rank)
	}
	sizes["tokens"] = c.Options["tokens"]
	for _, t := range on {
		shape := base.Tensors[t.Tensor].Shape
		out, in := shape[0], shape[len(shape)-1]
		for name, n := range map[string]int64{"maxin": in, "maxout": out, "maxmin": min(in, out), "maxmax": max(in, out)} {
			sizes[name] = max(sizes[name], n)
		}
	}
	made := Tuned{Module: c.counted[kindName], Once: true, Stack: -1, Layer: -1, Tensor: -1}
	for i, t := range base.Tensors {
		switch {
		case t.Role.Module() == model.EmbeddingModule && made.Tensor < 0 && len(t.Shape) == 2:
			made.Tensor, made.Role, sizes["hidden"] = i, t.Role, t.Shape[1]
		case t.Role == model.RoleKey && len(t.Shape) == 2:
			sizes["kv"] = t.Shape[0]
			sizes["layers"] = max(sizes["layers"], int64(t.Layer)+1)
		}
	}
	if made.Tensor < 0 {
		return made, false, fmt.Errorf("an adapter of the kind %s needs a model with an embedding", made.Module)
	}
	trained, err := c.counted.tensors(kindOnce, sizes)
	if err != nil {
		return made, false, err
	}
	for _, t := range trained {
		n, fits := bytesize.Mul(t.Shape...)
		if !fits {
			return made, false, bytesize.ErrOverflow
		}
		made.Parameters += n
		made.Shapes = append(made.Shapes, t.Shape)
	}
	made.Frozen, err = c.counted.tensors(kindOnceFrozen, sizes)
	return made, true, err
}

// uncounted are fields that change what an adapter is in ways that no table counts.
func uncounted() []string {
	return []string{"decompose_both", "block_size_pattern", "n_frequency_pattern", "boft_block_num", "hybrid_r", "non_linear", "init_len_pattern", "use_bdlora", "weight_tying",
		"layer_replication", "trainable_token_indices", "target_parameters", "use_qalora"}
}

// loraKeys are the fields of LoRA's configuration that are read here, or bear no size
// (src/peft/config.py, src/peft/tuners/lora/config.py of release 0.19 of PEFT).
const loraKeys = ` peft_type auto_mapping peft_version base_model_name_or_path revision task_type inference_mode
 r target_modules exclude_modules lora_alpha lora_dropout fan_in_fan_out bias use_rslora modules_to_save init_lora_weights
 layers_to_transform layers_pattern rank_pattern alpha_pattern megatron_config megatron_core loftq_config eva_config corda_config
 lora_ga_config use_dora lora_bias alora_invocation_tokens qalora_group_size runtime_config ensure_weight_tying `

// otherKeys are those that the other kinds have beside these and the sizes of
// adapters.tsv, and that bear none; behind ~ stands the value with which a field bears
// none (src/peft/tuners/*/config.py there).
const otherKeys = ` *_dropout init_* *_seed *_prng_key alpha scaling *_alpha token_dim num_transformer_submodules~1 num_attention_heads num_layers
 target_r tinit tfinal deltaT beta1 beta2 orth_reg_weight total_step decomposition_method delora_lambda lambda_pattern config_A_B~"lora" config_C~"lora" config_D_E~"constant"
 apply_GS feedforward_modules rank_dropout_scale use_effective_conv2d oft_block_size coft eps use_cayley_neumann num_cayley_neumann_terms cayley_neumann_eps
 encoder_num_layers encoder_hidden_size act_fn prompt_tuning_init prompt_tuning_init_text tokenizer_name_or_path tokenizer_kwargs ab_svd_init
 psoft_svd_lowrank_niter psoft_orth~true psoft_mag_a~true psoft_mag_b~true save_projection d_initial sample_at_inference sparse very_sparse group_size
 mask_type token_indices save_indices topk save_only_topk_weights wavelet_family use_idwt `

// strange lists the fields of a configuration that nobody here knows for its kind: they
// may bear on sizes, and over them nothing is known to fit.
func (f *fields) strange(k adapterKind, lora bool) []string {
	var known []string
	if k != nil {
		field, _, _ := strings.Cut(k[kindWhen], "=")
		known = slices.AppendSeq([]string{field}, maps.Keys(k.options(nil)))
	}
	if known = append(known, strings.Fields(loraKeys)...); !lora {
		known = append(known, strings.Fields(otherKeys)...)
	}
	var open []string
	for _, name := range slices.Sorted(maps.Keys(f.object)) {
		at := slices.IndexFunc(known, func(key string) bool { return starred(name, key) })
		neutral, valued := "", false
		if at >= 0 {
			_, neutral, valued = strings.Cut(known[at], "~")
		}
		switch value := string(f.object[name]); {
		case value == "null", at < 0 && f.empty(name), at >= 0 && (!valued || value == neutral):
		case at >= 0:
			open = append(open, f.file+": "+quote(name)+" is "+quote(value)+", and sizes are counted for "+neutral)
		default:
			open = append(open, f.file+": "+quote(name)+": this key is not known here, so nobody can say whether it bears on sizes")
		}
	}
	return open
}

// starred reports a name of a list, where a star stands for any beginning or end.
func starred(name, key string) bool {
	key, _, _ = strings.Cut(key, "~")
	if end, any := strings.CutPrefix(key, "*"); any {
		return strings.HasSuffix(name, end)
	}
	start, any := strings.CutSuffix(key, "*")
	return name == key || any && strings.HasPrefix(name, start)
}

// empty reports a field with which a configuration says nothing.
func (f *fields) empty(name string) bool {
	return slices.Contains([]string{"", "null", "false", "0", "0.0", "{}", "[]"}, string(f.object[name]))
}

// refuseUncounted names a field that no kind of adapter here understands at another
// value than none.
func (f *fields) refuseUncounted() error {
	for _, name := range uncounted() {
		if !f.empty(name) {
			return source.InField(f.file, name, "is %s, which changes what the adapter holds in a way that is not counted", quote(string(f.object[name]))).
				WithHint("name the base model alone, and add the adapter's bytes as a resident")
		}
	}
	return nil
}

// KindName is what the adapter is called here.
func (c *AdapterConfig) KindName() string {
	switch {
	case c.counted != nil:
		return c.counted[kindName]
	case c.Kind != "":
		return c.Kind
	case c.DoRA:
		return "dora"
	}
	return "lora"
}

// TargetNames are the modules that the adapter is on, by name or as a pattern.
func (c *AdapterConfig) TargetNames() []string {
	if c.Targets.pattern != "" {
		return []string{c.Targets.pattern}
	}
	return c.Targets.names
}

// read finds the kind of an adapter, and what its type says in fields of its own.
func (c *AdapterConfig) read(f *fields) error {
	kind := f.text("peft_type")
	counted, known := kindOf(kind, f.object)
	switch {
	case known:
		c.counted = counted
	case kind == "IA3" || kind == "LN_TUNING" || kind == "OFT":
		c.Kind = strings.ToLower(kind)
	case kind != "LORA":
		return source.InField(f.file, "peft_type", "is %s, expected LORA, IA3, LN_TUNING, OFT or one of %s", quote(kind), strings.ToUpper(strings.Join(AdapterKinds(), ", "))).
			WithHint("other kinds of adapters, and other variants of these, are not counted: name the base model alone, and add its bytes as a resident")
	}
	if err := f.refuseUncounted(); err != nil {
		return err
	}
	c.open = f.strange(c.counted, kind == "LORA")
	f.read(&c.Feedforward, "a list of names", "feedforward_modules")
	var dropout float64
	f.read(&dropout, "a number", "lora_dropout", strings.ToLower(kind)+"_dropout")
	c.Dropout = dropout > 0
	c.readOptions(f)
	if c.Kind == lnTuning { // copies of norms are trained whole
		c.Saved, c.Targets.names = append(c.Saved, c.Targets.names...), nil
	}
	return nil
}

// readOptions reads the sizes of the kind, and how many tokens are trained.
func (c *AdapterConfig) readOptions(f *fields) {
	c.Options = map[string]int64{}
	if c.counted != nil {
		for name := range c.counted.options(nil) {
			var n int64
			if f.read(&n, "a whole number", name) {
				c.Options[name] = n
			}
		}
	}
	var tokens []int64
	if c.counted != nil && f.read(&tokens, "a list of tokens", "token_indices") {
		c.Options["tokens"] = int64(len(tokens))
	}
	if block := f.number("oft_block_size"); c.Kind == oft && block > 0 {
		c.Options["oft_block_size"] = block
	}
}

// onModules reports a kind of adapter that is on modules, which must be named.
func (c *AdapterConfig) onModules() bool {
	return c.counted == nil || c.counted[kindTrained] != "-" || c.counted[kindFrozen] != "-"
}
