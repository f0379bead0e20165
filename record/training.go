package record

// Training is what an estimate of training trains, and with what.
type Training struct {
	Optimizer      string  `json:"optimizer"`
	Implementation *string `json:"implementation"`
	Autocast       *string `json:"autocast"`
	Checkpointing  string  `json:"checkpointing"`
	Accumulation   int64   `json:"accumulation"`
	// Formats are the declared formats of what training holds, by kind of tensor.
	Formats []TrainingFormat `json:"formats"`
	// TrainableParameters and FrozenParameters are counted on the model: their
	// ratio is a result.
	TrainableParameters *int64          `json:"trainable_parameters"`
	FrozenParameters    *int64          `json:"frozen_parameters"`
	Modules             []TrainedModule `json:"modules"`
	// FrozenComponents are components of the model that are left as they are.
	FrozenComponents []string `json:"frozen_components"`
}

// TrainingFormat is the declared format of one kind of tensor.
type TrainingFormat struct {
	Tensor string `json:"tensor"` // parameters, gradients, master_copy, first_moment, second_moment, adapter
	Format string `json:"format"` // none where there is none
}

// TrainedModule is what is trained of one kind of module.
type TrainedModule struct {
	Module     string `json:"module"`
	Whole      bool   `json:"whole"` // the weights themselves, not an adapter's matrices
	Parameters *int64 `json:"parameters"`
	Base       *int64 `json:"base_parameters"` // of the modules that it is on
}

// StateBytes is one kind of tensor that training keeps of every parameter.
type StateBytes struct {
	Tensor string `json:"tensor"`
	Format string `json:"format"`
	Bytes  int64  `json:"bytes"`
}
