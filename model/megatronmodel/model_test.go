package megatronmodel

import (
	"maps"
	"strings"
	"testing"

	"floodmark/model"
)

func total(t *testing.T, a Arguments) int64 {
	t.Helper()
	m, err := New("test", a)
	if err != nil {
		t.Fatal(err)
	}
	n, exact := m.Parameters().IsExact()
	if !exact {
		t.Fatalf("%v", m.Parameters())
	}
	return n
}

// Parameters as Megatron-LM's arguments give them, before padding: hand-counted, and
// the published sizes of two families.
func TestParameters(t *testing.T) {
	small := Arguments{"num-layers": "12", "hidden-size": "512", "num-attention-heads": "8", "max-position-embeddings": "1024"}
	llama := Arguments{
		"num-layers": "80", "hidden-size": "8192", "ffn-hidden-size": "28672", "num-attention-heads": "64", "group-query-attention": "true", "num-query-groups": "8",
		"vocab-size": "128256", "swiglu": "true", "disable-bias-linear": "true", "normalization": "RMSNorm", "position-embedding-type": "rope", "untie-embeddings-and-output-weights": "true",
	}
	mixtral := Arguments{
		"num-layers": "32", "hidden-size": "4096", "ffn-hidden-size": "14336", "num-attention-heads": "32", "num-query-groups": "8", "vocab-size": "32000", "num-experts": "8", "moe-router-topk": "2",
		"swiglu": "true", "disable-bias-linear": "true", "normalization": "RMSNorm", "position-embedding-type": "rope", "untie-embeddings-and-output-weights": "true",
	}
	oss := Arguments{
		"num-layers": "24", "hidden-size": "2880", "ffn-hidden-size": "2880", "num-attention-heads": "64", "kv-channels": "64", "group-query-attention": "true", "num-query-groups": "8",
		"vocab-size": "201088", "num-experts": "32", "moe-router-topk": "4", "quick-geglu": "true", "activation-func-clamp-value": "7.0", "softmax-type": "learnable",
		"window-size": "127,0", "window-attn-skip-freq": "2", "normalization": "RMSNorm", "position-embedding-type": "yarn", "untie-embeddings-and-output-weights": "true",
	}
	larger := maps.Clone(oss)
	larger["num-layers"], larger["num-experts"] = "36", "128"
	for _, c := range []struct {
		name string
		a    Arguments
		want int64
	}{
		{"gpt-oss 20B", oss, 20_914_757_184},
		{"gpt-oss 120B", larger, 116_829_156_672},
		{"12 layers of 512", small, 12*3_152_384 + 50257*512 + 1024*512 + 1024},
		{"Llama 3 70B", llama, 70_553_706_496},
		{"Mixtral 8x7B", mixtral, 46_702_792_704},
	} {
		if got := total(t, c.a); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The models of other scripts: BERT of 24 layers of 1,024 with a vocabulary of 29,056
// is BERT-large's layers with mcore's ends, T5's decoder attends twice.
func TestOtherModels(t *testing.T) {
	const layer, h = 12*1024*1024 + 13*1024, 1024
	a := Arguments{"builds": "bert", "num-layers": "24", "hidden-size": "1024", "num-attention-heads": "16", "max-position-embeddings": "512", "vocab-size": "29056"}
	if got, want := total(t, a), int64(24*layer+29056*h+512*h+2*h+2*h+29056+2*(h*h+h)+2*h+2*h+2); got != want {
		t.Errorf("BERT: %d, want %d", got, want)
	}
	a = Arguments{"builds": "t5", "encoder-num-layers": "12", "decoder-num-layers": "12", "hidden-size": "768", "num-attention-heads": "12", "max-position-embeddings": "512", "vocab-size": "29096"}
	const encoder, cross = 12*768*768 + 13*768, 4*768*768 + 6*768
	if got, want := total(t, a), int64(24*encoder+12*cross+29096*768+512*768+4*768+29096); got != want {
		t.Errorf("T5: %d, want %d", got, want)
	}
	delete(a, "vocab-size")
	if m, err := New("test", a); err != nil || m.Vocab != 1 || len(m.Unknown) != 1 || m.Unknown[0].Field != "--vocab-file" {
		t.Errorf("a vocabulary that nobody says: %v, %v", m, err)
	}
	m, err := New("test", Arguments{"builds": "mamba", "num-layers": "4"})
	if err != nil || len(m.Stacks[0].Layers) != 4 || len(m.Unknown) == 0 {
		t.Errorf("a script that nobody knows: %v, %v", m, err)
	}
}

// The first of so many layers are dense where a frequency says so.
func TestFrequency(t *testing.T) {
	for text, want := range map[string]string{"1": "1111", "2": "1010", "[0]*1+[1]*3": "0111", "([0]*2+[1]*2)": "0011", "[0,1]*2": "0101"} {
		r := &reader{a: Arguments{"moe-layer-freq": text}}
		got := ""
		for _, e := range r.expertLayers(4) {
			got += map[bool]string{true: "1", false: "0"}[e]
		}
		if got != want || r.err != nil {
			t.Errorf("%s: %s, want %s (%v)", text, got, want, r.err)
		}
	}
}

// Windows are of all layers, or not of the last of each so many, or of those that a list
// names; what a window keeps is what lies before a position, and itself.
func TestWindows(t *testing.T) {
	for _, c := range []struct{ size, skip, want string }{
		{"", "", "0000"}, {"127,0", "", "1111"}, {"(127, 0)", "2", "1010"}, {"127,0", "[1]*3+[0]", "1110"}, {"-1,0", "2", "0000"},
	} {
		a := Arguments{"window-size": c.size, "window-attn-skip-freq": c.skip}
		if c.size == "" {
			a = Arguments{}
		}
		r := &reader{a: a}
		positions, list := r.window(4)
		got := ""
		for _, on := range list {
			got += map[bool]string{true: "1", false: "0"}[on]
		}
		if got != c.want || r.err != nil || strings.Contains(got, "1") && positions != 128 {
			t.Errorf("%+v: %s of %d (%v)", c, got, positions, r.err)
		}
	}
}

// What is wrong is named, and what is not understood stays unknown.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		a    Arguments
		want string
	}{
		{Arguments{}, "--hidden-size"},
		{Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "many"}, "--num-layers"},
		{Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "2"}, "--max-position-embeddings"},
		{Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "2", "position-embedding-type": "rope", "num-experts": "4", "disable-bias-linear": "true", "moe-layer-freq": "[0]*9"}, "--moe-layer-freq"},
		{Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "2", "position-embedding-type": "rope", "window-size": "wide"}, "--window-size"},
		{Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "2", "position-embedding-type": "rope", "num-experts": "4", "moe-shared-expert-intermediate-size": "64"}, "no shared experts beside biases"},
	} {
		if _, err := New("test", c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.a, err, c.want)
		}
	}
	m, err := New("test", Arguments{"hidden-size": "512", "num-attention-heads": "8", "num-layers": "2", "position-embedding-type": "rope", "mtp-num-layers": "1"})
	if err != nil || len(m.Unknown) != 1 || m.Unknown[0].Field != "--mtp-num-layers" {
		t.Errorf("%v, %v", m, err)
	}
}

