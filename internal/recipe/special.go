package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// special reads the keys that are more than a value of one field: those that name
// another file, and those that are written in several forms. It is false for others.
func (p *plan) special(software string, s setting) bool {
	switch software {
	case "accelerate":
		return p.specialAccelerate(s)
	case "deepspeed":
		return p.specialDeepSpeed(s)
	case "transformers", "llamafactory":
		return p.specialTransformers(software, s)
	case "axolotl":
		return p.specialAxolotl(s)
	case "torchtune":
		return p.specialTorchtune(s)
	}
	return false
}

func (p *plan) specialAccelerate(s setting) bool {
	switch key := strings.TrimPrefix(s.key, "deepspeed_config."); key {
	case "distributed_type":
		kind := strings.ToLower(fmt.Sprint(s.value))
		switch kind {
		case "no", "multi_gpu", "fsdp", "deepspeed":
		case "<nil>":
			return true
		default:
			p.lowers(s.where(), "the way to distribute "+kind+" is not modelled")
			return true
		}
		s.value = kind
		p.set("sharding", s)
		return true
	case "use_deepspeed", "use_fsdp":
		if p.on(s) {
			p.sharded(strings.TrimPrefix(key, "use_"), s)
		}
		return true
	case "deepspeed_config_file":
		p.named("deepspeed", s)
		return true
	case "mixed_precision":
		if s.value == "fp8" {
			p.lowers(s.where(), "computation in 8 bits")
			return true
		}
		if s.value == false { // no, unquoted
			s.value = "no"
		}
	}
	return false
}

// named reads the file that a setting names, beside the file that names it.
func (p *plan) named(software string, s setting) {
	name := p.textIn(s, "the name of a file")
	if name == "" {
		return
	}
	strength := s.strength
	if strength == inCommand {
		strength = inFile
	}
	folder := p.folder
	err := p.as(software, p.beside(name), strength)
	p.folder = folder
	if err != nil {
		p.keep(p.lost(s, err))
	}
}

// lost is why a file that a setting names was not read, and where it was looked for if it
// is not there.
func (p *plan) lost(s setting, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s names it: %w", s.where(), err)
	}
	looked := "it is looked for from the folder where floodmark is started"
	if s.file != "" {
		looked += ", and beside " + s.file
	}
	return &Error{Msg: fmt.Sprintf("%s names it: %v", s.where(), err), Hint: looked + ": start there, or give the whole path"}
}

// beside is a file's name as it can be opened: as it is named, or from the folder of
// the file that names it, whichever is there.
func (p *plan) beside(name string) string {
	if path.IsAbs(name) || p.folder == "" || p.folder == "." {
		return name
	}
	if _, err := p.files(name); err == nil {
		return name
	}
	return path.Join(p.folder, name)
}

// specialDeepSpeed reads the optimizers, of which DeepSpeed has its own.
func (p *plan) specialDeepSpeed(s setting) bool {
	switch {
	case s.key == "optimizer.params.torch_adam" && s.value == true:
		p.set("foreach", setting{value: true, file: s.file, key: s.key, written: s.written, strength: s.strength})
		return true
	case s.key == "zero_optimization.stage" && s.value == "auto":
		p.lowers(s.where(), "the stage is found while it starts")
		return true
	case strings.HasPrefix(s.key, "zero_optimization.") && s.value == "auto":
		switch key := strings.TrimPrefix(s.key, "zero_optimization."); key {
		case "reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold":
			p.auto = append(p.auto, key)
			p.derive(strings.TrimPrefix(key, "stage3_"), "auto", s.where()+": of the model's width, by transformers")
		}
		return true
	}
	return s.value == "auto" // from the arguments of the Trainer
}

