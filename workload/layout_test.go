package workload

import (
	"strings"
	"testing"

	"floodmark/dtype"
)

func TestParseLayout(t *testing.T) {
	for _, c := range []struct {
		name     string
		want     Precision
		autocast dtype.Format
	}{
		{"bf16-params", Precision{Parameters: dtype.BF16}, dtype.Unknown},
		{"fp32-params-autocast", Precision{Parameters: dtype.F32}, dtype.BF16},
		{"fp32-params-bf16-autocast", Precision{Parameters: dtype.F32}, dtype.BF16},
		{"fp32-params-fp16-autocast", Precision{Parameters: dtype.F32}, dtype.F16},
		{"autocast-fp32-params", Precision{Parameters: dtype.F32}, dtype.BF16},
		{"bf16-params-no-master-8bit-moments", Precision{Parameters: dtype.BF16, MasterCopy: Without(), FirstMoment: EightBit(), SecondMoment: EightBit()}, dtype.Unknown},
		{"bf16-params-fp32-grads-fp32-master-no-moments", Precision{Parameters: dtype.BF16, Gradients: In(dtype.F32), MasterCopy: In(dtype.F32),
			FirstMoment: Without(), SecondMoment: Without()}, dtype.Unknown},
	} {
		got, autocast, err := ParseLayout(c.name)
		if c.want.Layout = c.name; err != nil || got != c.want || autocast != c.autocast {
			t.Errorf("%s: %+v, autocast %v, %v, want %+v, %v", c.name, got, autocast, err, c.want, c.autocast)
		}
	}
	for _, name := range Layouts() {
		if _, _, err := ParseLayout(name); err != nil {
			t.Error(err)
		}
	}
}

// Every word of a layout bears on bytes: one that is not understood is refused, and
// so is one that takes back another.
func TestParseLayoutRefuses(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"mixed", "does not say which format each tensor has"},
		{"", `"" is no word of one`},
		{"bf16", `"bf16" ends it, expected what has it`},
		{"fp32-params-bf16", `"bf16" ends it, expected what has it`},
		{"fp32-params-no", `"no" ends it, expected what has it`},
		{"fp32-bf16-params", `"fp32" is followed by "bf16", expected what has it`},
		{"fp32-params-no-bf16-autocast", `"no" is followed by "bf16", expected what has it`},
		{"bf16-params-fp32-params", "it says params twice"},
		{"bf16-params-fp32-grads-bf16-gradients", "it says gradients twice"},
		{"bf16-params-no-master-fp32-master", "it says master twice"},
		{"bf16-params-no-moments-fp32-moments", "it says moments twice"},
		{"fp32-params-autocast-fp16-autocast", "it says autocast twice"},
		{"fp32-params-no-autocast", `autocast computes in bf16 or fp16, not "no"; without autocast the word is left out`},
		{"fp32-params-8bit-autocast", `autocast computes in bf16 or fp16, not "8bit"`},
		{"fp32-params-fp32-autocast", `autocast computes in bf16 or fp16, not "fp32"`},
		{"fp32-params-fp64-autocast", `autocast computes in bf16 or fp16, not "fp64"`},
		{"params", `parameters are not trained in ""`},
		{"no-params", `parameters are not trained in "no"`},
		{"8bit-params", `parameters are not trained in "8bit"`},
		{"bf16-params-no-grads", `grads need a format, not "no"`},
		{"bf16-params-8bit-grads", `grads need a format, not "8bit"`},
		{"bf16-params-fp32-grads-no-grads", `grads need a format, not "no"`},
		{"bf16-params-grads", `grads need a format, not ""`},
		{"bf16-params-8bit-master", `master need a format, not "8bit"`},
		{"bf16-params-master", `master need a format, not ""`},
		{"bf16-params-", `"" is no word of one`},
		{"fp32-grads", "does not say which format the parameters have"},
	} {
		if _, _, err := ParseLayout(c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
