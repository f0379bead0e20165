package model

// StoresTransposed reports a stack whose linear layers are stored [in, out], as
// those of GPT-2 are (Conv1D of transformers,
// https://github.com/huggingface/transformers/blob/v5.0.0/src/transformers/pytorch_utils.py):
// what widens the stream has the stream's width first.
func (m *Model) StoresTransposed(stack int32) bool {
	if stack < 0 || int(stack) >= len(m.Stacks) {
		return false
	}
	width := int64(m.Stacks[stack].Width)
	for _, t := range m.Tensors {
		if t.Stack == stack && t.Role == RoleUp && len(t.Shape) == 2 {
			return t.Shape[0] == width && t.Shape[1] != width
		}
	}
	return false
}

// Linear is the shape of a tensor as a linear layer has it, [out, in] however it
// is stored. Tensors that are no matrix of a layer keep theirs.
func (m *Model) Linear(t Tensor) []int64 {
	if len(t.Shape) == 2 && t.Layer >= 0 && t.Role.isLinear() && m.StoresTransposed(t.Stack) {
		return []int64{t.Shape[1], t.Shape[0]}
	}
	return t.Shape
}
