package recipe

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"floodmark/workload"
)

// Starts reports whether a command is one that this package reads: it starts a
// training, by a launcher, by a software's own program, or as a script.
func Starts(words []string) bool {
	c := &command{}
	words = c.before(words)
	if len(words) == 0 {
		return false
	}
	switch program := path.Base(words[0]); {
	case strings.HasPrefix(program, "python"):
		return len(words) > 1 && !(words[1] == "-m" && len(words) > 2 && strings.HasPrefix(words[2], "vllm"))
	default:
		return strings.HasSuffix(program, ".py") || programs()[program] != nil
	}
}

// Parse reads the words of a command, as a shell would hand them over, and the files
// that it names.
func Parse(words []string, files Files) (*Recipe, error) { return Reader{Files: files}.Parse(words) }

// Parse is [Parse] with what the reader knows beside the files.
func (r Reader) Parse(words []string) (*Recipe, error) {
	if len(words) > mostWords {
		return nil, &Error{Msg: fmt.Sprintf("the command has %d words, more than the %d that are read", len(words), mostWords)}
	}
	c := &command{plan: newPlan(r)}
	rest := c.before(words)
	if len(rest) == 0 {
		return nil, &Error{Msg: "there is no command to read", Hint: hintCommand}
	}
	if err := c.program(rest); err != nil {
		return nil, err
	}
	if c.plan.err != nil {
		return nil, c.plan.err
	}
	c.launched()
	return c.plan.finish()
}

// command takes a command line apart.
type command struct {
	plan    *plan
	visible int64  // devices that the environment names; 0 where it does not
	perNode string // of the environment (NPROC_PER_NODE)
	cublas  string
	// deterministic says that the environment asks TransformerEngine for the same result each time.
	deterministic bool
	expandable    bool // the environment asks PyTorch's allocator for segments that grow
	nested        int
	every         string // the launcher that starts a process for each device, where nobody says how many
}

