package recipe

import (
	"fmt"
	"path"
	"strings"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/workload"
)

// Recipe is what files and a command say of a training.
type Recipe struct {
	Software string // whose configuration it is, as its tables are called
	// Models are names of the model, the first that exists counts: what the
	// configuration names, and what a software's own name for it is called elsewhere.
	Models []string
	// Config is the model itself, as a config.json of Hugging Face would say it, of
	// software whose arguments hold its sizes; nil elsewhere.
	Config []byte
	// Arguments are those of Megatron-LM by name, without dashes, where they hold the
	// model's sizes and Config cannot say it; nil elsewhere.
	Arguments map[string]string
	Workload  workload.Workload
	Devices   int // that the command is given; 0 where it does not say
	Declared  []workload.Declaration
	Assumed   []Assumption
	Warnings  []account.Warning
	// Hidden is called with the width of the model where a file leaves sizes of
	// buckets to it; nil elsewhere.
	Hidden func(*workload.Workload, int64)
	// Ranks is called once it is known how many ranks train, and with which release,
	// where the software divides what it keeps whenever there are several; nil elsewhere.
	Ranks func(*workload.Workload)
	// Ranked is called with the data-parallel ranks where they are said beside files that
	// do not say how many processes train: what follows from their number, or contradicts
	// it; nil elsewhere.
	Ranked func(*workload.Workload) error
	// Adapter is the folder of an adapter that is merged; empty for none.
	Adapter  string
	freezing *freezing // of models that read more than text; nil where nothing is
}

// LengthNotSaid is the code of the warning that no configuration says how many
// positions a sequence has; where it is said elsewhere it no longer holds.
const LengthNotSaid = "length_not_said"

// Assumption is what nobody said, and was counted one way. Over it nothing is decided
// unless the flag says it.
type Assumption struct{ Flag, Text string }

// Error is a command line that cannot be read.
type Error struct{ Msg, Hint string }

// Error is the message.
func (e *Error) Error() string { return e.Msg }

// Files reads a file that a command or another file names, as it is named there.
type Files func(name string) ([]byte, error)

// Bounds of what is read.
const (
	mostBytes   = 1 << 20
	mostNesting = 32
	mostWords   = 4096
	mostFiles   = 16 // that name each other
	mostKeys    = 2000
	mostText    = 1 << 15
)

// Read reads configuration files that belong to one training: a recipe, and
// beside it those of its launcher and of its sharding.
func Read(names []string, files Files) (*Recipe, error) { return Reader{Files: files}.Read(names) }

// Read is [Read] with what the reader knows beside the files.
func (r Reader) Read(names []string) (*Recipe, error) {
	p := newPlan(r)
	of := map[string]string{} // kinds of files, of which there is one each
	for _, name := range names {
		software, err := p.file(name)
		if err != nil {
			return nil, err
		}
		kind := software
		if software != "accelerate" && software != "deepspeed" {
			kind = "what trains"
		}
		if first := of[kind]; first != "" {
			return nil, source.InField(name, "", "is a configuration of %s beside %s, and a training has one of its kind", software, first).
				WithHint("give one of them, and beside it those of the launcher (accelerate) and of the shards (DeepSpeed)")
		}
		of[kind] = name
	}
	p.alone()
	return p.finish()
}

// Is reports whether the text of a file is a configuration that this package
// reads; name tells TOML from YAML.
func Is(name string, text []byte) bool {
	tree, err := decode(name, text)
	return err == nil && recognise(tree) != ""
}

// file reads one configuration file into the plan, and says whose it is.
func (p *plan) file(name string) (string, error) {
	tree, err := p.read(name)
	if err != nil {
		return "", err
	}
	software := recognise(tree)
	if software == "" {
		return "", source.InField(name, "", "is no configuration that is known here").
			WithHint("known are those of %s, told by their keys", strings.Join(softwareNames(), ", "))
	}
	return software, p.tree(software, name, tree, inFile)
}

// as reads a file that is known to be a software's, because a command says so.
func (p *plan) as(software, name string, s strength) error {
	tree, err := p.read(name)
	if err != nil {
		return err
	}
	return p.tree(software, name, tree, s)
}

