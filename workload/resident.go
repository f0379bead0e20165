package workload

import (
	"floodmark/account"
	"floodmark/dtype"
)

// Resident is something that stays in memory beside the operation: a reference
// model, a reward model, an engine that generates for the training. Of one whose
// model is named the bytes are counted; of others they are unknown.
type Resident struct {
	Name string
	What string
	// Model is a path or a name, as the workload's own; empty where it is no model.
	Model   string
	Weights dtype.Format // that it is held in; Unknown for that of its files
	// Divided says that the ranks divide its weights, as they do those that train.
	Divided bool
	// Engine is one that fills a share of the card (vllm); empty for a model that
	// only runs forward in the same process.
	Engine      string
	Utilization float64 // the engine's share of the card; 0 for its default
	// Sleeps says that the engine gives its memory back while the model trains.
	Sleeps bool
	Ranks  int   // of the engine's tensor parallelism; 0 and 1 are one
	Length int64 // positions of the engine's longest request; 0 for the model's
	// Bytes is what it holds on one rank, counted by an estimate of its own. The
	// zero Figure is not counted.
	Bytes account.Figure
	// Awake is what an engine that sleeps holds beyond that while it generates.
	Awake account.Figure
}

type residentYAML struct {
	Name        string  `yaml:"name"`
	What        string  `yaml:"what"`
	Model       string  `yaml:"model"`
	Weights     string  `yaml:"weights"`
	Divided     bool    `yaml:"divided"`
	Engine      string  `yaml:"engine"`
	Utilization float64 `yaml:"utilization"`
	Sleeps      bool    `yaml:"sleeps"`
	Ranks       whole   `yaml:"tensor_parallel"`
	Length      whole   `yaml:"max_length"`
}

// resident checks what stays resident.
func (c *checker) resident(field string, d residentYAML) Resident {
	r := Resident{
		Name: d.Name, What: d.What, Model: d.Model, Weights: c.format(field+"weights", d.Weights), Divided: d.Divided,
		Engine: choose(c, field+"engine", d.Engine, []string{"vllm"}), Utilization: d.Utilization, Sleeps: d.Sleeps,
		Ranks: int(min(c.atLeast(field+"tensor_parallel", d.Ranks, 0), MaxDegree)), Length: c.atLeast(field+"max_length", d.Length, 0),
	}
	switch {
	case d.Utilization < 0 || d.Utilization > 1 || d.Utilization != d.Utilization:
		c.wrong(field+"utilization", "is %v, expected a share above 0 and up to 1", d.Utilization)
	case d.Utilization > 0 && d.Engine == "":
		c.wrong(field+"utilization", "is of an engine, and none is named: engine: vllm")
	case d.Engine != "" && d.Model == "":
		c.wrong(field+"model", "is missing: the engine loads one")
	}
	return r
}
