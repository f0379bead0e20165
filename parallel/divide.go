package parallel

import (
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/model"
	"floodmark/workload"
)

// divider divides one model over one mesh.
type divider struct {
	m     *model.Model
	mesh  workload.Mesh
	rules Rules
	main  int32

	share  shares
	counts []int // layers of the main stack by piece, in the order of the model
	ends   []int // of each piece, one past its last layer
}

// split divides the layers, and refuses the model when one of them breaks a
// rule.
func (d *divider) split() error {
	d.share = d.rules.shares(d.mesh)
	layers := 0
	if d.main >= 0 {
		layers = len(d.m.Stacks[d.main].Layers)
	}
	d.counts = []int{layers}
	if d.mesh.PipelineParallel > 1 {
		var err error
		if d.counts, err = d.rules.stages(layers, d.mesh.PipelineParallel*max(1, d.rules.Chunks)); err != nil {
			return err
		}
	}
	end := 0
	for _, n := range d.counts {
		end += n
		d.ends = append(d.ends, end)
	}
	return d.checkAll()
}

func (d *divider) checkAll() error {
	for _, s := range d.m.Stacks {
		if tower(s.Kind) || d.left(s.Kind) {
			continue
		}
		for _, l := range s.Layers {
			if err := checkLayer(l, d.share); err != nil {
				return err
			}
		}
	}
	for _, t := range d.m.Tensors {
		if t.Role != model.RoleTokenEmbedding && t.Role != model.RoleHead || len(t.Shape) == 0 || t.Packed != nil {
			continue
		}
		if rows := d.rules.vocabulary(t.Shape[0], d.share.tensor); rows%int64(d.share.tensor) != 0 {
			return notSupported("a vocabulary of %d rows is not a multiple of %d tensor-parallel ranks", rows, d.share.tensor)
		}
	}
	return nil
}

// left reports a stack that no rank holds.
func (d *divider) left(k model.StackKind) bool { return k == model.Predictor && !d.rules.Predictors }

// plan is what the ranks of one stage hold.
func (d *divider) plan(stage int) RankPlan {
	last := d.mesh.PipelineParallel - 1
	p := RankPlan{
		Ranks: d.rules.ranks(d.mesh, stage), Coord: Coord{Pipeline: stage}, Mesh: d.mesh,
		First: stage == 0, Last: stage == last, share: d.share,
		Vocab: int(d.rules.vocabulary(int64(d.m.Vocab), d.share.tensor)) / d.share.tensor,
	}
	for s := range d.m.Stacks {
		for l := range d.m.Stacks[s].Layers {
			if d.stageOfLayer(int32(s), int32(l)) != stage || d.left(d.m.Stacks[s].Kind) {
				continue
			}
			ref := LayerRef{int32(s), int32(l)}
			p.Layers = append(p.Layers, ref)
			p.KVHeads = append(p.KVHeads, kvHeads(p.Layer(d.m, ref)))
			p.Chunk = append(p.Chunk, d.piece(ref.Stack, ref.Layer)/d.mesh.PipelineParallel)
		}
	}
	p.Tensors = d.tensors(stage)
	return p
}

func kvHeads(l model.Layer) int {
	for _, m := range l.Mixers {
		if a, ok := m.(model.Attention); ok {
			return a.KVHeads
		}
	}
	return 0
}

// stageOfLayer is where a layer runs.
func (d *divider) stageOfLayer(stack, layer int32) int {
	return d.piece(stack, layer) % d.mesh.PipelineParallel
}

// piece is the piece of the model that a layer is in: towers stand before the first
// layer of text, prediction layers behind the last.
func (d *divider) piece(stack, layer int32) int {
	switch {
	case stack == d.main:
		return min(len(d.ends)-1, upper(d.ends, int(layer)))
	case d.m.Stacks[stack].Kind == model.Predictor:
		return len(d.ends) - 1
	}
	return 0
}

// upper is the first stage that ends behind a layer.
func upper(ends []int, layer int) int {
	i, _ := slices.BinarySearch(ends, layer+1)
	return i
}

// everywhere marks a tensor that each stage holds.
const everywhere = -1

// stageOf is the stage that holds a tensor.
func (d *divider) stageOf(t model.Tensor) int {
	if t.Stack >= 0 && int(t.Stack) < len(d.m.Stacks) && (t.Stack != d.main || t.Layer >= 0) {
		return d.stageOfLayer(t.Stack, t.Layer)
	}
	switch t.Role {
	case model.RoleFinalNorm, model.RoleHead, model.RoleHeadBias, model.RoleClassifier:
		return d.mesh.PipelineParallel - 1
	case model.RoleNormBias:
		if d.ofFinalNorm(t.Name) {
			return d.mesh.PipelineParallel - 1
		}
	case model.RoleBuffer:
		return everywhere
	}
	return 0
}

