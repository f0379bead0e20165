package hfmodel

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"

	"floodmark/internal/packed"
	"floodmark/model"
)

// timmModels is a line for each of timm's vision transformers: its name and what
// its function gives the class (oracle/timm_models.py writes it from timm itself).
//
//go:embed timm.tsv.gz
var timmModels []byte

// timmDefaults is what VisionTransformer assumes
// (https://github.com/huggingface/pytorch-image-models/blob/v1.0.9/timm/models/vision_transformer.py).
const timmDefaults = "img_size=224 patch_size=16 in_chans=3 num_classes=1000 global_pool=token embed_dim=768 depth=12 num_heads=12 mlp_ratio=4" +
	" qkv_bias=true class_token=true act_layer=gelu torch_dtype=float32"

// timmKnown is what the class takes and the row understands at one value only, or
// what bears on no size.
const (
	timmExpects = "pos_embed=learn qk_norm=false scale_attn_norm=false scale_mlp_norm=false proj_bias=true final_norm=true" +
		" dynamic_img_size=false dynamic_img_pad=false patch_drop_rate=0 pool_include_prefix=false"
	timmIgnores = "weight_init fix_init strict_img_size"
)

// isTimm reports a configuration of timm: it names one of its functions, and no class
// of transformers.
func isTimm(root *value) bool {
	a := root.get("architecture")
	return a != nil && a.kind == isText && root.get("model_type") == nil && root.get("architectures") == nil
}

// TimmKnown reports a vision transformer of timm by the name of its function.
func TimmKnown(name string) bool {
	_, known := timmModel(name)
	return known
}

// timmModel is what timm's function of a name gives the class.
func timmModel(name string) (map[string]string, bool) {
	text, err := packed.Text(timmModels)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(text) {
		if own, rest, _ := strings.Cut(strings.TrimSpace(line), " "); own == name {
			return fields(rest), true
		}
	}
	return nil, false
}

// timm builds a model of timm: what its configuration says beyond what the function
// gives, and that beyond what the class assumes.
func (b *builder) timm(s section) {
	name := s.text("architecture")
	b.model.Type, b.model.Architectures = model.TimmVision, []string{name}
	own, known := timmModel(name)
	if !known {
		b.doubt("architecture", name, "of timm's models plain vision transformers are described here, and "+shorten(name)+" is none of them")
		return
	}
	own = merged(fields(timmDefaults), own)
	said := objectOf(own)
	if classes := s.object.get("num_classes"); classes != nil {
		said.set("num_classes", classes)
	}
	if args := s.object.get("model_args"); args != nil && args.kind == isObject {
		for i, key := range args.keys {
			if args.items[i].kind != isNull { // as if it were not said
				said.set(key, args.items[i])
			}
		}
	}
	whole := section{ledger: s.ledger, object: said, layer: -1}
	whole.settle(said)
	b.model.Compute = whole.format()
	b.family(whole, timmFamily(), site{})
	for i := range b.model.Stacks {
		b.model.Stacks[i].Manner.Pictures = whole.pictures()
	}
	for i, key := range said.keys {
		if !s.used[key] {
			b.doubt("model_args."+key, said.items[i].String(), "what timm makes of this is not described here")
		}
	}
}

// pictures is how the class reads pictures.
func (s section) pictures() model.PictureEncoder {
	return model.PictureEncoder{Pool: s.text("global_pool"), PooledNorm: s.is("fc_norm"), Apart: s.is("no_embed_class"), DropPath: s.rate("drop_path_rate")}
}

// settle says what follows from the rest: where the last norm stands, whether
// positions are of patches alone, and how wide networks are.
func (s section) settle(said *value) {
	truth := func(on bool) *value { return &value{kind: isBool, text: strconv.FormatBool(on)} }
	if !s.has("fc_norm") {
		said.set("fc_norm", truth(s.text("global_pool") != "token"))
	}
	prefix := s.or("reg_tokens", 0)
	if s.is("class_token") {
		prefix++
	}
	said.set("no_embed_class", truth(s.is("no_embed_class") || prefix == 0))
	said.set("prefix", wholeNumber(prefix))
	s.used["prefix"] = true
	if wide := int64(float64(s.need(keyHidden)) * s.real("mlp_ratio")); wide > 0 {
		if s.says("mlp_layer", "packed") { // both halves of the gate
			wide /= 2
		}
		said.set("intermediate_size", wholeNumber(wide))
	}
}

func wholeNumber(n int64) *value { return &value{kind: isNumber, text: strconv.FormatInt(n, 10)} }

// merged is the values of one table, and those of another over them.
func merged(under, over map[string]string) map[string]string {
	maps.Copy(under, over)
	return under
}

// objectOf is a table as an object of JSON.
func objectOf(table map[string]string) *value {
	object := &value{kind: isObject, index: map[string]int{}}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		v := &value{kind: isText, text: table[key]}
		if v.text == "true" || v.text == "false" {
			v.kind = isBool
		} else if _, err := strconv.ParseFloat(v.text, 64); err == nil {
			v.kind = isNumber
		}
		object.set(key, v)
	}
	return object
}

// set gives an object a member, in place of one of that name.
func (v *value) set(key string, item *value) {
	if i, has := v.index[key]; has {
		v.items[i] = item
		return
	}
	v.index[key] = len(v.items)
	v.keys, v.items = append(v.keys, key), append(v.items, item)
}

// timmFamily is VisionTransformer with blocks of its plain kind, whose parameters
// are in this order: class token, registers, positions, patches, norm, blocks,
// norm, head.
func timmFamily() family {
	k := tower(blockNames+" gate_up=mlp.fc1", []*piece{
		only("class_token", bare(model.RolePatchEmbedding, "cls_token", "1 1 hidden")),
		only("reg_tokens", bare(model.RolePatchEmbedding, "reg_token", "1 reg_tokens hidden")),
		only("!no_embed_class", bare(model.RolePositionEmbedding, "pos_embed", "1 patches+prefix hidden")),
		only("no_embed_class", bare(model.RolePositionEmbedding, "pos_embed", "1 patches hidden")),
		patch("patch_embed.proj", "hidden in_chans patch_size patch_size", "!pre_norm"),
		only("pre_norm", norming(model.RoleNorm, "norm_pre", "hidden", "yes")),
	}, []*piece{
		only("!fc_norm", norming(model.RoleFinalNorm, "norm", "hidden", "yes")),
		only("fc_norm", norming(model.RoleFinalNorm, "fc_norm", "hidden", "yes")),
		only("num_classes", lin(model.RoleClassifier, "head", "num_classes", "hidden", "yes")),
	})
	k.layer = []*piece{only("init_values", bare(model.RoleLayerScale, "ls1.gamma", "hidden")), only("init_values", bare(model.RoleLayerScale, "ls2.gamma", "hidden"))}
	k.attn = attention{bias: "qkv_bias", outBias: "yes"}
	k.ffn.gated = "mlp_layer~packed"
	return family{types: model.TimmVision, expects: timmExpects, ignores: timmIgnores, rename: map[string]string{"image_size": "img_size", keyAct: "act_layer"}, stacks: []*stack{k}}
}