// specialTransformers reads deepspeed and fsdp, each a file, a table or words.
func (p *plan) specialTransformers(software string, s setting) bool {
	key, inner, nested := strings.Cut(s.key, ".")
	switch {
	case key == "deepspeed" && nested:
		t, err := p.table("deepspeed")
		if err == nil {
			s.key = inner
			err = p.apply(t, s)
		}
		p.keep(err)
		return true
	case key == "deepspeed" && s.value == true && s.file == "": // DeepSpeed's own switch of a command
		return true
	case key == "deepspeed" || key == "deepspeed_config":
		p.named("deepspeed", s)
		return true
	case key == "fsdp":
		if nested {
			s.key, s.value = key, map[string]any{}
		}
		p.fsdpWords(s)
		return true
	case key == "fsdp_config":
		p.fsdpKey(inner, s)
		return true
	case key == "stage" && software == "llamafactory":
		p.method = p.word(s, "pt", "sft", "rm", "ppo", "dpo", "kto")
		return true
	case key == "export_device" && software == "llamafactory":
		p.exportsTo = p.word(s, "cpu", "auto")
		return true
	case key == "disable_gradient_checkpointing" && software == "llamafactory":
		if p.on(s) {
			s.value = false
			p.set("checkpointing", s)
		}
		return true
	case s.key == "use_flash_attn" && software == "transformers":
		if p.on(s) {
			s.value = "flash_attention_2"
			p.set("attention", s)
		}
		return true
	case s.key == "gradient_checkpointing_kwargs" && software != "llamafactory":
		p.checkpointArguments(s)
		return true
	case key == "gradient_checkpointing" && s.value == "offload":
		p.lowersPasses(s.where(), "checkpoints move to main memory")
		s.value = true
		p.set("checkpointing", s)
		return true
	}
	t, err := p.table(software)
	if software == "llamafactory" && err == nil && t.find(s.key) == nil {
		// Its arguments are the Trainer's and its own.
		outer, err := p.table("transformers")
		if err == nil && outer.find(s.key) != nil {
			p.keep(p.apply(outer, s))
			return true
		}
	}
	return false
}

// checkpointArguments reads an object of JSON on a command line; one in a file has
// its keys by themselves.
func (p *plan) checkpointArguments(s setting) {
	text := p.textIn(s, "an object of JSON")
	if text == "" {
		return
	}
	tree, err := decode(s.where(), []byte(text))
	if err != nil {
		p.keep(err)
		return
	}
	s.value = tree["use_reentrant"]
	p.set("use_reentrant", s)
}

// fsdpWords reads --fsdp "full_shard auto_wrap offload", or a list of these.
func (p *plan) fsdpWords(s setting) {
	if on, is := s.value.(bool); is {
		if on {
			p.sharded("fsdp", s)
		}
		return
	}
	if s.value == nil {
		return
	}
	words, err := listOf(s.value)
	if err != nil {
		p.wrong(s, "words such as full_shard")
		return
	}
	if len(words.([]string)) == 0 {
		return
	}
	p.sharded("fsdp", s)
	for _, w := range words.([]string) {
		word := s
		switch strings.ToLower(w) {
		case "full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2":
			word.value = w
			p.set("fsdp_strategy", word)
		case "offload":
			word.value = true
			p.set("fsdp_offload", word)
		case "auto_wrap":
		default:
			p.lowers(s.where(), "the word "+w+" is not known here")
		}
	}
}

func (p *plan) sharded(kind string, s setting) {
	s.value = kind
	p.set("sharding", s)
}

// fsdpFile reads the file that --fsdp_config names, whose keys are those of the setting,
// or the same as text: an object of JSON.
func (p *plan) fsdpFile(s setting) {
	name := p.textIn(s, "the name of a file, or an object of JSON")
	if name == "" {
		return
	}
	tree, err := map[string]any(nil), error(nil)
	if strings.HasPrefix(strings.TrimSpace(name), "{") {
		tree, err = decode(s.where(), []byte(name))
	} else {
		name = p.beside(name)
		tree, err = p.read(name)
	}
	if err != nil {
		p.keep(p.lost(s, err))
		return
	}
	for _, set := range flatten(tree) {
		set.strength = min(s.strength, inFile)
		if set.file = name; strings.HasPrefix(name, "{") {
			set.file, set.written = s.file, s.written
		}
		p.fsdpKey(set.key, set)
	}
}

