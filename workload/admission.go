package workload

// Admitted is the workload with what its admission lets in as an input of its
// own: as many requests as are admitted at once, each of the longest that is. Of
// such a request what the inputs generate is generated, and the rest is its
// prompt; where no input generates, all of it is prompt.
func (w Workload) Admitted() Workload {
	s := w.Serving
	if s == nil || w.Operation != Generation || s.Budget != nil {
		return w // with a budget they are what the engine schedules by, and more may wait
	}
	dimensions := map[Dimension]int64{}
	if s.MaxRequests > 0 {
		dimensions[Sequences] = s.MaxRequests
	}
	if s.MaxLength > 0 {
		generated, _ := (&Workload{Inputs: declared(w.Inputs)}).Dimension(Generated)
		dimensions[Generated] = min(generated, s.MaxLength-1)
		dimensions[Context] = s.MaxLength - dimensions[Generated]
	}
	w.Inputs = declared(w.Inputs)
	if len(dimensions) > 0 {
		w.Inputs = append(w.Inputs, Input{Name: AdmissionInput, Dimensions: dimensions})
	}
	return w
}

// declared is the inputs without that of the admission.
func declared(inputs []Input) []Input {
	var list []Input
	for _, in := range inputs {
		if in.Name != AdmissionInput {
			list = append(list, in)
		}
	}
	return list
}

// AdmissionInput names the input that [Workload.Admitted] adds.
const AdmissionInput = "admission: max_requests, max_length"

// Unadmitted is the workload without what its admission says of a dimension,
// for one that is asked for other values of it.
func (w Workload) Unadmitted(d Dimension) Workload {
	if w.Serving == nil || w.Serving.Budget != nil {
		return w
	}
	s := *w.Serving
	switch d {
	case Sequences:
		s.MaxRequests = 0
	case Context, Generated:
		s.MaxLength = 0
	}
	w.Serving = &s
	w.Inputs = declared(w.Inputs)
	return w
}
