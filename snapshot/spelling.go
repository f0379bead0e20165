package snapshot

import (
	"strconv"
	"strings"

	"floodmark/timeline"
)

// Spell writes the frames of a stack that a reader can use, innermost first: the
// operator, the autograd node, and the Python frames with the last two parts of
// their file. Left out is what every stack has in it: the recording of the
// stack, the allocator, what makes an empty tensor, dispatch, the interpreter,
// and the calls by which a module reaches its forward. A stack of nothing else
// keeps its innermost frame. At most max frames are written.
func Spell(table *timeline.StackTable, stack uint32, max int) []string {
	var list []string
	for _, i := range table.Stack(stack) {
		text := spellFrame(table, i)
		if text == "" || len(list) > 0 && list[len(list)-1] == text {
			continue
		}
		if len(list) == max {
			break
		}
		list = append(list, text)
	}
	if frames := table.Stack(stack); len(list) == 0 && len(frames) > 0 && max > 0 {
		list = append(list, table.Function(frames[0]))
	}
	return list
}

// shownFrames is how many Python frames a stack in one line has.
const shownFrames = 2

// Where writes a stack in one line: its innermost spelled frame, which is the
// operator where C++ was recorded, and the innermost Python frames, of which one
// is the innermost of the program itself. Empty for a stack without frames.
func Where(table *timeline.StackTable, stack uint32) string {
	shown := Spell(table, stack, 1)
	python, own := 0, false
	for _, i := range table.Stack(stack) {
		text, mine := spellFrame(table, i), !library(table.File(i))
		if text == "" || !strings.HasSuffix(table.File(i), ".py") || forwards(table.File(i)) {
			continue
		}
		if python >= shownFrames && (own || !mine) {
			continue
		}
		python, own = python+1, own || mine
		if text != shown[len(shown)-1] {
			shown = append(shown, text)
		}
		if own && python >= shownFrames {
			break
		}
	}
	if python == 0 {
		shown = Spell(table, stack, 1+shownFrames)
	}
	return strings.Join(shown, " ← ")
}

// forwards reports a file whose functions only hand their arguments to the
// operator that is shown already.
func forwards(file string) bool {
	return strings.HasSuffix(file, "torch/functional.py") || strings.Contains(file, "einops/")
}

// spellFrame is a frame in one line; empty when it is left out.
func spellFrame(table *timeline.StackTable, frame uint32) string {
	function, file := table.Function(frame), table.File(frame)
	if !strings.HasSuffix(file, ".py") {
		if op := operator(function); op != "" {
			return op
		}
		return node(function)
	}
	if isCallPlumbing(function, file) {
		return ""
	}
	return function + " (" + shortFile(file) + ":" + strconv.Itoa(table.Line(frame)) + ")"
}

// operator is the name of a PyTorch operator that a frame calls: "bmm" of
// at::_ops::bmm::call. Those that only make the tensor of another are left out.
func operator(function string) string {
	rest, ok := strings.CutPrefix(function, "at::_ops::")
	if !ok {
		return ""
	}
	name, call, _ := strings.Cut(rest, "::")
	if !strings.HasPrefix(call, "call(") && call != "call" {
		return ""
	}
	for _, plumbing := range []string{"empty", "new_empty", "resize_"} {
		if strings.HasPrefix(name, plumbing) {
			return ""
		}
	}
	return name
}

// node is the name of an autograd node that a frame runs: "MulBackward0".
func node(function string) string {
	path, _, ok := strings.Cut(function, "::apply(")
	if !ok || !strings.HasPrefix(path, "torch::autograd::") {
		return ""
	}
	name := path[strings.LastIndex(path, "::")+2:]
	if strings.HasPrefix(path, "torch::autograd::generated::") || name == "AccumulateGrad" || name == "CopySlices" {
		return name
	}
	return ""
}

// isCallPlumbing names Python frames that stand between a caller and what it
// calls in every stack.
func isCallPlumbing(function, file string) bool {
	switch function {
	case "_call_impl", "_wrapped_call_impl", "_apply":
		return strings.HasSuffix(file, "torch/nn/modules/module.py")
	case "decorate_context":
		return strings.HasSuffix(file, "torch/utils/_contextlib.py")
	case "_fn":
		return strings.HasSuffix(file, "torch/_dynamo/eval_frame.py")
	case "wrapper", "profile_hook_step":
		return strings.HasSuffix(file, "torch/optim/optimizer.py")
	}
	return false
}

// shortFile keeps the last two parts of a path: enough to recognise a module.
func shortFile(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return path
	}
	return path[strings.LastIndexByte(path[:cut], '/')+1:]
}

// library reports whether a file belongs to an installed package and not to the
// program itself.
func library(file string) bool {
	return strings.Contains(file, "site-packages/") || strings.Contains(file, "dist-packages/") ||
		strings.HasPrefix(file, "torch/") || strings.HasPrefix(file, "<")
}
