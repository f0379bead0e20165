package recipe

import (
	"path"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// component notes what only the whole document shows: which recipe it is for, by
// the keys that only recipes for several devices have.
func (p *plan) component(name string, tree map[string]any) {
	for _, key := range []string{"custom_sharded_layers", "fsdp_cpu_offload", "fsdp_reshard_after_forward", "tensor_parallel_dim", "data_parallel_shard_dim"} {
		if _, there := tree[key]; there {
			p.set("sharding", setting{value: "fsdp2", file: name, key: key, strength: inLauncher})
			return
		}
	}
}

// torchtune resolves a recipe of torchtune: parameters, gradients and states are all
// in the recipe's dtype, without autocast (recipes/full_finetune_single_device.py),
// and recipes for several devices shard them by fully_shard, parameter by parameter
// (torchtune/training/_distributed.py). Source: torchtune at bd2a0fc7c314.
func (p *plan) torchtune() {
	if !p.said("optimizer") {
		p.err = &Error{Msg: "the recipe of torchtune names no optimizer: it evaluates, generates or quantises, and trains nothing"}
		return
	}
	t := p.train()
	p.workload.Engine = workload.Engine{Name: "torchtune"}
	p.needsContext()
	p.checkpoints(t)
	name, adapter := p.torchtuneModel()
	if name != "" {
		p.recipe.Models = append(p.recipe.Models, name)
	}
	p.otherwise("weights_format", "bf16", "default of torchtune's recipes")
	format := p.format("weights_format")
	p.torchtuneOptimizer(t)
	p.lays()
	if p.text("sharding") == "fsdp2" || p.workload.Mesh.DataParallel > 1 {
		t.Sharding = &workload.Sharding{Kind: workload.FSDP2, KeepsGathered: p.said("reshard") && !p.yes("reshard")}
		p.groups(t.Sharding)
		if p.yes("fsdp_offload") {
			t.Sharding.Offload = []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters}
		}
		if p.world() == 0 {
			p.assume("data-parallel", "the recipe is one for several devices, and how many is not said: one is counted (give --data-parallel, or the command tune run --nproc_per_node)")
		}
	}
	if adapter {
		p.torchtuneAdapter(t, format)
	} else {
		p.plain(format, p.where("weights_format")+": all that torchtune trains is in it")
	}
	t.Packed = p.yes("packing")
	p.torchtuneValidates()
	p.torchtuneLoss(t, format)
	p.recipe.Ranks = torchtuneRanks
}

// torchtuneRanks divides what is kept over the ranks wherever there are several:
// torchtune's recipes for one device refuse more, and those for several know no other
// way (recipes/full_finetune_distributed.py, "DDP is currently not supported"). Until
// 0.2.1 it was FullyShardedDataParallel, from 0.3 on fully_shard.
func torchtuneRanks(w *workload.Workload) {
	t := w.Training
	if t == nil || w.Engine.Name != "torchtune" {
		return
	}
	first := strings.HasPrefix(w.Engine.Version, "0.1") || strings.HasPrefix(w.Engine.Version, "0.2")
	switch {
	case t.Sharding == nil && w.Mesh.DataParallel > 1 && first:
		t.Sharding = &workload.Sharding{Kind: workload.FSDP1}
	case t.Sharding == nil && w.Mesh.DataParallel > 1:
		t.Sharding = &workload.Sharding{Kind: workload.FSDP2}
	case t.Sharding != nil && t.Sharding.Kind == workload.FSDP2 && first:
		t.Sharding.Kind = workload.FSDP1
	}
	for i := range w.Resident { // a reference is divided as what is trained
		w.Resident[i].Divided = t.Sharding != nil && t.Sharding.Kind != workload.DDP
	}
}

