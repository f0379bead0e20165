package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/aliases"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// File is a workload file: the work, the model that does it and the cards that
// it is to run on. Texts such as sizes and names are as written.
type File struct {
	Model    string // a folder, a file or a name; relative to the file
	Workload Workload
	GPU      string // a card of the catalogue, for every rank
	Platform string
	Capacity string // bytes that the card reports, in place of the catalogue's
	Free     string // bytes that are free of it
}

// Bounds of a workload file. The YAML reader takes time and memory that grow
// with the square of the nesting, so both are checked before it is called.
const (
	maxFileBytes = 1 << 20
	maxNesting   = 32
)

// document is the file as YAML spells it.
type document struct {
	Model     string               `yaml:"model"`
	Operation string               `yaml:"operation"`
	Engine    engineYAML           `yaml:"engine"`
	Inputs    map[string]inputYAML `yaml:"inputs"`
	Precision precisionYAML        `yaml:"precision"`
	Training  *trainingYAML        `yaml:"training"`
	Layout    layoutYAML           `yaml:"layout"`
	Cache     string               `yaml:"cache"`
	Residents []residentYAML       `yaml:"residents"`
	Admission *admissionYAML       `yaml:"admission"`
	Serving   *servingYAML         `yaml:"serving"`
	Features  []string             `yaml:"features"`
	Phases    []string             `yaml:"phases"`
	GPU       string               `yaml:"gpu"`
	Platform  string               `yaml:"platform"`
	Capacity  string               `yaml:"capacity"`
	Free      string               `yaml:"free"`
	Host      string               `yaml:"host_capacity"`
}

type engineYAML struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	PyTorch string `yaml:"pytorch"`
}

type inputYAML map[string]whole

type layoutYAML struct {
	TensorParallel   *whole `yaml:"tensor_parallel"`
	PipelineParallel *whole `yaml:"pipeline_parallel"`
	DataParallel     *whole `yaml:"data_parallel"`
	ExpertParallel   *whole `yaml:"expert_parallel"`
	ContextParallel  *whole `yaml:"context_parallel"`
}

// whole is a whole number, where the YAML reader alone would cut 1.5 to 1.
type whole int64

// UnmarshalYAML refuses a number with a fraction at its line.
func (w *whole) UnmarshalYAML(n ast.Node) error {
	if _, fraction := n.(*ast.FloatNode); fraction {
		return &yaml.TypeError{DstType: reflect.TypeFor[int64](), SrcType: reflect.TypeFor[float64](), Token: n.GetToken()}
	}
	return yaml.NodeToValue(n, (*int64)(w))
}

type admissionYAML struct {
	MaxRequests whole  `yaml:"max_requests"`
	MaxLength   whole  `yaml:"max_length"`
	Policy      string `yaml:"policy"`
}

// InputNames are the classes of inputs that a workload should have: what is
// usual, what is long but expected, and what is close to the functional limit.
func InputNames() []string { return []string{"typical", "long", "limit"} }

// ReadFile reads a workload file. An unknown key, a wrong type or a value that
// is no choice is a [*source.FormatError] with the line.
func ReadFile(src source.Source) (*File, error) {
	data, err := source.ReadAll(src, maxFileBytes)
	if err != nil {
		return nil, err
	}
	if depth := aliases.Depth(data); depth > maxNesting {
		return nil, source.InField(src.Name(), "", "nests %d levels deep, more than the %d that a workload file may have", depth, maxNesting)
	}
	data = bytes.TrimPrefix(data, []byte(source.ByteOrderMark))
	var d document
	if err := aliases.Check(data); err != nil {
		return nil, source.InField(src.Name(), "", "is not read: %v", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := decoder.Decode(&d); err != nil {
		return nil, (&source.FormatError{File: src.Name(), Offset: -1, Msg: "is not a workload file", Err: plain(err)}).
			WithHint("its keys are model, operation, engine, inputs, precision, training, layout, cache, residents, admission, serving, features, phases, gpu, platform, capacity, free and host_capacity")
	}
	if err := decoder.Decode(&document{}); !errors.Is(err, io.EOF) {
		return nil, source.InField(src.Name(), "", "holds a second document after ---").WithHint("write one workload a file")
	}
	return d.file(src.Name())
}

// plain is the YAML reader's message with its line, without colours and without
// the names that this program's types have.
func plain(err error) error {
	var y yaml.Error
	var wrong *yaml.TypeError
	var large *yaml.OverflowError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.As(err, &wrong):
		y = &yaml.SyntaxError{Message: "expected " + expected(wrong.DstType.Kind()), Token: wrong.Token}
	case errors.As(err, &large):
		y = &yaml.SyntaxError{Message: "is out of range, expected " + expected(large.DstType.Kind()), Token: large.Token}
	case !errors.As(err, &y):
		return err
	}
	return errors.New(strings.TrimSpace(yaml.FormatError(y, false, true)))
}

// expected is what a value should be, in YAML's words.
func expected(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "keys with values"
	}
	return "a whole number"
}

