package hfmodel

import "floodmark/model"

// biasOf is the role of the bias beside a weight of that role.
func biasOf(r model.Role) model.Role {
	switch r {
	case model.RoleHead:
		return model.RoleHeadBias
	case model.RoleNorm, model.RoleFinalNorm:
		return model.RoleNormBias
	case model.RoleQuery:
		return model.RoleQueryBias
	case model.RoleKey:
		return model.RoleKeyBias
	case model.RoleValue:
		return model.RoleValueBias
	case model.RoleQKV:
		return model.RoleQKVBias
	case model.RoleAttentionOutput:
		return model.RoleAttentionOutputBias
	case model.RoleUp:
		return model.RoleUpBias
	case model.RoleDown:
		return model.RoleDownBias
	}
	return r
}

// The short forms in which rows write pieces.

func lin(role model.Role, name, out, in string, bias flag) *piece {
	return &piece{name: name, role: role, class: linear, shape: out + " " + in, bias: bias}
}

func project(name, out, in string, bias flag) *piece {
	return lin(model.RoleProjector, name, out, in, bias)
}

func table(role model.Role, name, rows, width string) *piece {
	return &piece{name: name, role: role, class: embedding, shape: rows + " " + width}
}

func bare(role model.Role, name, shape string) *piece {
	return &piece{name: name, role: role, class: parameter, shape: shape, bare: true}
}

func patch(name, shape string, bias flag) *piece {
	return &piece{name: name, role: model.RolePatchEmbedding, class: convolution, shape: shape, bias: bias}
}

func norming(role model.Role, name, width string, bias flag) *piece {
	return &piece{name: name, role: role, class: parameter, shape: width, bias: bias}
}

// only makes a piece depend on a switch.
func only(when flag, p *piece) *piece {
	p.when = when
	return p
}

// rotaryBuffer is the table of inverse frequencies, in 32 bits, that older
// code saves with every layer.
func rotaryBuffer(name, shape string) *piece {
	p := bare(model.RoleBuffer, name, shape)
	p.f32 = true
	return p
}
