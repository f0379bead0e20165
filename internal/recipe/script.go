package recipe

import (
	"path"
	"strconv"
	"strings"
)

// script reads a script with its arguments, or a module behind -m.
func (c *command) script(words []string) error {
	name := words[0]
	words = words[1:]
	if name == "-m" {
		if len(words) == 0 {
			return &Error{Msg: "-m names no module", Hint: hintCommand}
		}
		name, words = words[0], words[1:]
		switch name {
		case "torch.distributed.run", "torch.distributed.launch":
			return c.torchrun(words)
		case "accelerate.commands.launch":
			return c.accelerate(append([]string{"launch"}, words...))
		case "deepspeed.launcher.runner":
			return c.deepspeed(words)
		}
	}
	if strings.HasPrefix(name, "-") {
		return &Error{Msg: "the command names no script", Hint: hintCommand}
	}
	base, software := path.Base(name), softwareOf(name, words)
	if software == "megatron" && strings.HasPrefix(base, "pretrain_") && base != "pretrain_gpt.py" {
		// BERT has heads and a pooler of its own, T5 two stacks, Mamba other layers.
		c.plan.lowers(base, "it builds another model than pretrain_gpt.py, whose layers have a program here")
		c.plan.builds = strings.TrimSuffix(strings.TrimPrefix(base, "pretrain_"), ".py")
	}
	c.plan.ofTRL = strings.HasPrefix(name, "trl.scripts.") || strings.Contains(name, "trl/scripts/") || strings.Contains(name, "trl/examples/scripts/")
	c.methodOf(base)
	return c.arguments(software, words)
}

// methodOf tells TRL's trainers by the name of the script.
func (c *command) methodOf(script string) {
	stem := strings.ToLower(strings.TrimSuffix(script, ".py"))
	stem = stem[strings.LastIndex(stem, ".")+1:] // of a module
	for _, m := range []string{"grpo", "dpo", "kto", "sft", "rloo"} {
		if stem == m || strings.HasPrefix(stem, m+"_") || strings.HasSuffix(stem, "_"+m) {
			c.plan.method = m
		}
	}
}

// softwareOf is whose arguments a script takes.
func softwareOf(name string, words []string) string {
	base := path.Base(name)
	switch {
	case strings.HasPrefix(name, "axolotl"):
		return "axolotl"
	case strings.HasPrefix(name, "llamafactory") || strings.HasSuffix(name, "llamafactory/launcher.py"):
		return "llamafactory"
	case strings.HasPrefix(base, "pretrain_") && strings.HasSuffix(base, ".py"):
		return "megatron"
	case strings.HasPrefix(name, "torchtitan"):
		return "torchtitan"
	}
	for _, w := range words {
		switch w = strings.SplitN(w, "=", 2)[0]; w {
		case "--job.config_file", "--job.config-file", "--training.seq_len":
			return "torchtitan"
		case "--tensor-model-parallel-size", "--micro-batch-size", "--num-attention-heads":
			return "megatron"
		case "--finetuning_type", "--cutoff_len":
			return "llamafactory"
		}
	}
	return "transformers"
}

// arguments reads what a script is given: files, which come first, and flags over
// them, as HfArgumentParser, TrlParser, OmegaConf and argparse have it. A flag takes
// the words behind it up to the next flag.
func (c *command) arguments(software string, words []string) error {
	p := c.plan
	t, err := p.table(software)
	if err != nil {
		return err
	}
	settings, files := flags(t, words)
	if own := c.ownSoftware(software, files); own != software {
		return c.arguments(own, words)
	}
	p.reads(software)
	for _, f := range files {
		if key, _, is := strings.Cut(f, "="); is && !strings.HasSuffix(strings.ToLower(key), "yaml") {
			if err := c.assigned(software, f); err != nil {
				return err
			}
			continue
		}
		if err := c.config(software, f); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if name, is := s.value.(string); is && isConfig(s.key) {
			if err := c.config(software, name); err != nil {
				return err
			}
		}
	}
	p.folder = ""
	for _, s := range settings {
		if isConfig(s.key) || c.ofLauncher(software, s) {
			continue
		}
		if err := p.apply(t, s); err != nil {
			return err
		}
	}
	return nil
}

