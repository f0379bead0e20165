// The fields of the size form, and the command that they make. Each has the flag that
// it stands for and the kinds of work that it is for; a slider goes from one power of
// two to another.
const work = [{ value: "generation", words: "generate" }, { value: "training", words: "train or fine-tune" }, { value: "server", words: "serve: a launch command" }];

const all = work.map(w => w.value), runs = ["generation", "training"];

export const fields = [
  { name: "work", label: "What it does", kind: "choice", choices: work.map(w => [w.value, w.words]), for: all },
  { name: "model", label: "Model", kind: "model", hint: "folder, file, name on the hub (org/name), or of the catalogue", for: runs },
  { name: "command", label: "Launch command", kind: "lines", hint: "as you would start it: vllm serve llama-3.1-8b --max-model-len 8192", for: ["server"] },
  { name: "gpu", label: "Card", kind: "text", list: "cards", hint: "empty asks for no verdict; all asks for every card", for: all },
  { name: "engine", label: "Engine", kind: "choice", choices: [["transformers", "transformers"], ["serving", "serving engines in general"], ["vllm", "vLLM"]], for: ["generation"] },
  { name: "context", label: "Context, positions", kind: "slider", from: 8, to: 20, at: 8192, for: runs },
  { name: "generated", label: "Generated, positions", kind: "slider", from: 0, to: 16, at: 512, for: ["generation"] },
  { name: "sequences", label: "Sequences together", kind: "slider", from: 0, to: 12, at: 1, for: ["generation"] },
  { name: "cache-format", label: "Format of the cache", kind: "choice", choices: [["", "that of the computation"], ["fp8", "fp8"], ["int8", "int8"], ["int4", "int4"]], for: ["generation"] },
  { name: "micro-batch", label: "Sequences of one micro-batch", kind: "slider", from: 0, to: 8, at: 1, for: ["training"] },
  { name: "accumulation", label: "Micro-batches of a step", kind: "slider", from: 0, to: 7, at: 1, for: ["training"] },
  // A layout without moments leaves them to the optimizer.
  { name: "precision", label: "Formats of training's tensors", kind: "choice", choices: ["bf16-params-bf16-grads-fp32-master", "bf16-params-fp32-grads-fp32-master", "fp32-params-autocast", "fp32-params", "bf16-params"].map(v => [v, v.replaceAll("-", " ")]), for: ["training"] },
  { name: "optimizer", label: "Optimizer", kind: "choice", choices: ["adamw", "adamw_8bit", "paged_adamw_8bit", "adafactor", "sgd", "lion", "muon"].map(v => [v, v]), for: ["training"] },
  { name: "checkpointing", label: "Activations computed again", kind: "choice", choices: [["none", "none"], ["full", "all blocks"], ["selective", "selective"]], for: ["training"] },
  { name: "lora-rank", label: "Adapter's rank", kind: "text", hint: "empty trains the whole model", for: ["training"] },
  { name: "tensor-parallel", label: "Tensor parallel, ranks (a card each)", kind: "slider", from: 0, to: 7, at: 1, for: runs },
  { name: "pipeline-parallel", label: "Pipeline stages (cards of their own)", kind: "slider", from: 0, to: 5, at: 1, for: ["generation"] },
  { name: "more", label: "More flags", kind: "text", hint: "as on the command line: --free 70GiB --what-if weights=int8", for: all },
];

// What a flag says when it is left away is not said.
const defaults = { "tensor-parallel": "1", "pipeline-parallel": "1", accumulation: "1", engine: "transformers", checkpointing: "none" };

export const isFor = (field, given) => field.for.includes(given.work || "generation");

// command is what the command line would be given.
export function command(given, verb = ["estimate"]) {
  const kind = given.work || "generation", args = [...verb];
  if (kind !== "server") args.push(given.model);
  if (kind === "training") args.push("--train", ...(given["lora-rank"] ? ["--lora-targets", "all-linear"] : []));
  for (const f of fields) {
    if (["work", "model", "command", "more"].includes(f.name) || !isFor(f, given) || !given[f.name] || defaults[f.name] === given[f.name]) continue;
    args.push(...f.name === "gpu" && given.gpu === "all" ? ["--card", "all"] : ["--" + f.name, given[f.name]]);
  }
  const more = split(given.more || "");
  return kind === "server" ? [...args, ...more, "--", ...split((given.command || "").replace(/\\\n/g, " "))] : [...args, ...more];
}

// split divides a line as a shell would, quotes and all.
function split(line) {
  return [...line.matchAll(/(?:[^\s"']|"(?:\\.|[^"\\])*"|'[^']*')+/g)].map(([word]) => word.replace(/"((?:\\.|[^"\\])*)"|'([^']*)'/g, (_, double, single) => single ?? double.replace(/\\(.)/g, "$1")));
}

// taken is the form with one change of the advice: in its own field where there is
// one, else as a flag, or as a question of what it would change.
export function taken(given, setting) {
  const [key, value] = setting.split("="), name = key.replaceAll("_", "-");
  if (fields.some(f => f.name === name && isFor(f, given)) && (given.work || "generation") !== "server") return { ...given, [name]: value };
  const flag = flags.includes(name) ? `--${name} ${value}` : `--what-if ${setting}`;
  const repeated = name === "phase" || flag.startsWith("--what-if");
  const rest = repeated ? given.more || "" : (given.more || "").replace(new RegExp(`(^|\\s)--${name}[ =]\\S+`), "");
  return { ...given, more: rest.includes(flag) ? rest : [rest.trim(), flag].filter(Boolean).join(" ") };
}

const flags = ["phase", "data-parallel", "expert-parallel", "cache-format", "base-format", "zero-grad", "optimizer-implementation", "checkpointing"];
