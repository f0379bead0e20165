package hfmodel

import (
	"errors"
	"slices"
	"strconv"

	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
)

// scheme is how a checkpoint packs its weights: which modules, and in what
// form.
type scheme struct {
	method     string
	rules      []rule   // the first that names a module counts
	kept       []string // modules that stay as they are
	keepHead   bool     // the head over the vocabulary stays, listed or not
	inLayers   bool     // only modules in the layers of decoders are packed
	embeddings bool     // token embeddings are packed too
	routers    bool     // and so are routers
	spares     bool     // what is linearSpared stays
	modules    bool     // only modules are packed: a parameter that holds all experts stays
	cacheScale bool     // keys and values have a stored scale each, for a cache in 8 bits
}

// rule gives modules a form.
type rule struct {
	targets []string // names, patterns or class names; nil is every module
	packing packing
}

// scheme finds how the checkpoint is packed: in the configuration, in the part
// that describes the text model, or in the file beside it.
func (b *builder) scheme(s section, extra []source.Source) (*scheme, error) {
	for _, key := range []string{"quantization_config", "text_config.quantization_config", "compression_config", "quantization"} {
		v, field := s.find(key)
		switch {
		case v == nil:
		case v.kind != isObject:
			b.doubt(field, v.String(), "an object that says how the weights are packed is expected here")
			return b.finishScheme(notKnown("")), nil
		default:
			q := section{ledger: s.ledger, object: v, path: field + ".", layer: -1, parent: &s}
			if twin := s.object.get("quantization"); twin != nil && twin.kind == isObject { // MLX writes its settings twice
				b.sweepQuantisation(section{ledger: s.ledger, object: twin, path: "quantization."})
			}
			return b.declared(q, key == "quantization"), nil
		}
	}
	for _, src := range extra {
		root, err := parse(src)
		if errors.Is(err, source.ErrNotThisFormat) {
			return nil, source.InField(src.Name(), "", "is no JSON object, so how the weights are packed is not known").
				WithHint("fetch it again, or take it away if the weights are not packed")
		}
		if err != nil {
			return nil, err
		}
		b.model.Sources = append(b.model.Sources, model.Source{Name: src.Name(), Kind: "config"})
		beside := section{ledger: &ledger{file: src.Name(), used: map[string]bool{}}, object: root, layer: -1}
		if q, ok := beside.sub("quantization"); ok {
			return b.finishScheme(b.modelopt(q)), beside.fault()
		}
		if beside.has("bits") {
			return b.finishScheme(b.gptq(beside)), beside.fault()
		}
	}
	return nil, nil
}

// fault is the first fault of the section's file.
func (s section) fault() error { return s.err }

// declared reads a quantization_config. One without a method that states a
// group and bits is MLX's.
func (b *builder) declared(q section, mlx bool) *scheme {
	method := q.text("quant_method")
	var sch *scheme
	switch {
	case q.text("quant_algo") != "" && method == "fp8":
		b.doubt(q.path+"quant_algo", q.text("quant_algo"), "two methods that pack one checkpoint together are not known here")
		sch = notKnown(method)
	case q.text("quant_algo") != "" && method != "compressed-tensors":
		sch = b.modelopt(q)
	case method == "bitsandbytes" || q.is("load_in_8bit") || q.is("load_in_4bit"):
		sch = b.bitsandbytes(q)
	case method == "gptq":
		sch = b.gptq(q)
	case method == "awq":
		sch = b.awq(q)
	case method == "fp8" || method == "fbgemm_fp8":
		sch = b.fp8(q)
	case method == "compressed-tensors":
		sch = b.compressed(q)
	case method == "mxfp4":
		sch = b.mxfp4(q)
	case method == "hqq":
		sch = b.hqq(q)
	case method == "torchao":
		sch = b.torchao(q)
	case method == "quanto":
		sch = b.quanto(q)
	case method == "" && (mlx || q.has("group_size")):
		sch = b.mlx(q)
	default:
		b.doubt(q.path+"quant_method", method, "how this method packs weights is not known here: "+shorten(method))
		sch = notKnown(method)
	}
	b.sweepQuantisation(q)
	return b.finishScheme(sch)
}

// notKnown packs every linear layer in a way that is not known.
func notKnown(method string) *scheme {
	return &scheme{method: method, keepHead: true, rules: []rule{{packing: packing{form: unknownForm}}}}
}

// words reads the bits of an element and the size of a group, of packing into
// 32-bit words. What no library packs is not known.
func (b *builder) words(q section, p packing, bits, group string) packing {
	n, stated := q.number(bits)
	v, field := q.find(group)
	switch {
	case !stated:
		b.doubt(q.path+q.spellings(bits)[0], "absent", "how many bits an element has is not stated; 4 are assumed")
	case n == 2, n == 3, n == 4, n == 8:
		p.bits = n
	default:
		b.doubt(q.path+q.spellings(bits)[0], strconv.FormatInt(n, 10), "elements of 2, 3, 4 or 8 bits are packed")
		p.form = unknownForm
	}
	if p.group = positive(q.real(group)); v == nil || p.group == 0 && v.text == "0" {
		b.doubt(orElse(field, q.path+q.spellings(group)[0]), "absent or 0", "how many elements share a scale is not stated")
	}
	return p
}

