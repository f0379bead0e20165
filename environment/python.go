package environment

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"floodmark/internal/child"
	"floodmark/internal/packed"
)

//go:embed inspect.py.gz
var inspectScript []byte

// Python is what an interpreter says of itself.
type Python struct {
	Asked      string // the path that was run; empty where none was found
	Version    string // empty where it did not say
	Executable string // as it calls itself
	Virtual    bool   // a virtual environment
	Problem    string // why it said less than everything; empty where it said all
	Torch      Torch
	Extensions []Extension
	// NoExtensions is why the extensions could not be listed; empty where they
	// were.
	NoExtensions string
}

// Torch is the PyTorch of an interpreter.
type Torch struct {
	Asked     bool // somebody said whether there is one
	Found     bool
	Path      string
	Version   string // "2.11.0+cu128"; empty where it is not known
	CUDA, HIP string // what it was built for; both empty for a build without either
	Imported  bool
	Allocator string // its backend as PyTorch itself names it: "native", "cudaMallocAsync"
	Devices   *int   // that it counts
	Problem   string // why it could not be imported, or asked
}

// Extension is an installed distribution that has a say in memory.
type Extension struct {
	Name    string
	Version string // empty where its metadata have none
}

// extensions are the distributions that are looked for: those that allocate on a
// device, or change how PyTorch does.
func extensions() []string {
	return []string{
		"torch", "triton", "pytorch-triton-rocm", "torchvision", "torchao", "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13",
		"transformers", "accelerate", "peft", "trl", "diffusers", "deepspeed", "bitsandbytes", "flash-attn", "flash-attn-3", "flashinfer-python",
		"xformers", "transformer-engine", "apex", "megatron-core", "liger-kernel", "unsloth", "vllm", "sglang", "tensorrt-llm", "torch-tensorrt",
		"optimum", "optimum-quanto", "auto-gptq", "gptqmodel", "autoawq", "hqq", "causal-conv1d", "mamba-ssm", "fairscale", "galore-torch",
		"lightning", "pytorch-lightning", "torchtune", "torchtitan", "fbgemm-gpu", "onnxruntime-gpu", "llama-cpp-python",
	}
}

// The most that the script is listened to.
const (
	mostLines = 64
	mostSaid  = 1 << 20
)

// askPython runs the script in an interpreter, by path or the first on PATH.
func askPython(ctx context.Context, path string, environ []string, patience time.Duration) (Python, error) {
	p := Python{Asked: path}
	if path == "" {
		found, err := firstPython()
		if err != nil {
			p.Problem = err.Error()
			return p, nil
		}
		p.Asked = found
	}
	if info, err := os.Stat(p.Asked); err == nil && info.IsDir() {
		p.Problem = p.Asked + " is a folder: name the interpreter in it, such as " + filepath.Join(p.Asked, "bin", "python")
		return p, nil
	}
	script, err := packed.Text(inspectScript)
	if err != nil {
		return p, err
	}
	args := append([]string{"-c", script}, extensions()...)
	result, err := child.Run(ctx, child.Program{Path: p.Asked, Args: args, Env: quiet(environ), Timeout: patience, Most: mostSaid})
	if err != nil && !errors.Is(err, child.ErrNotStarted) {
		return p, err
	}
	if err != nil {
		p.Problem = err.Error()
		return p, nil
	}
	heard := p.listen(result.Report)
	p.Problem = problem(result, heard, p.Version != "")
	if p.Torch.Found && !p.Torch.Imported && p.Torch.Problem == "" {
		p.Torch.Problem = "importing it: " + p.Problem
	}
	if !p.Torch.Asked {
		p.Torch.Problem = "Python did not say"
	}
	return p, nil
}

func firstPython() (string, error) {
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no python3 or python on PATH")
}

// quiet is an environment in which Python leaves no files behind.
func quiet(environ []string) []string {
	if environ == nil {
		environ = os.Environ()
	}
	return append(append([]string{}, environ...), "PYTHONDONTWRITEBYTECODE=1")
}

// fact is one line of the script.
type fact struct {
	Python          string
	Executable      string
	Virtual         bool
	Extensions      []Extension
	ExtensionsError string `json:"extensions_error"`
	Torch           *torchFact
	Loaded          *torchFact
	Counted         *torchFact
}

// torchFact is what one step found of PyTorch.
type torchFact struct {
	Found, Imported                     bool
	Path, Version, CUDA, HIP, Allocator string
	Devices                             *int
	Error                               string
}

// listen takes what the script said, and tells whether it said its last line.
func (p *Python) listen(report []byte) (whole bool) {
	n := 0
	for line := range strings.Lines(string(report)) {
		if n++; n > mostLines {
			break
		}
		var f fact
		if json.Unmarshal([]byte(line), &f) != nil {
			continue // cut off, or somebody else's
		}
		p.take(f)
		if f.Counted != nil {
			return true // its last line
		}
	}
	return false
}

func (p *Python) take(f fact) {
	switch {
	case f.Python != "":
		p.Version, p.Executable, p.Virtual = clip(f.Python), clip(f.Executable), f.Virtual
	case f.Extensions != nil:
		for _, e := range f.Extensions[:min(len(f.Extensions), len(extensions()))] {
			p.Extensions = append(p.Extensions, Extension{clip(e.Name), clip(e.Version)})
		}
	case f.ExtensionsError != "":
		p.NoExtensions = clip(f.ExtensionsError)
	case f.Torch != nil:
		t := f.Torch
		p.Torch = Torch{Asked: true, Found: t.Found, Path: clip(t.Path), Version: clip(t.Version), CUDA: clip(t.CUDA), HIP: clip(t.HIP), Problem: clip(t.Error)}
	case f.Loaded != nil:
		p.Torch.load(*f.Loaded)
	case f.Counted != nil:
		if n := f.Counted.Devices; n != nil && *n >= 0 {
			p.Torch.Devices = n
		}
	}
}

// load takes what PyTorch said when it was imported, which counts more than its
// files.
func (t *Torch) load(f torchFact) {
	if !f.Imported {
		if t.Found {
			t.Problem = clip(f.Error)
		}
		return
	}
	t.Asked, t.Found, t.Imported, t.Problem = true, true, true, clip(f.Error)
	t.CUDA, t.HIP, t.Allocator = clip(f.CUDA), clip(f.HIP), clip(f.Allocator)
	if f.Version != "" {
		t.Version = clip(f.Version)
	}
}

// clip keeps a text to the length of a line or two: whatever answers may be no
// Python at all.
func clip(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// problem says why a script said less than it should have.
func problem(r child.Result, whole, spoke bool) string {
	switch {
	case whole:
		return ""
	case r.Ended() != "":
		return "Python " + r.Ended() + lastWords(r)
	case spoke:
		return "Python ended before it had said everything" + lastWords(r)
	}
	return "it ran, and answered nothing that a Python says" + lastWords(r)
}

// lastWords are the end of what a program said on standard error, or else on
// standard output.
func lastWords(r child.Result) string {
	const most = 300
	for _, stream := range [][]byte{r.Stderr, r.Stdout} {
		text := strings.TrimSpace(strings.ToValidUTF8(string(stream), "\uFFFD"))
		lines := strings.Split(text, "\n")
		if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
			return fmt.Sprintf(": %.*s", most, last) // as many letters, not bytes
		}
	}
	return ""
}