// No arguments panic, or make a model that disagrees with itself.
func FuzzNew(f *testing.F) {
	f.Add("hidden-size=512 num-attention-heads=8 num-layers=2 position-embedding-type=rope")
	f.Add("hidden-size=512 num-attention-heads=8 num-layers=4 position-embedding-type=yarn num-experts=4 quick-geglu softmax-type=learnable window-size=127,0 window-attn-skip-freq=[1,0]*2")
	f.Add("builds=t5 hidden-size=512 num-attention-heads=8 num-layers=2 vocab-size=128 position-embedding-type=rope")
	f.Add("builds=bert hidden-size=512 num-attention-heads=8 num-layers=2 max-position-embeddings=64")
	f.Add("hidden-size=512 num-attention-heads=8 num-layers=4 position-embedding-type=rope num-experts=4 disable-bias-linear moe-layer-freq=[0]*1+[1]*3")
	f.Fuzz(func(t *testing.T, text string) {
		a := Arguments{}
		for _, word := range strings.Fields(text) {
			name, value, _ := strings.Cut(word, "=")
			a[name] = value
		}
		if len(a["num-layers"])+len(a["num-experts"])+len(a["encoder-num-layers"])+len(a["decoder-num-layers"]) > 6 {
			return // large models take long to list
		}
		m, err := New("fuzz", a)
		if err != nil {
			return
		}
		for _, x := range m.Tensors {
			if x.Layer >= 0 && int(x.Layer) >= len(m.Stacks[x.Stack].Layers) || x.Role == model.RoleOther {
				t.Errorf("%+v", x)
			}
		}
	})
}
