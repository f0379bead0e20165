package hfmodel

import (
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/source"
	"floodmark/model"
)

// Read reads the model that a config.json describes. Files that lie beside it
// and say how its weights are packed, hf_quant_config.json or
// quantize_config.json, come as extra. [source.ErrNotThisFormat] says that the
// text is no model's configuration; a malformed one is a [source.FormatError].
// What is not understood is in the model's Unknown, and is not an error.
func Read(src source.Source, extra ...source.Source) (*model.Model, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	// The key _name_or_path is no name: it is what the weights were read from
	// before they were changed, or a path on somebody's machine.
	l := &ledger{file: src.Name(), used: map[string]bool{}}
	s := section{ledger: l, object: root, layer: -1}
	if !isConfiguration(s) {
		return nil, source.ErrNotThisFormat
	}
	b := &builder{ledger: l, embedding: model.NotTied, model: &model.Model{
		Architectures: s.texts("architectures"), Type: s.text("model_type"), FormatOrigin: account.Assumed,
		Sources: []model.Source{{Name: src.Name(), Kind: "config"}},
	}}
	if class := s.text("_class_name"); len(b.model.Architectures) == 0 && class != "" {
		b.model.Architectures = []string{class} // diffusers' word for it
	}
	if isTimm(root) {
		b.timm(s)
	} else {
		b.build(s)
	}
	if len(b.drafts) > 0 {
		sch, err := b.scheme(s, extra)
		if err != nil {
			return nil, err
		}
		if sch != nil {
			b.quantise(sch)
		}
	}
	if !isTimm(root) {
		b.leftOver(s)
	}
	if l.err != nil {
		return nil, l.err
	}
	b.finish()
	return b.model, nil
}

func parse(src source.Source) (*value, error) {
	data, err := source.ReadAll(src, maxBytes)
	if err != nil {
		return nil, err
	}
	return parseJSON(src.Name(), data)
}

// isConfiguration reports whether an object describes a model at all.
func isConfiguration(s section) bool {
	for _, key := range []string{"model_type", "architectures", "_class_name"} {
		if s.object.get(key) != nil {
			return true
		}
	}
	return s.has(keyHidden) && s.has(keyLayers) || isTimm(s.object)
}

func (b *builder) build(s section) {
	architecture := ""
	if len(b.model.Architectures) > 0 {
		architecture = b.model.Architectures[0]
	}
	f, ok := familyOf(s, b.model.Type, architecture)
	if !ok {
		kind := strings.TrimSpace(b.model.Type + " " + architecture)
		b.doubt("model_type", kind, "no family of that name is known here: "+shorten(kind))
		return
	}
	if architecture != "" && !classKnown(architecture) {
		b.doubt("architectures", architecture, "the class "+shorten(architecture)+" is not known here; the sizes are those of its model_type, "+b.model.Type)
	}
	if other, known := familyOf(s, "", architecture); known && b.model.Type != "" && other.types != f.types && !listed(f.classes, classOf(architecture)) {
		b.remark("type_and_class", "model_type says %s and architectures says %s, which is another family; the sizes follow model_type", b.model.Type, shorten(architecture))
	}
	if b.model.Compute = s.format(); b.model.Compute == dtype.Unknown && f.converts != "" {
		b.model.Compute, _ = dtype.Parse(f.converts)
	}
	_, use := stem(architecture)
	b.family(s, f, site{use: use})
}

// family builds every stack and part of a row over one section.
func (b *builder) family(s section, f family, at site) {
	s.defaults, s.rename = fields(f.defaults), f.rename
	at.base = f.base
	if f.unsaid != "" {
		s.doubt(s.path+"num_nextn_predict_layers", "absent", f.unsaid)
	}
	if f.wrap != "" && at.use != "Model" && at.prefix == "" {
		at.prefix, at.topHead = f.wrap, true
	}
	s.expect(f.expects)
	for key := range strings.FieldsSeq(f.ignores) {
		s.has(key)
	}
	e := sections{"": s}
	for _, p := range f.parts {
		if p.when == "" || s.is(p.when) {
			e[p.name] = b.part(s, p, at, e)
		}
	}
	at.parts = e
	for _, k := range f.stacks {
		b.stackUp(s, k, at)
	}
	b.outside(at).pieces(e, f.around)
}

