package launch

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"floodmark/account"
	"floodmark/workload"
)

// Command is what a command line asks for.
type Command struct {
	Model    string
	Workload workload.Workload
	Devices  int // that the command is given; 0 where it does not say
	Warnings []account.Warning
}

// Error is a command line that cannot be read.
type Error struct{ Msg, Hint string }

// Error is the message.
func (e *Error) Error() string { return e.Msg }

const hint = "give the whole command: vllm serve MODEL …, python -m vllm.entrypoints.openai.api_server --model MODEL …, docker run … vllm/vllm-openai:v0.19.0 --model MODEL …, or llama-server -m FILE …; of training: MODEL -- torchrun … train.py …, accelerate launch …, deepspeed …, tune run …, or llamafactory-cli train X.yaml, without bash or srun before it"

// mostWords bounds a command line.
const mostWords = 4096

// Parse reads the words of a command, as a shell would hand them over.
func Parse(words []string) (*Command, error) {
	if len(words) > mostWords {
		return nil, &Error{Msg: fmt.Sprintf("the command has %d words, more than the %d that are read", len(words), mostWords)}
	}
	r := &reader{environment: map[string]string{}}
	rest, err := r.program(words)
	if err != nil {
		return nil, err
	}
	return r.finish(rest)
}

// reader takes a command apart.
type reader struct {
	environment map[string]string
	version     string
	devices     int
	llama       bool // the arguments are those of llama-server
}

// program finds the engine's own arguments behind what starts it.
func (r *reader) program(words []string) ([]string, error) {
	words = r.assignments(words)
	if len(words) == 0 {
		return nil, &Error{Msg: "there is no command to read", Hint: hint}
	}
	switch name := path.Base(words[0]); {
	case name == "sudo" || name == "env" || name == "nohup" || name == "time" || name == "exec":
		return r.program(words[1:])
	case name == "uv" || name == "uvx" || name == "poetry":
		return r.behind(words[1:], "vllm")
	case name == "docker-compose" || (name == "docker" || name == "podman") && len(words) > 1 && words[1] == "compose":
		return nil, &Error{Msg: "what compose starts stands in its file", Hint: "give the file in place of a command: floodmark estimate docker-compose.yml"}
	case name == "docker" || name == "podman" || name == "nerdctl":
		return r.container(words[1:])
	case name == "vllm" && len(words) > 1 && words[1] == "serve":
		return words[2:], nil
	case name == "vllm":
		return nil, &Error{Msg: "of the engine's commands serve is read: " + strings.Join(words[:min(2, len(words))], " "), Hint: hint}
	case name == "llama-server" || name == "llama-server.exe":
		r.llama = true
		return words[1:], nil
	case strings.HasPrefix(name, "python"):
		return r.python(words[1:])
	case strings.HasPrefix(words[0], "-"):
		return words, nil // arguments alone, as an image takes them
	}
	return nil, &Error{Msg: fmt.Sprintf("%.80q starts no engine that is known here", words[0]), Hint: hint}
}

// behind looks for a program among the words of a runner.
func (r *reader) behind(words []string, program string) ([]string, error) {
	for i, w := range words {
		if path.Base(w) == program || strings.HasPrefix(path.Base(w), "python") {
			return r.program(words[i:])
		}
	}
	return nil, &Error{Msg: "the command starts no engine that is known here", Hint: hint}
}