// fsdpKey reads one key of fsdp_config, which the Trainer writes with and without
// fsdp_ in front.
func (p *plan) fsdpKey(key string, s setting) {
	if key == "" {
		p.fsdpFile(s)
		return
	}
	t, err := p.table("accelerate")
	if err != nil {
		return
	}
	s.key = "fsdp_config.fsdp_" + strings.TrimPrefix(key, "fsdp_")
	if key == "version" {
		s.key = "fsdp_config.fsdp_version"
	}
	switch key {
	case "xla", "xla_fsdp_v2", "xla_fsdp_grad_ckpt", "limit_all_gathers", "cpu_ram_efficient_loading", "sync_module_states", "use_orig_params", "forward_prefetch", "backward_prefetch":
		return
	}
	if s.key == "fsdp_config.fsdp_transformer_layer_cls_to_wrap" {
		return
	}
	p.keep(p.apply(t, s))
}

// specialAxolotl reads the switches of axolotl that are forms of one thing.
func (p *plan) specialAxolotl(s setting) bool {
	switch s.key {
	case "deepspeed":
		p.named("deepspeed", s)
	case "fsdp":
		p.fsdpWords(s)
	case "fsdp_config":
		// an empty table
	case "rl":
		p.method = p.textIn(s, "the name of a method such as dpo")
	case "lora_target_linear":
		p.set("lora_linear", s)
	case "flash_attention", "sdp_attention", "eager_attention", "flex_attention", "xformers_attention", "sage_attention":
		if p.on(s) {
			s.value = strings.TrimSuffix(s.key, "_attention")
			p.set("attention", s)
		}
	case "bf16":
		if s.value == "full" { // bf16_full_eval alone: weights in 16 bits, without autocast
			s.value = true
			p.set("pure_bf16", s)
			s.value = false
		}
		p.set("bf16", s)
	case "plugins":
		if !lossPlugins(s.value) {
			return false
		}
		p.lowersPasses(s.where(), "a plugin may replace modules and the loss")
	case "test_datasets":
		if !empty(s.value) {
			s.value = int64(1) // whatever they hold
			p.set("validation", s)
		}
	case "gradient_checkpointing":
		if text, is := s.value.(string); is && slices.Contains([]string{"offload", "offload_disk", "unsloth"}, text) {
			p.lowersPasses(s.where(), "checkpoints move to main memory")
			s.value = true
		}
		p.set("checkpointing", s)
	default:
		return false
	}
	return true
}

// lossPlugins reports plugins of axolotl that replace modules and the loss, and nothing
// that stays; others may freeze, pack or divide (axolotl/integrations).
func lossPlugins(value any) bool {
	names, err := listOf(value)
	list, _ := names.([]string)
	return err == nil && len(list) > 0 && !slices.ContainsFunc(list, func(name string) bool {
		return !strings.Contains(name, "integrations.liger.") && !strings.Contains(name, "integrations.cut_cross_entropy.")
	})
}

// specialTorchtune reads the names of classes.
func (p *plan) specialTorchtune(s setting) bool {
	if text, is := s.value.(string); is && strings.HasPrefix(text, "${") {
		return true // what another key says
	}
	if s.key == "model" {
		p.lowers(s.where(), "it builds no model")
	}
	if !strings.HasSuffix(s.key, "_component_") {
		return s.key == "model"
	}
	switch strings.TrimSuffix(s.key, "._component_") {
	case "model":
		p.set("model_builder", s)
	case "optimizer":
		p.set("optimizer", s)
	case "loss":
		p.set("loss", s)
	case "dataset", "tokenizer", "checkpointer", "lr_scheduler", "metric_logger", "profiler", "dataset_val":
	default:
		p.open(s.where(), "what this component holds is not known")
	}
	return true
}
