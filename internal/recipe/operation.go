package recipe

import "fmt"

// trains refuses a configuration that trains nothing: read as a training, it would be
// counted with gradients and states that nobody keeps.
//
// Sources: do_train is false where nobody says it (transformers, TrainingArguments), and
// LLaMA-Factory trains only where it is set (train/sft/workflow.py); export_dir is where
// llamafactory-cli export writes (train/tuner.py), on export_device, which is the
// processor unless it is auto (hparams/model_args.py).
func (p *plan) trains() {
	if p.err != nil || p.yes("do_train") && !p.exporting || p.exports() {
		return
	}
	if p.exporting && !p.said("export_dir") { // export_model of train/tuner.py raises ValueError
		p.refuses("export_dir", "a folder for the model that it exports")
		return
	}
	const ask = "ask for that by itself: floodmark estimate MODEL "
	beside := field("")
	for _, f := range []field{"do_eval", "do_predict"} {
		if p.yes(f) {
			beside = f
		}
	}
	switch {
	case p.said("export_dir"):
		p.err = &Error{Msg: fmt.Sprintf("%s: the file merges and exports a model, and trains nothing", p.where("export_dir")), Hint: "it does that in main memory; with export_device: auto it is done on a card, and is estimated"}
	case beside == "" || p.software != "llamafactory" && !p.said("do_train"):
		// a script of one's own may train without being told to
	case beside == "do_predict":
		p.err = &Error{Msg: fmt.Sprintf("%s without do_train: it generates, and trains nothing", p.where(beside)), Hint: ask + "--context N --generated N --sequences N"}
	default:
		p.err = &Error{Msg: fmt.Sprintf("%s without do_train: it evaluates, and trains nothing", p.where(beside)), Hint: ask + "--operation evaluation --context N --sequences N"}
	}
}