// ofFinalNorm reports the bias beside the weight of the last norm: others stand behind
// the embeddings, in the first stage.
func (d *divider) ofFinalNorm(bias string) bool {
	weight := strings.TrimSuffix(bias, "bias") + "weight"
	return slices.ContainsFunc(d.m.Tensors, func(t model.Tensor) bool { return t.Role == model.RoleFinalNorm && t.Name == weight })
}

// tensors is what a rank of the stage holds. Tensors that share storage share
// it only within a stage: the first and the last hold a tied table each.
func (d *divider) tensors(stage int) []LocalTensor {
	var list []LocalTensor
	held := map[int]bool{} // by the tensor that owns the storage
	seen := map[expertKey]int64{}
	for i, t := range d.m.Tensors {
		if s := d.stageOf(t); s != stage && s != everywhere {
			continue
		}
		if t.Stack >= 0 && int(t.Stack) < len(d.m.Stacks) && d.left(d.m.Stacks[t.Stack].Kind) {
			continue
		}
		owner := i
		if t.TiedTo != model.NotTied {
			owner = int(t.TiedTo)
		}
		if held[owner] || !d.mine(t, seen) {
			continue
		}
		held[owner] = true
		list = append(list, d.local(i, t))
	}
	return list
}

// expertKey is the tensors of one kind over the experts of one layer, where
// each expert has its own.
type expertKey struct {
	stack, layer int32
	role         model.Role
}

// mine reports whether the first rank of the class holds a tensor: of experts
// stored one by one it holds the first.
func (d *divider) mine(t model.Tensor, seen map[expertKey]int64) bool {
	if !expertRole(t.Role) || len(t.Shape) != 2 || d.share.expert == 1 {
		return true
	}
	experts, ok := d.layer(t).FeedForward.(model.Experts)
	if !ok || biasOfExperts(t.Role) {
		return true
	}
	key := expertKey{t.Stack, t.Layer, t.Role}
	seen[key]++
	return seen[key] <= int64(experts.Count/d.share.expert)
}

func expertRole(r model.Role) bool {
	switch r {
	case model.RoleExpertGate, model.RoleExpertUp, model.RoleExpertGateUp, model.RoleExpertDown:
		return true
	}
	return biasOfExperts(r)
}

func biasOfExperts(r model.Role) bool {
	return r == model.RoleExpertGateUpBias || r == model.RoleExpertDownBias
}

// layer is the layer of a tensor; an empty one outside every layer.
func (d *divider) layer(t model.Tensor) model.Layer {
	if t.Stack < 0 || int(t.Stack) >= len(d.m.Stacks) {
		return model.Layer{}
	}
	layers := d.m.Stacks[t.Stack].Layers
	if t.Layer < 0 || int(t.Layer) >= len(layers) {
		return model.Layer{}
	}
	return layers[t.Layer]
}

// local is a rank's part of a tensor.
func (d *divider) local(i int, t model.Tensor) LocalTensor {
	whole := LocalTensor{Tensor: i, Shape: t.Shape, Packed: t.Packed}
	if d.share == (shares{1, 1, 1}) && d.rules.VocabularyMultiple <= 1 {
		return whole
	}
	shape, known := d.shape(t)
	if !known {
		whole.AtLeast = int64(max(d.share.tensor, d.share.expert*d.share.expertTensor))
		return whole
	}
	l := LocalTensor{Tensor: i, Shape: shape}
	if vocabularyRole(t.Role) && len(shape) > 0 {
		l.Padding = padding(t.Shape, shape, int64(d.share.tensor))
	}
	if t.Packed == nil {
		return l
	}
	if l.Packed, known = packed(t, shape); !known {
		whole.AtLeast = int64(max(d.share.tensor, d.share.expert*d.share.expertTensor))
		return whole
	}
	return l
}

// padding is the elements that all parts hold beyond the tensor.
func padding(shape, part []int64, ranks int64) int64 {
	have, a := bytesize.Mul(shape...)
	each, b := bytesize.Mul(part...)
	if !a || !b {
		return 0
	}
	return each*ranks - have
}

// packed is the stored words of a part: as many of them as the part has of the
// elements. They have no shape of their own that all formats agree on.
func packed(t model.Tensor, part []int64) ([]int64, bool) {
	words, a := bytesize.Mul(t.Packed...)
	have, b := bytesize.Mul(t.Shape...)
	each, c := bytesize.Mul(part...)
	if !a || !b || !c || each <= 0 || have%each != 0 || words%(have/each) != 0 {
		return nil, a && b && c && have == 0
	}
	return []int64{words / (have / each)}, true
}