// part builds the model of a nested object, and returns it as expressions
// read it.
func (b *builder) part(s section, p *part, at site, others sections) section {
	own, stated := s.sub(p.key)
	inlined := !stated && p.inline
	if inlined {
		own = s
	}
	if !stated && p.optional {
		return own
	}
	kind := own.text("model_type")
	f, ok := rowOf(own, p.of)
	if !p.fixed && !inlined && stated {
		class := strings.Join(own.texts("architectures"), " ")
		named, known := familyOf(own, kind, class)
		if known {
			f, ok = named, true
		} else if kind+class != "" {
			ok = false
		}
	}
	if !ok || !stated && !inlined && !p.built {
		b.doubt(s.path+p.key, kind, "the sizes of this part are not stated, or its kind is not known here: "+orElse(shorten(kind), "none is named"))
		return own
	}
	f.defaults += " " + p.defaults
	use := p.use
	if use == "" {
		use = at.use
	}
	own.parent = &s
	inner := site{prefix: at.prefix + p.prefix, use: use, untied: p.untied, topHead: p.bare, fewer: p.fewer, parts: others, axes: p.axes, alone: p.alone}
	if p.bare {
		inner.strip = "model."
	}
	b.family(own, f, inner)
	own.defaults, own.rename = fields(f.defaults), f.rename
	return own
}

// expect accounts for keys that have the one value at which the row is right.
func (s section) expect(list string) {
	for key, want := range fields(list) {
		if v := s.member(key); v != nil && v.text == want {
			s.used[s.path+key] = true
		}
	}
}

// format is the element format that the configuration declares, at the top or
// in the part that describes the text model.
func (s section) format() dtype.Format {
	name := s.text(keyDType + "|text_config.torch_dtype|text_config.dtype|llm_config.torch_dtype|language_config.torch_dtype" +
		"|thinker_config.torch_dtype|thinker_config.dtype|llm_cfg.torch_dtype")
	for _, old := range []string{"bf16", "fp16", "fp32"} {
		if s.is(flag(old)) && name == "" {
			name = strings.Replace(old, "bf16", "bfloat16", 1)
		}
	}
	if name == "" {
		return dtype.Unknown // which finish notes, unless the quantisation tells
	}
	f, ok := dtype.Parse(name)
	if !ok {
		s.doubt(s.path+"torch_dtype", name, "this element format is not known here")
	}
	s.twice(f)
	return f
}

// twice notices a file that declares its format under the old key and the new
// one, and differently: which counts depends on the version that loads it.
func (s section) twice(f dtype.Format) {
	old, new := s.object.get("torch_dtype"), s.object.get("dtype")
	if old == nil || new == nil || old.kind != isText || new.kind != isText {
		return
	}
	if other, ok := dtype.Parse(new.text); ok && other != f {
		s.remark("dtype_twice", "torch_dtype says %s and dtype says %s; transformers 5 takes dtype, older versions torch_dtype, and so do the figures here", f, other)
	}
}

// finish moves the drafts into the model.
func (b *builder) finish() {
	b.model.Tensors = make([]model.Tensor, len(b.drafts))
	for i, d := range b.drafts {
		b.model.Tensors[i] = d.Tensor
	}
	b.model.Unknown = b.unknown
	b.model.Warnings = append(b.model.Warnings, b.odd...)
	if len(b.assumed) > 0 {
		b.model.Warnings = append(b.model.Warnings, account.Warning{Code: "class_defaults",
			Text: "the configuration does not give " + strings.Join(b.assumed, ", ") + "; the defaults of its class are taken"})
	}
	if len(b.drafts) > 0 && b.model.Compute == dtype.Unknown {
		b.model.Unknown = append(b.model.Unknown, model.Unknown{Field: "torch_dtype", Value: "absent", FormatOnly: true,
			Why: "the configuration does not say in which format the weights are stored; --weights-format states it"})
	}
}