// read opens a file and decodes it.
func (p *plan) read(name string) (map[string]any, error) {
	if p.opened++; p.opened > mostFiles {
		return nil, source.InField(name, "", "is the %d. file that the configuration names, more than are read", p.opened)
	}
	text, err := p.files(name)
	if err != nil {
		return nil, err
	}
	return decode(name, text)
}

// tree applies each key of a document by the software's table.
func (p *plan) tree(software, name string, tree map[string]any, s strength) error {
	p.reads(software)
	t, err := p.table(software)
	if err != nil {
		return err
	}
	if p.folder = path.Dir(name); software == "torchtune" {
		p.component(name, tree)
	}
	notes := strings.HasSuffix(strings.ToLower(name), ".json")
	for _, set := range flatten(tree) {
		if set.file, set.strength = name, s; notes && isNote(set.key) {
			continue
		}
		if err := p.apply(t, set); err != nil {
			return err
		}
	}
	return nil
}

// isNote reports a key that JSON, which has no comments, has for one: _comment, or what
// else begins with _.
func isNote(key string) bool {
	return (strings.HasPrefix(key, "_") || strings.Contains(key, "._")) && !strings.HasSuffix(key, "_component_")
}

// finish turns what was said into a recipe.
func (p *plan) finish() (*Recipe, error) {
	if p.software == "" {
		return nil, &Error{Msg: "nothing says what is trained and how: " + hintSoftware, Hint: hintCommand}
	}
	p.trains()
	p.contradicts()
	if p.err != nil {
		return nil, p.err
	}
	p.resolve()
	if p.err != nil {
		return nil, p.err
	}
	if p.recipe.Workload = p.workload; p.world() == 0 {
		p.recipe.Ranked = p.ranked
	}
	if len(p.auto) > 0 {
		p.recipe.Hidden = ofWidth(p.auto)
	}
	p.recipe.Declared = append(p.declarations(), p.derived...)
	p.recipe.Software = p.software
	return &p.recipe, nil
}

const (
	hintSoftware = "a recipe of transformers, TRL, axolotl, LLaMA-Factory, torchtune or torchtitan, or a command that starts one"
	hintCommand  = "name the recipe's file too (--config may be given several times), or give the whole command: torchrun … train.py …, accelerate launch …, deepspeed …, tune run …, llamafactory-cli train X.yaml, axolotl train X.yaml"
)

// resolve applies the rules of the software that trains.
func (p *plan) resolve() {
	switch p.software {
	case "axolotl":
		p.axolotl()
	case "llamafactory":
		if p.exports() {
			p.merges()
			break
		}
		p.llamaFactory()
	case "torchtune":
		p.torchtune()
	case "torchtitan":
		p.torchtitan()
	case "megatron":
		p.megatron()
	default:
		p.transformers()
	}
}

// softwareNames lists whose configurations are read.
func softwareNames() []string {
	return []string{"transformers", "accelerate", "deepspeed", "axolotl", "llamafactory", "torchtune", "torchtitan", "megatron"}
}

// recognise tells a configuration by keys that no other has; empty for none.
func recognise(tree map[string]any) string {
	has := func(keys ...string) bool {
		for _, k := range keys {
			if _, there := tree[k]; there {
				return true
			}
		}
		return false
	}
	section := func(key, inner string) bool {
		m, is := tree[key].(map[string]any)
		_, there := m[inner]
		return is && there
	}
	switch {
	case section("model", "_component_") || section("optimizer", "_component_") || section("checkpointer", "_component_"):
		return "torchtune"
	case has("distributed_type", "compute_environment"):
		return "accelerate"
	case section("model", "flavor") || section("training", "seq_len") || section("training", "local_batch_size") || section("job", "config_file"):
		return "torchtitan"
	case has("base_model", "base_model_config"):
		return "axolotl"
	case has("finetuning_type", "cutoff_len", "export_dir") || has("stage") && has("template"):
		return "llamafactory"
	case has("per_device_train_batch_size", "num_train_epochs", "gradient_checkpointing", "max_completion_length", "output_dir", "model_name_or_path"):
		return "transformers"
	case has("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size") || section("bf16", "enabled") || section("fp16", "enabled"):
		return "deepspeed"
	}
	return ""
}

// inKey says where a setting was read.
func (s setting) where() string {
	if s.file == "" {
		return s.written
	}
	return fmt.Sprintf("%s: %s", s.file, s.key)
}