// square is the two sides of the blocks that share a scale; false where the key
// is absent, or with a doubt where it is no such pair.
func (b *builder) square(q section, key string) (sides [2]int64, is bool) {
	v, field := q.find(key)
	if v == nil {
		return sides, false
	}
	if v.kind == isList && len(v.items) == 2 {
		for i, item := range v.items {
			if n, err := strconv.ParseInt(item.text, 10, 64); err == nil && item.kind == isNumber && n <= maxDimension {
				sides[i] = n
			}
		}
	}
	if sides[0] <= 0 || sides[1] <= 0 {
		b.doubt(field, v.String(), "two numbers of 1 or more are expected, the sides of the blocks that share a scale")
		return [2]int64{}, false
	}
	return sides, true
}

// finishScheme notes the scheme in the model.
func (b *builder) finishScheme(sch *scheme) *scheme {
	q := &model.Quantisation{Method: sch.method, Kept: sch.kept}
	if len(sch.rules) > 0 {
		p := sch.rules[0].packing
		q.Bits, q.Group, q.Ordered = int(p.bits), int(p.group), p.form == gptqWords && p.ordered && p.group > 0
	}
	b.model.Quantised = q
	return sch
}

// sweepQuantisation accounts for every key of the object: what its reader
// needs it has read, and the rest describes how the packing was found.
func (b *builder) sweepQuantisation(q section) {
	var mark func(v *value, path string)
	mark = func(v *value, path string) {
		for i, key := range v.keys {
			b.used[path+key] = true
			mark(v.items[i], path+key+".")
		}
	}
	mark(q.object, q.path)
}

func (b *builder) bitsandbytes(q section) *scheme {
	p := packing{form: int8Rows, bits: 8}
	if q.is("load_in_4bit|_load_in_4bit") {
		p = packing{form: fourBit, bits: 4, group: 64, kind: q.text("bnb_4bit_quant_type"), double: q.is("bnb_4bit_use_double_quant")}
		if p.kind == "" {
			p.kind = "fp4"
		}
	}
	return &scheme{method: "bitsandbytes", keepHead: true, routers: true, modules: true, kept: q.texts("llm_int8_skip_modules"), rules: []rule{{packing: p}}}
}

// gptq reads GPTQ's settings. AutoGPTQ, which writes model_file_base_name,
// gives every packed layer a bias, of zeros where the layer had none
// (auto_gptq/modeling/_utils.py, make_quant).
func (b *builder) gptq(q section) *scheme {
	p := b.words(q, packing{form: gptqWords, bits: 4, scale: dtype.F16, ordered: q.is("desc_act"),
		forceBias: slices.Contains(q.object.keys, "model_file_base_name")}, "bits", "group_size")
	return &scheme{method: "gptq", inLayers: true, keepHead: !q.is("lm_head"), kept: q.texts("modules_to_not_convert"), rules: []rule{{packing: p}}}
}

// positive is a size that a file may state as −1 for none.
func positive(f float64) int64 { return int64(min(max(f, 0), maxDimension)) }

// fp8 reads the 8-bit floating point of DeepSeek-V3 and of transformers: a
// scale for each block, or one for each tensor.
func (b *builder) fp8(q section) *scheme {
	p := packing{form: floatScaled, bits: 8, strategy: "tensor", scale: dtype.F32, suffix: "weight_scale_inv", staticInput: q.text("activation_scheme") == "static"}
	if sides, is := b.square(q, "weight_block_size"); is {
		p.strategy, p.block = "block", sides
	}
	rules := []rule{{packing: p}}
	if q.parent != nil && q.parent.text("expert_dtype") == "fp4" {
		p.scale, p.suffix = dtype.F8E8M0, "scale"
		experts := packing{form: mxPacked, bits: 4, group: 32, scale: dtype.F8E8M0, suffix: "scale"}
		rules = []rule{{targets: []string{"Experts"}, packing: experts}, {packing: p}}
	}
	if q.text("quant_method") == "fbgemm_fp8" {
		p.strategy, p.suffix = "channel", "weight_scale"
		rules = []rule{{packing: p}}
	}
	// DeepSeek's conversion leaves what joins the prediction layers, and the
	// weights of the indexer's heads, in 16 bits.
	return &scheme{method: q.text("quant_method"), keepHead: true, spares: true, kept: q.texts("modules_to_not_convert|ignored_layers"), rules: rules}
}

func (b *builder) mxfp4(q section) *scheme {
	b.assume(dtype.BF16)
	p := packing{form: mxBlocks, bits: 4, group: 32}
	return &scheme{method: "mxfp4", keepHead: true, kept: q.texts("modules_to_not_convert"), rules: []rule{{targets: []string{"Experts"}, packing: p}}}
}

// assume gives a format to a model whose configuration declares none and whose
// packing exists beside one only.
func (b *builder) assume(f dtype.Format) {
	if b.model.Compute != dtype.Unknown {
		return
	}
	b.model.Compute = f
	for i := range b.drafts {
		if b.drafts[i].Stored == dtype.Unknown {
			b.drafts[i].Stored = f
		}
	}
}