// file checks the document and turns it into a workload.
func (d document) file(name string) (*File, error) {
	f := &File{Model: d.Model, GPU: d.GPU, Platform: d.Platform, Capacity: d.Capacity, Free: d.Free}
	w := &f.Workload
	w.Engine = Engine(d.Engine)
	c := checker{file: name}
	w.Mesh = c.mesh(d.Layout)
	w.Operation = choose(&c, "operation", Operation(d.Operation), Operations())
	w.Cache = choose(&c, "cache", CacheKind(d.Cache), CacheKinds())
	autocast := c.precision(d.Precision, &w.Precision)
	if d.Training != nil {
		w.Training = c.training(*d.Training)
		if w.Training.Autocast == dtype.Unknown {
			w.Training.Autocast = autocast
		}
		if !slices.Contains([]Operation{"", Training, FineTuning, Evaluation, Export}, w.Operation) {
			c.wrong("training", "stands beside operation: %s, which trains nothing; expected training, fine-tuning, evaluation or export", w.Operation)
		}
	}
	for i, text := range d.Features {
		w.Features = append(w.Features, choose(&c, fmt.Sprintf("features[%d]", i), Feature(text), Features()))
	}
	for i, text := range d.Phases {
		w.Phases = append(w.Phases, choose(&c, fmt.Sprintf("phases[%d]", i), account.PhaseID(text), account.Phases()))
	}
	for i, r := range d.Residents {
		w.Resident = append(w.Resident, c.resident(fmt.Sprintf("residents[%d].", i), r))
	}
	if a := d.Admission; a != nil {
		w.Serving = &Serving{MaxRequests: int64(a.MaxRequests), MaxLength: int64(a.MaxLength),
			Policy: choose(&c, "admission.policy", Policy(a.Policy), []Policy{Refuse, Queue, Preempt})}
	}
	d.Serving.onto(&c, w)
	w.Host = c.bytes("host_capacity", d.Host)
	w.Inputs = c.inputs(d.Inputs)
	return f, c.err
}

// mesh is the degrees of parallelism; 0 for one that the file does not state.
func (c *checker) mesh(l layoutYAML) Mesh {
	degree := func(name string, stated *whole) int {
		switch {
		case stated == nil:
			return 0
		case *stated < 1 || *stated > MaxDegree:
			c.wrong("layout."+name, "is %d, expected 1 to %d", *stated, MaxDegree)
		}
		return int(*stated)
	}
	return Mesh{
		TensorParallel: degree("tensor_parallel", l.TensorParallel), PipelineParallel: degree("pipeline_parallel", l.PipelineParallel),
		DataParallel: degree("data_parallel", l.DataParallel), ExpertParallel: degree("expert_parallel", l.ExpertParallel),
		ContextParallel: degree("context_parallel", l.ContextParallel),
	}
}

// MaxDegree bounds a degree of parallelism: more than any machine has cards.
const MaxDegree = 1 << 20

// Operations lists every operation.
func Operations() []Operation {
	return []Operation{Load, Generation, Training, FineTuning, Evaluation, Export}
}

// checker keeps the first thing that is wrong with a file.
type checker struct {
	file string
	err  error
}

func (c *checker) wrong(field, format string, args ...any) {
	if c.err == nil {
		c.err = source.InField(c.file, field, format, args...)
	}
}

// choose is one of a closed list, or empty where the file does not say.
func choose[T ~string](c *checker, field string, value T, choices []T) T {
	if value != "" && !slices.Contains(choices, value) {
		c.wrong(field, "is %q, expected one of %s", string(value), join(choices))
	}
	return value
}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v)
	}
	return strings.Join(texts, ", ")
}

func (c *checker) format(field, text string) dtype.Format {
	if text == "" {
		return dtype.Unknown
	}
	f, ok := dtype.Parse(text)
	if !ok {
		c.wrong(field, "is %q, which is no element format such as bf16, fp16, fp32 or fp8", text)
	}
	return f
}

func (c *checker) bytes(field, text string) int64 {
	if text == "" {
		return 0
	}
	n, err := bytesize.Parse(text)
	if err != nil {
		c.wrong(field, "%v", err)
	}
	return n
}

func (c *checker) inputs(all map[string]inputYAML) []Input {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	// In the order typical, long, limit; others after them by name.
	sorting.By(names, func(i, j int) int {
		a, b := names[i], names[j]
		if x, y := rank(a), rank(b); x != y {
			return x - y
		}
		return strings.Compare(a, b)
	})
	var inputs []Input
	for _, name := range names {
		in := Input{Name: name, Dimensions: map[Dimension]int64{}}
		for key, value := range all[name] {
			d := choose(c, "inputs."+name, Dimension(key), Dimensions())
			if value < 0 {
				c.wrong("inputs."+name+"."+key, "is %d, expected 0 or more", value)
			}
			in.Dimensions[d] = int64(value)
		}
		inputs = append(inputs, in)
	}
	return inputs
}

func rank(name string) int {
	if i := slices.Index(InputNames(), name); i >= 0 {
		return i
	}
	return len(InputNames())
}