// torchtuneLoss reads which recipe a file is for by the class of its loss, since no key
// says it. Of a loss other than cross entropy the least is counted: that of the same
// logits.
func (p *plan) torchtuneLoss(t *workload.Train, base dtype.Format) {
	loss := p.text("loss")
	class := loss[strings.LastIndex(loss, ".")+1:]
	switch class {
	case "":
	case "CEWithChunkedOutputLoss":
		t.Loss = workload.ChunkedLoss
	case "LinearCrossEntropyLoss":
		// Its head runs in the loss, part by part (torchtune at bd2a0fc7c314,
		// modules/loss/cross_entropy_loss.py): what is counted is no less.
		t.Loss = workload.ChunkedLoss
		p.workload.LoweringPasses = with(p.workload.LoweringPasses, p.where("loss")+": "+class+" makes the logits of one part at a time and leaves out labels that are ignored: those of all parts in 16 bits are counted, as CEWithChunkedOutputLoss has them")
	case "CrossEntropyLoss":
		t.Loss = workload.PlainLoss
	case "DPOLoss", "RSOLoss", "IPOLoss":
		p.pairs()
		p.reference(base, true)
		p.open(p.where("loss"), "a recipe of preferences (lora_dpo_*, full_dpo_*): its loss "+class+" and the pass of its reference are not modelled")
	case "SimPOLoss":
		p.pairs()
		p.open(p.where("loss"), "a recipe of preferences (lora_dpo_*): its loss "+class+" is not modelled")
	case "PPOLoss":
		p.open(p.where("loss"), "a recipe of PPO: generation, the policy, value, reward and reference models and their losses are not modelled")
	case "GRPOLoss", "GRPOSimpleLoss", "GRPOCompletionLoss", "GRPOWithChunkedOutputLoss", "LinearGRPOLoss":
		p.open(p.where("loss"), "a recipe of GRPO: generation, the reference model and the loss "+class+" are not modelled")
	default:
		if strings.Contains(class, "KL") {
			p.open(p.where("loss"), "a recipe of distillation: its teacher and its loss "+class+" are not modelled")
			return
		}
		p.lowersPasses(p.where("loss"), "the loss "+shown(loss)+" is not known here")
	}
}

// torchtuneModel is the model by its builder's name elsewhere, and whether the
// builder puts an adapter on it.
func (p *plan) torchtuneModel() (name string, adapter bool) {
	if folder := strings.TrimSuffix(p.text("assets"), "/"); folder != "" && !strings.Contains(folder, "${") {
		if _, err := p.files(path.Join(folder, "config.json")); err == nil {
			p.recipe.Models = append(p.recipe.Models, folder)
		}
	}
	builder := path.Ext("." + p.text("model_builder"))
	builder = builder[strings.LastIndex(builder, ".")+1:]
	plain := builder
	for _, kind := range []string{"qlora_", "lora_"} {
		if rest, is := strings.CutPrefix(builder, kind); is {
			plain, adapter = rest, true
			if kind == "qlora_" {
				p.otherwise("four_bit", true, p.where("model_builder"))
				p.otherwise("double_quantised", true, "torchao's NF4 quantises its scales too")
			}
			break
		}
	}
	if name = named("torchtune", plain); name != "" {
		p.derive("model", name, p.where("model_builder")+": what "+plain+" builds")
	} else if builder != "" {
		p.lowers(p.where("model_builder"), "what it builds is not known here")
	}
	return name, adapter
}

func (p *plan) torchtuneAdapter(t *workload.Train, format dtype.Format) {
	p.tunes(t, format, p.where("model_builder")+" and "+p.where("weights_format"))
	t.Tuning.Format = format
	var targets []string
	for _, m := range t.Tuning.Targets {
		if m == "output_proj" {
			m = "o_proj"
		}
		targets = append(targets, m)
	}
	if p.yes("lora_mlp") {
		targets = append(targets, "gate_proj", "up_proj", "down_proj")
	}
	if p.yes("lora_head") {
		targets = append(targets, "lm_head")
	}
	t.Tuning.Targets = targets
}

// torchtuneOptimizer reads the optimizer by its class.
func (p *plan) torchtuneOptimizer(t *workload.Train) {
	class := p.text("optimizer")
	implementation := "foreach"
	switch {
	case p.yes("fused"):
		implementation = "fused"
	case p.said("foreach") && !p.yes("foreach"):
		implementation = "for_loop"
	}
	switch class {
	case "torch.optim.AdamW", "torch.optim.Adam":
		p.optimizes(t, "adamw", implementation)
	case "torch.optim.SGD":
		p.optimizes(t, "sgd", implementation)
	case "bitsandbytes.optim.PagedAdamW8bit":
		p.optimizes(t, "paged_adamw_8bit", "")
	case "bitsandbytes.optim.PagedAdamW":
		p.optimizes(t, "paged_adamw_32bit", "")
	case "bitsandbytes.optim.AdamW8bit", "bitsandbytes.optim.Adam8bit":
		p.optimizes(t, "adamw_8bit", "")
	default:
		p.optimizes(t, class, "")
	}
}

// named is what a software's own name of a model is called on the hub.
func named(software, name string) string {
	text, err := tableText("models")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == software && words[1] == name {
			return words[2]
		}
	}
	return ""
}