// programs are those that are known, with what reads what stands behind them.
func programs() map[string]func(*command, []string) error {
	return map[string]func(*command, []string) error{
		"torchrun": (*command).torchrun, "accelerate": (*command).accelerate, "deepspeed": (*command).deepspeed, "tune": (*command).tune,
		"llamafactory-cli": (*command).llamaFactory, "lmf": (*command).llamaFactory, "axolotl": (*command).axolotl, "trl": (*command).trl,
	}
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// before takes off what stands before the program: assignments and runners.
func (c *command) before(words []string) []string {
	for len(words) > 0 {
		switch name, value, _ := strings.Cut(words[0], "="); {
		case assignment.MatchString(words[0]):
			c.assign(name, value)
		case words[0] == "sudo" || words[0] == "env" || words[0] == "nohup" || words[0] == "time" || words[0] == "exec" || words[0] == "uvx":
		case len(words) > 1 && (words[0] == "uv" || words[0] == "poetry") && words[1] == "run":
			words = words[1:]
		default:
			return words
		}
		words = words[1:]
	}
	return words
}

func (c *command) assign(name, value string) {
	switch name {
	case "CUDA_VISIBLE_DEVICES":
		if value != "" {
			c.visible = int64(strings.Count(value, ",") + 1)
		}
	case "NPROC_PER_NODE":
		c.perNode = value
	case "CUBLAS_WORKSPACE_CONFIG":
		c.cublas = value
	case "NVTE_ALLOW_NONDETERMINISTIC_ALGO":
		c.deterministic = value == "0"
	case "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF":
		for pair := range strings.SplitSeq(value, ",") {
			if key, on, _ := strings.Cut(pair, ":"); strings.TrimSpace(key) == "expandable_segments" {
				c.expandable = strings.TrimSpace(on) == "True"
			}
		}
	}
}

// program reads a command by its program.
func (c *command) program(words []string) error {
	if c.nested++; c.nested > 8 {
		return &Error{Msg: "launchers start launchers in the command, more than are read"}
	}
	name := path.Base(words[0])
	if read := programs()[name]; read != nil {
		return read(c, words[1:])
	}
	if strings.HasPrefix(name, "python") {
		words = words[1:]
		for len(words) > 0 && (words[0] == "-u" || words[0] == "-O") {
			words = words[1:]
		}
		if len(words) == 0 {
			return &Error{Msg: "the interpreter is given nothing to run", Hint: hintCommand}
		}
	}
	return c.script(words)
}

// launched notes what the environment says: the workspaces of cuBLAS, how the
// allocator reserves, and devices where no launcher says how many processes run.
func (c *command) launched() {
	p := c.plan
	if c.expandable {
		p.set("expandable_segments", setting{value: true, written: "PYTORCH_ALLOC_CONF", strength: inLauncher})
	}
	if p.software == "megatron" && c.cublas != "" {
		p.set("cublas_workspace", setting{value: c.cublas, written: "CUBLAS_WORKSPACE_CONFIG", strength: inLauncher})
	}
	if p.software == "megatron" && c.deterministic {
		p.set("deterministic", setting{value: true, written: "NVTE_ALLOW_NONDETERMINISTIC_ALGO", strength: inLauncher})
	}
	switch {
	case c.visible > 0 && p.number("processes_per_node") > c.visible:
		p.refuses("processes_per_node", fmt.Sprintf("no more than the devices of CUDA_VISIBLE_DEVICES, %d", c.visible))
	case p.world() > 0:
	case c.perNode != "":
		p.keep(c.count("processes_per_node", "NPROC_PER_NODE", c.perNode))
	case c.visible > 0:
		p.set("processes", setting{value: c.visible, written: "CUDA_VISIBLE_DEVICES", strength: inLauncher})
	case p.text("sharding") != "no": // of accelerate: one process
		p.every = c.every
	}
}

// flag takes one flag off a launcher's words: its name without dashes, with
// underscores, and its value.
func flag(words []string, switches string) (name, value string, rest []string) {
	name, value, joined := strings.Cut(words[0], "=")
	name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_")
	words = words[1:]
	if joined || strings.Contains(" "+switches+" ", " "+name+" ") || len(words) == 0 {
		return name, value, words
	}
	return name, words[0], words[1:]
}

// torchrun reads the launcher's flags, and the script behind them.
func (c *command) torchrun(words []string) error {
	one := c.plan.world() == 0
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		var name, value string
		switch name, value, words = flag(words, "standalone no_python use_env m module run_path quiet"); name {
		case "nproc_per_node":
			one = false
			if err := c.count("processes_per_node", "--nproc_per_node", value); err != nil {
				return err
			}
		case "nnodes":
			if err := c.nodes(value); err != nil {
				return err
			}
		case "m", "module":
			words = append([]string{"-m"}, words...)
			return c.launch(one, words)
		}
	}
	return c.launch(one, words)
}

// launch reads the script of torchrun, which starts one process where nobody says
// how many.
func (c *command) launch(one bool, words []string) error {
	if one {
		c.plan.set("processes_per_node", setting{value: int64(1), written: "torchrun without --nproc_per_node", strength: inLauncher})
	}
	if len(words) == 0 {
		return &Error{Msg: "the launcher is given no script", Hint: hintCommand}
	}
	return c.script(words)
}

// nodes sets the machines of torchrun: their number, or the least and the most, of which
// the least is counted (torch/distributed/run.py, parse_min_max_nnodes).
func (c *command) nodes(value string) error {
	least, most, elastic := strings.Cut(value, ":")
	if err := c.count("nodes", "--nnodes", least); err != nil || !elastic {
		return err
	}
	if n, err := strconv.ParseInt(most, 10, 64); err != nil || n < c.plan.number("nodes") || n > workload.MaxDegree {
		return &Error{Msg: fmt.Sprintf("--nnodes is %.80q, expected MIN:MAX with a least that is no more than the most", value), Hint: hintRefused}
	}
	c.plan.warn("elastic", "--nnodes "+value+" lets the number of machines change: the least is counted")
	return nil
}

