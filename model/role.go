package model

import "floodmark/account"

// Role says what a tensor is for. How a rank shards a tensor, which optimizer
// holds state for it and what quantisation spares follow from the role.
type Role uint8

const (
	RoleOther Role = iota

	// Outside the layers.
	RoleTokenEmbedding
	RolePositionEmbedding
	RoleTypeEmbedding // token types of BERT-like models
	RolePerLayerEmbedding
	RoleHead // output head over the vocabulary
	RoleHeadBias
	RoleFinalNorm
	RoleClassifier // heads of another kind: pooler, score, classifier

	// Attention.
	RoleQuery
	RoleKey
	RoleValue
	RoleQKV // fused query, key and value
	RoleAttentionOutput
	RoleQueryBias
	RoleKeyBias
	RoleValueBias
	RoleQKVBias
	RoleAttentionOutputBias
	RoleQueryNorm
	RoleKeyNorm
	RoleSinks
	RoleAttentionGate
	RoleRelativeBias // learned relative positions of T5-like models

	// Latent attention.
	RoleQueryDown
	RoleQueryUp
	RoleKVDown // also makes the rotary part of the key
	RoleKVUp
	RoleLatentNorm
	RoleIndexer

	// Other mixers.
	RoleMixerIn
	RoleMixerOut
	RoleMixerConv
	RoleMixerState // A_log, D, dt_bias and their like
	RoleMixerNorm
	RoleMixerGate

	// Feed-forward.
	RoleGate
	RoleUp
	RoleGateUp // fused gate and up
	RoleDown
	RoleGateBias
	RoleUpBias
	RoleGateUpBias
	RoleDownBias
	RoleRouter
	RoleRouterBias
	RoleExpertGate
	RoleExpertUp
	RoleExpertGateUp
	RoleExpertDown
	RoleExpertGateUpBias
	RoleExpertDownBias
	RoleSharedExpertGate // gate matrix of the shared experts
	RoleSharedExpertUp
	RoleSharedExpertDown
	RoleSharedExpertMix // scalar gate that weighs the shared experts

	// Norms over the residual stream.
	RoleNorm
	RoleNormBias
	RoleLayerScale // what a layer multiplies its parts by before they join the stream

	// Towers.
	RolePatchEmbedding
	RoleProjector

	// Not parameters.
	RoleBuffer    // inv_freq, masks, counters
	RoleScale     // quantisation scales
	RoleZeroPoint // quantisation zero points
	RoleQuantised // other quantisation metadata: code tables, shapes, indexes
	roleCount
)

// Category is the account's category for the bytes of such a tensor.
func (r Role) Category() account.Category {
	switch r {
	case RoleBuffer:
		return account.CategoryBuffer
	case RoleScale, RoleZeroPoint, RoleQuantised:
		return account.CategoryQuantisationMetadata
	}
	return account.CategoryParameter
}
