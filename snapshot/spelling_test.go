package snapshot

import (
	"slices"
	"testing"
)

func TestSpell(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames []string
		want   []string
	}{
		{"an operator in a forward", []string{
			"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, CUstream_st*)",
			"at::detail::empty_cuda(c10::ArrayRef<long>)", "at::TensorIteratorBase::build(at::TensorIteratorConfig&)",
			"at::_ops::mul_Tensor::redispatch(c10::DispatchKeySet, at::Tensor const&)", "at::_ops::mul_Tensor::call(at::Tensor const&)",
			"PyNumber_Multiply", "forward home/project/model.py:10", "_PyEval_EvalFrameDefault", inCall, inMain,
		}, []string{"mul_Tensor", "forward (project/model.py:10)", "<module> (project/train.py:9)"}},
		{"an operator that another makes its tensor with", []string{
			"at::_ops::empty_strided::call(c10::ArrayRef<c10::SymInt>)", "at::_ops::_to_copy::call(at::Tensor const&)",
			"at::_ops::to_dtype::call(at::Tensor const&)",
		}, []string{"_to_copy", "to_dtype"}},
		{"an autograd node", []string{"at::_ops::bmm::call(at::Tensor const&)", inNode, inEngine}, []string{"bmm", "MulBackward0"}},
		{"AccumulateGrad", []string{"at::_ops::new_empty_strided::call(at::Tensor const&)", inAccumul, inEngine}, []string{"AccumulateGrad"}},
		{"a module on its way to the device", []string{inTo, "_apply site-packages/torch/nn/modules/module.py:957", inMain}, []string{"convert (modules/module.py:1357)", "<module> (project/train.py:9)"}},
		{"nothing that a reader can use", []string{"cudaMalloc", "start_thread"}, []string{"cudaMalloc"}},
		{"no frames", nil, nil},
	} {
		p := newProgram()
		stack := p.stack(c.frames...)
		if got := Spell(&p.s.Stacks, stack, MaxFrames); !slices.Equal(got, c.want) {
			t.Errorf("%s is %q, want %q", c.name, got, c.want)
		}
		if got := Spell(&p.s.Stacks, stack, 1); len(got) > 1 {
			t.Errorf("%s has %d frames, want one", c.name, len(got))
		}
	}
}

func TestWhere(t *testing.T) {
	copied, library := "at::_ops::_to_copy::call(at::Tensor const&)", "linear site-packages/torch/nn/functional.py:7"
	for _, c := range []struct {
		name   string
		frames []string
		want   string
	}{
		{"an operator and who called it", []string{copied, "at::_ops::to_dtype::call(at::Tensor const&)", inTo, inMain}, "_to_copy ← convert (modules/module.py:1357) ← <module> (project/train.py:9)"},
		{"the program, however deep", []string{copied, library, inLoss, inBackward, inModel, inMain}, "_to_copy ← linear (nn/functional.py:7) ← cross_entropy (nn/functional.py:3000) ← forward (project/model.py:10)"},
		{"Python alone", []string{inSoftmax, inModel, inCall, inMain}, "softmax (project/model.py:30) ← forward (project/model.py:10)"},
		{"what only hands on", []string{copied, "einsum site-packages/torch/functional.py:373", inModel}, "_to_copy ← forward (project/model.py:10)"},
		{"autograd's thread", []string{copied, inNode, inEngine}, "_to_copy ← MulBackward0"},
		{"no frames", nil, ""},
	} {
		p := newProgram()
		if got := Where(&p.s.Stacks, p.stack(c.frames...)); got != c.want {
			t.Errorf("%s is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestShortFile(t *testing.T) {
	for path, want := range map[string]string{
		"/home/u/project/model.py": "project/model.py", `C:\u\project\model.py`: "project/model.py", "model.py": "model.py", "": "", "/": "/",
	} {
		if got := shortFile(path); got != want {
			t.Errorf("%q is short for %q, want %q", got, path, want)
		}
	}
}
