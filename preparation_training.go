package floodmark

import (
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/dtype"
	"floodmark/record"
	"floodmark/workload"
)

// PrepareTraining is [Prepare] with the tensors that training keeps of each
// parameter, in a layout that is named by them. Worked number: 70,600,000,000
// parameters in bf16-params-bf16-grads-fp32-master-fp32-moments are
// 141.2 + 141.2 + 282.4 + 282.4 + 282.4 = 1,129.6 GB.
func PrepareTraining(parameters int64, layout string, reserve int64, card *device.Card, platform device.Platform) (*Preparation, error) {
	formats, _, err := workload.ParseLayout(layout)
	if err != nil {
		return nil, err
	}
	formats = formats.Completed()
	p, err := Prepare(parameters, int(formats.Parameters.Bits()), reserve, nil, platform)
	if err != nil {
		return nil, err
	}
	if err := p.states(formats); err != nil {
		return nil, err
	}
	p.account, p.card = p.build(), card
	if card != nil {
		p.decide(platform)
	}
	return p, nil
}

// states counts what a layout keeps beside the parameters. Moments in blocks are
// counted without their maxima, whose number depends on the tensors.
func (p *Preparation) states(formats workload.Precision) error {
	for _, s := range []struct {
		term   account.TermID
		name   string
		format workload.StateFormat
	}{
		{account.TermGradients, "gradients", formats.Gradients}, {account.TermMasterCopy, "master copy", formats.MasterCopy},
		{account.TermOptimizerState, "first moment", formats.FirstMoment}, {account.TermOptimizerState, "second moment", formats.SecondMoment},
	} {
		if s.format.None() || s.format.Format == dtype.Unknown {
			continue
		}
		n, fits := s.format.Format.Size([]int64{p.Parameters})
		total, also := bytesize.Add(p.TotalBytes, n)
		if !fits || !also {
			return fmt.Errorf("%d parameters with %s: %w", p.Parameters, s.name, bytesize.ErrOverflow)
		}
		p.TotalBytes = total
		p.kept = append(p.kept, keptState{s.term, record.StateBytes{Tensor: s.name, Format: s.format.String(), Bytes: n}})
	}
	return nil
}

// keptState is one kind of tensor that training keeps.
type keptState struct {
	term account.TermID
	record.StateBytes
}

// category is the category of a kept state.
func (k keptState) category() account.Category {
	switch k.term {
	case account.TermGradients:
		return account.CategoryGradient
	case account.TermMasterCopy:
		return account.CategoryMasterCopy
	}
	return account.CategoryOptimizerState
}

// excluded is what a preparation leaves out.
func (p *Preparation) excluded() []string {
	rest := []string{"activations", "gradients", "KV cache", "optimizer states", "temporary tensors",
		"the CUDA context and libraries", "what the allocator holds unused"}
	if len(p.kept) == 0 {
		return rest
	}
	return []string{"activations", "temporary tensors", strings.Join(rest[5:], ", ")}
}