// count sets a count of a launcher; auto and gpu are all devices of the machine.
func (c *command) count(f field, written, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case value == "gpu" || value == "auto":
		if c.visible == 0 {
			c.every = written + " " + value
			return nil
		}
		n = c.visible
	case strings.Contains(value, "$"):
		return &Error{Msg: fmt.Sprintf("%s is %.80q, a variable of the shell that nobody set", written, value), Hint: "write the number in its place"}
	case err != nil || n < 1 || n > workload.MaxDegree:
		return &Error{Msg: fmt.Sprintf("%s is %.80q, expected a whole number of 1 or more", written, value), Hint: hintRefused}
	}
	c.plan.set(f, setting{value: n, written: written, strength: inCommand})
	return c.plan.err
}

// accelerate reads accelerate launch: its file, its flags over it, and the script.
func (c *command) accelerate(words []string) error {
	if len(words) == 0 || words[0] != "launch" {
		return &Error{Msg: "of accelerate's commands launch is read", Hint: hintCommand}
	}
	words = words[1:]
	c.every = "accelerate launch"
	p := c.plan
	t, err := p.table("accelerate")
	if err != nil {
		return err
	}
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		written := strings.Split(words[0], "=")[0]
		name, value, rest := flag(words, "multi_gpu use_deepspeed use_fsdp use_megatron_lm cpu tpu m module no_python debug quiet same_network use_parallelism_config")
		words = rest
		switch name {
		case "config_file":
			p.reads("accelerate")
			if err := p.as("accelerate", value, inLauncher); err != nil {
				return err
			}
			p.folder = ""
			continue
		case "m", "module":
			return c.launch(false, append([]string{"-m"}, words...))
		}
		s := setting{key: name, value: scalar(value), written: written, strength: inFile}
		if value == "" {
			s.value = true
		}
		if err := p.apply(t, s); err != nil {
			return err
		}
	}
	return c.launch(false, words)
}

// deepspeed reads DeepSpeed's launcher, which takes every device where nobody says
// how many.
func (c *command) deepspeed(words []string) error {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		var name, value string
		switch name, value, words = flag(words, "no_python module no_local_rank force_multi enable_each_rank_log bind_cores_to_rank save_pid"); name {
		case "num_gpus", "num_accelerators":
			if err := c.count("processes_per_node", "--"+name, value); err != nil {
				return err
			}
		case "num_nodes":
			if err := c.count("nodes", "--num_nodes", value); err != nil {
				return err
			}
		case "include", "i":
			c.include(value)
		case "module":
			return c.launch(false, append([]string{"-m"}, words...))
		}
	}
	if c.plan.shards() == "" {
		c.plan.set("sharding", setting{value: "deepspeed", written: "deepspeed", strength: inLauncher})
	}
	return c.launch(false, words)
}

// include counts the devices of localhost:0,1@other:0.
func (c *command) include(value string) {
	n := int64(0)
	for _, host := range strings.Split(value, "@") {
		_, list, listed := strings.Cut(host, ":")
		if !listed {
			return
		}
		n += int64(strings.Count(list, ",") + 1)
	}
	c.plan.set("processes", setting{value: n, written: "--include", strength: inCommand})
}