// python reads what follows an interpreter: a module of the engine.
func (r *reader) python(words []string) ([]string, error) {
	for i, w := range words {
		if w != "-m" || i+1 >= len(words) {
			continue
		}
		switch module := words[i+1]; {
		case strings.HasPrefix(module, "vllm.entrypoints.openai") || module == "vllm.entrypoints.api_server":
			return words[i+2:], nil
		case module == "vllm.entrypoints.cli.main" || module == "vllm":
			return r.program(append([]string{"vllm"}, words[i+2:]...))
		}
	}
	return nil, &Error{Msg: "the interpreter runs no module of an engine that is known here", Hint: hint}
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// assignments takes leading NAME=value words.
func (r *reader) assignments(words []string) []string {
	for len(words) > 0 && assignment.MatchString(words[0]) {
		r.assign(words[0])
		words = words[1:]
	}
	return words
}

func (r *reader) assign(word string) {
	name, value, _ := strings.Cut(word, "=")
	r.environment[name] = strings.Trim(value, `"'`)
}

// switches are the flags of docker run that take no value.
func switches() []string {
	return strings.Fields("-d --detach -i --interactive -t --tty -it -ti -dit -itd --rm --init --privileged --read-only --no-healthcheck -P --publish-all --oom-kill-disable --quiet -q --sig-proxy")
}

// container reads docker run: its flags, the image, and what the image is told.
func (r *reader) container(words []string) ([]string, error) {
	for len(words) > 0 && words[0] != "run" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, &Error{Msg: "of a container engine's commands run is read", Hint: hint}
	}
	words = words[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		flag, value, joined := strings.Cut(words[0], "=")
		words = words[1:]
		if !joined && !contains(switches(), flag) {
			if len(words) == 0 {
				return nil, &Error{Msg: flag + " of the container engine lacks its value", Hint: hint}
			}
			value, words = words[0], words[1:]
		}
		r.containerFlag(flag, value)
	}
	if len(words) == 0 {
		return nil, &Error{Msg: "the container's image is missing", Hint: hint}
	}
	return r.image(words[0], words[1:])
}

func (r *reader) containerFlag(flag, value string) {
	switch flag {
	case "-e", "--env":
		r.assign(value)
	case "--gpus":
		r.gpus(strings.Trim(value, `"'`))
	}
}

// gpus reads --gpus: all, a count, or device=0,1.
func (r *reader) gpus(value string) {
	if list, named := strings.CutPrefix(value, "device="); named {
		r.devices = len(strings.Split(strings.Trim(list, `"'`), ","))
		return
	}
	if n, err := whole(value); err == nil && n > 0 && n < 1<<16 {
		r.devices = int(n)
	}
}

var tag = regexp.MustCompile(`^v?\d+\.\d+(\.\d+)?`)

// image reads an image's name and what it is told; the tag is the version.
func (r *reader) image(name string, words []string) ([]string, error) {
	if strings.Contains(name, "llama.cpp") {
		r.llama = true
		return words, nil
	}
	if !strings.Contains(name, "vllm") {
		return nil, &Error{Msg: fmt.Sprintf("the image %.80q is none of an engine that is known here", name), Hint: hint}
	}
	if _, after, tagged := strings.Cut(path.Base(name), ":"); tagged {
		r.version = tag.FindString(after)
	}
	switch {
	case len(words) > 0 && (words[0] == "vllm" || strings.HasPrefix(words[0], "python")):
		return r.program(words)
	case len(words) > 0 && words[0] == "serve":
		return words[1:], nil
	}
	return words, nil
}

// finish reads the engine's arguments.
func (r *reader) finish(words []string) (*Command, error) {
	if r.llama {
		return r.finishLlama(words)
	}
	a := &arguments{budget: &workload.Budget{}, serving: &workload.Serving{}}
	if err := a.read(words); err != nil {
		return nil, err
	}
	r.variables(a)
	if a.model == "" {
		return nil, &Error{Msg: "the command names no model", Hint: hint}
	}
	a.serving.Budget = a.budget
	c := &Command{Model: a.model, Devices: r.devices, Warnings: a.warnings}
	c.Workload = workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "vllm", Version: strings.TrimPrefix(r.version, "v")},
		Mesh: a.layout(), Precision: a.precision, Serving: a.serving, Open: a.open}
	return c, nil
}

// variables reads the environment that bears on sizes.
func (r *reader) variables(a *arguments) {
	for name, value := range r.environment {
		switch name {
		case "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES":
			if value != "" && value != "all" {
				r.devices = len(strings.Split(value, ","))
			}
		case "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS":
			charged := value != "0"
			a.budget.ChargeGraphs = &charged
		case "VLLM_USE_V1":
			if value == "0" {
				a.unmodelled("VLLM_USE_V1=0", "the first generation of the engine is asked for, and its rules are those of versions before 0.8")
			}
		case "VLLM_PP_LAYER_PARTITION":
			a.unmodelled(name, "layers are divided over stages otherwise than evenly")
		case "VLLM_USE_FLASHINFER_SAMPLER":
			if value != "0" {
				a.unmodelled("VLLM_USE_FLASHINFER_SAMPLER", "what this sampler holds in the trial run is not modelled")
			}
		}
	}
}

func contains(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}