// ownSoftware is whose arguments a script takes whose first file is LLaMA-Factory's, as
// its src/train.py does.
func (c *command) ownSoftware(software string, files []string) string {
	if software != "transformers" || len(files) == 0 {
		return software
	}
	text, err := c.plan.files(files[0])
	if err != nil {
		return software // who reads it says so
	}
	if tree, err := decode(files[0], text); err == nil && recognise(tree) == "llamafactory" {
		return "llamafactory"
	}
	return software
}

// isConfig reports the flag by which a script is given its file.
func isConfig(key string) bool { return key == "config" || key == "job.config_file" }

// config reads a script's file; a Trainer's script may be given one of TRL.
func (c *command) config(software, name string) error {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json", ".toml":
		return c.plan.as(software, name, inFile)
	}
	if software == "axolotl" || software == "torchtitan" {
		return c.plan.as(software, name, inFile)
	}
	c.plan.warn("word_not_read", "the word "+strconv.Quote(name)+" of the command is no flag and no configuration")
	return nil
}

// ofLauncher reads flags by which trl and axolotl pass processes on.
func (c *command) ofLauncher(software string, s setting) bool {
	switch {
	case software != "transformers" && software != "axolotl":
	case s.key == "num_processes":
		c.plan.set("processes", s)
		return true
	case s.key == "nproc_per_node":
		c.plan.set("processes_per_node", s)
		return true
	case s.key == "launcher" || s.key == "main_process_port" || s.key == "debug":
		return true
	case s.key == "accelerate_config":
		if name, is := s.value.(string); is {
			switch strings.ToLower(path.Ext(name)) {
			case ".yaml", ".yml":
				if err := c.plan.as("accelerate", name, inLauncher); err != nil && c.plan.err == nil {
					c.plan.err = err
				}
			default:
				c.named(name, s)
			}
			return true
		}
	}
	return false
}

// named are the configurations that TRL has by name (trl/accelerate_configs).
func (c *command) named(name string, s setting) {
	p := c.plan
	s.strength = inLauncher
	switch name {
	case "zero1", "zero2", "zero3":
		s.value = int64(name[4] - '0')
		p.set("zero_stage", s)
	case "fsdp1", "fsdp2":
		s.value = int64(name[4] - '0')
		p.set("fsdp_version", s)
	case "single_gpu":
		s.value = int64(1)
		p.set("processes", s)
		return
	case "multi_gpu":
	default:
		p.lowers(s.where(), "the configuration "+name+" is not one that TRL has by name")
		return
	}
	p.otherwise("processes", int64(8), "TRL's configuration "+name)
}

// flags cuts the words of a script into settings and the words that are none.
func flags(t *table, words []string) (settings []setting, loose []string) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if !isFlag(word) {
			loose = append(loose, word)
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		s := setting{key: strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"), value: true, written: name, strength: inCommand}
		var values []string
		if joined {
			values = []string{value}
		}
		for !joined && len(words) > 0 && !isFlag(words[0]) {
			values, words = append(values, words[0]), words[1:]
		}
		switch len(values) {
		case 0:
		case 1:
			s.value = argument(strings.Trim(values[0], `"'`))
		default:
			list := make([]any, len(values))
			for i, v := range values {
				list[i] = v
			}
			s.value = list
		}
		section := s.key[:strings.LastIndex(s.key, ".")+1] // tyro writes --section.no-key
		if plain, negated := strings.CutPrefix(s.key[len(section):], "no_"); negated && len(values) == 0 && t.find(s.key) == nil && t.find(section+plain) != nil {
			s.key, s.value = section+plain, false
		}
		settings = append(settings, s)
	}
	return settings, loose
}

// isFlag reports a word that begins a flag; a negative number begins none.
func isFlag(word string) bool {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil
}