// tune reads torchtune's program: torchrun's flags, the recipe's name, its file and
// what goes over it.
func (c *command) tune(words []string) error {
	if len(words) == 0 || words[0] != "run" {
		return &Error{Msg: "of tune's commands run is read", Hint: hintCommand}
	}
	words = words[1:]
	p := c.plan
	distributed := len(words) > 0 && strings.HasPrefix(words[0], "-")
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		var name, value string
		switch name, value, words = flag(words, "standalone"); name {
		case "nproc_per_node":
			if err := c.count("processes_per_node", "--nproc_per_node", value); err != nil {
				return err
			}
		case "nnodes":
			if err := c.nodes(value); err != nil {
				return err
			}
		}
	}
	if len(words) == 0 {
		return &Error{Msg: "tune run is given no recipe", Hint: hintCommand}
	}
	recipe := words[0]
	if distributed && strings.HasSuffix(recipe, "_single_device") {
		return &Error{Msg: "torchtune's recipe " + recipe + " is given flags of torchrun, and it runs on one device", Hint: "leave them out, or name the recipe of several devices: " + strings.TrimSuffix(recipe, "single_device") + "distributed"}
	}
	if strings.Contains(recipe, "distributed") {
		p.set("sharding", setting{value: "fsdp2", written: "the recipe " + recipe, strength: inLauncher})
	}
	if p.world() == 0 {
		p.set("processes_per_node", setting{value: int64(1), written: "tune run without --nproc_per_node", strength: inLauncher})
	}
	for _, kind := range []string{"knowledge_distillation", "ppo", "dpo", "grpo", "qat", "eleuther", "generate", "quantize"} {
		if strings.Contains(recipe, kind) {
			p.open("the recipe "+recipe, "what it holds beside the trained model, and its loss, are not modelled")
		}
	}
	return c.overridden("torchtune", words[1:])
}

// overridden reads --config FILE and key=value, of torchtune.
func (c *command) overridden(software string, words []string) error {
	p := c.plan
	for len(words) > 0 {
		if words[0] == "--config" && len(words) > 1 {
			if err := p.as(software, words[1], inFile); err != nil {
				return ofRecipe(words[1], err)
			}
			words = words[2:]
			continue
		}
		if err := c.assigned(software, words[0]); err != nil {
			return err
		}
		words = words[1:]
	}
	return nil
}

// ofRecipe adds what to do where torchtune's own name of a recipe is given.
func ofRecipe(name string, err error) error {
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return err
	}
	return &Error{Msg: err.Error(), Hint: "tune cp " + name + " FILE.yaml writes the recipe that torchtune has under that name; name the file"}
}

// assigned reads key=value over a file.
func (c *command) assigned(software, word string) error {
	key, value, found := strings.Cut(word, "=")
	if !found {
		return &Error{Msg: fmt.Sprintf("%.80q is no key=value", word), Hint: hintCommand}
	}
	t, err := c.plan.table(software)
	if err != nil {
		return err
	}
	s := setting{key: strings.TrimLeft(key, "-+"), value: scalar(value), written: strings.TrimLeft(key, "-+"), strength: inCommand}
	if _, of := c.plan.keys[s.key+"._component_"]; of { // torchtune/config/_utils.py, _merge_yaml_and_cli_args
		s.key += "._component_"
	}
	return c.plan.apply(t, s)
}

// llamaFactory reads llamafactory-cli train, with a file or with flags.
func (c *command) llamaFactory(words []string) error {
	if len(words) == 0 || words[0] != "train" && words[0] != "export" {
		return &Error{Msg: "of LLaMA-Factory's commands train and export are read", Hint: hintCommand}
	}
	if words[0] == "train" {
		c.every = "llamafactory-cli train"
	}
	c.plan.exporting = words[0] == "export"
	return c.arguments("llamafactory", words[1:])
}

// axolotl reads axolotl train with its file and flags.
func (c *command) axolotl(words []string) error {
	if len(words) == 0 || words[0] != "train" {
		return &Error{Msg: "of axolotl's commands train is read", Hint: hintCommand}
	}
	c.every = "axolotl train"
	return c.arguments("axolotl", words[1:])
}

// trl reads TRL's program: the method, a file, and flags over it.
func (c *command) trl(words []string) error {
	method := ""
	if len(words) > 0 {
		method = words[0]
	}
	switch method {
	case "sft", "dpo", "grpo", "kto", "reward", "rloo":
	case "vllm-serve":
		return &Error{Msg: "trl vllm-serve trains nothing: it is vLLM's server, which a training asks to generate", Hint: "give the command of the server: floodmark estimate -- vllm serve MODEL …"}
	default:
		return &Error{Msg: "of TRL's commands sft, dpo, grpo, kto, reward and rloo are read", Hint: hintCommand}
	}
	c.plan.method, c.plan.ofTRL, c.every = words[0], true, "trl "+words[0]
	return c.arguments("transformers", words[1:])
}
