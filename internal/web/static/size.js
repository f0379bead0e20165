// Size: a workload and a card, and at once what each rank needs. Every figure is
// of a record that the program itself made; the command that makes it is shown.
import { element } from "./dom.js";
import { answer } from "./server.js";
import { show } from "./estimate.js";

// The fields of the form: the flag, its words, and where a slider helps its range
// in steps of a doubling.
const fields = [
  { name: "model", label: "Model", kind: "text", hint: "folder, file, name on the hub (org/name), or of the catalogue: llama-3.1-8b, gpt-oss-20b, …" },
  { name: "gpu", label: "Card", kind: "text", list: "cards", hint: "empty asks for no verdict" },
  { name: "engine", label: "Engine", kind: "choice", choices: ["transformers", "serving"] },
  { name: "context", label: "Context, positions", kind: "slider", from: 8, to: 20, at: 8192 },
  { name: "generated", label: "Generated, positions", kind: "slider", from: 0, to: 16, at: 512 },
  { name: "sequences", label: "Sequences together", kind: "slider", from: 0, to: 12, at: 1 },
  { name: "tensor-parallel", label: "Tensor parallel, ranks (a card each)", kind: "slider", from: 0, to: 7, at: 1 },
  { name: "pipeline-parallel", label: "Pipeline stages (cards of their own)", kind: "slider", from: 0, to: 5, at: 1 },
  { name: "more", label: "More flags", kind: "text", hint: "as on the command line: --cache-format fp8 --free 70GiB" },
];

export function size(host, tell) {
  const inputs = {};
  const form = element("form", { class: "form", onsubmit: e => e.preventDefault() });
  const answerHost = element("div", { class: "answer", "aria-live": "polite" });
  for (const f of fields) form.append(row(f, inputs, () => change()));
  form.append(element("datalist", { id: "cards" }));
  host.append(form, answerHost);
  let running, wait, listed = false;

  function values() {
    return Object.fromEntries(fields.map(f => [f.name, inputs[f.name].value.trim()]).filter(([, v]) => v !== ""));
  }

  function change() {
    history.replaceState(null, "", "#size?" + new URLSearchParams(values()));
    clearTimeout(wait);
    wait = setTimeout(run, 120);
  }

  async function run() {
    running?.abort();
    running = new AbortController();
    const given = values();
    if (!given.model) return answerHost.replaceChildren(element("p", { class: "quiet" }, "Name a model: llama-3.1-8b, a folder, or org/name of a hub."));
    try {
      const args = command(given);
      const { record } = await answer([...args, "--json"], running.signal);
      tell(null);
      show(answerHost, record, args);
      if (given.gpu && record.kind !== "error") answerHost.lastChild.before(most(given));
    } catch (error) { tell(error); }
  }

  // The most of one thing that fits, when somebody asks: each is a search of its own.
  function most(given) {
    const said = element("span", { "aria-live": "polite" });
    const ask = (name, words, fits) => element("button", { type: "button", onclick: async () => {
      said.replaceChildren("searching …");
      try {
        const { record } = await answer([...command({ ...given, [name]: "" }, ["solve", name]), "--json"]);
        const value = record.solution?.value;
        said.replaceChildren(value == null ? record.message || "none is known to fit" : `${words} that ${fits}: ${value.toLocaleString("en-US")}. `,
          value == null ? "" : element("button", { type: "button", onclick: () => { inputs[name].value = value; inputs[name].dispatchEvent(new Event("input")); } }, "Take it"));
        tell(null);
      } catch (error) { tell(error); }
    } }, `${words} that ${fits}?`);
    return element("p", { class: "most" }, ask("context", "Largest context", "fits"), " ", ask("sequences", "Most sequences", "fit"), " ", said);
  }

  async function catalogue() {
    listed = true;
    try {
      const { record } = await answer(["gpus", "--json"]);
      document.getElementById("cards").append(...record.cards.map(c => element("option", { value: c.id }, c.name)));
    } catch (error) { tell(error); }
  }

  return query => {
    for (const f of fields) {
      const value = query.get(f.name) ?? inputs[f.name].dataset.at ?? "";
      inputs[f.name].value = value;
      inputs[f.name].dispatchEvent(new Event("sync"));
    }
    if (!listed) catalogue();
    run();
  };
}

// command is what the command line would be given.
export function command(given, verb = ["estimate"]) {
  const args = [...verb, given.model];
  for (const f of fields) {
    if (["model", "more"].includes(f.name) || !given[f.name]) continue;
    if (["tensor-parallel", "pipeline-parallel"].includes(f.name) && given[f.name] === "1") continue;
    if (f.name === "engine" && given.engine === "transformers") continue;
    args.push("--" + f.name, given[f.name]);
  }
  return [...args, ...(given.more || "").split(/\s+/).filter(Boolean)];
}

function row(f, inputs, change) {
  const id = "size-" + f.name;
  const label = element("label", { for: id }, f.label);
  const hint = f.hint ? element("small", { id: id + "-hint" }, f.hint) : null;
  if (f.kind === "choice") {
    const select = element("select", { id, onchange: change, "data-at": f.choices[0] }, ...f.choices.map(c => element("option", {}, c)));
    inputs[f.name] = select;
    return element("div", { class: "field" }, label, select);
  }
  const input = element("input", { id, list: f.list, autocomplete: "off", spellcheck: "false", inputmode: f.kind === "slider" ? "numeric" : null,
    "aria-describedby": f.hint ? id + "-hint" : null, "data-at": f.at ?? null, oninput: change });
  inputs[f.name] = input;
  if (f.kind !== "slider") return element("div", { class: "field" }, label, input, hint);
  // The slider goes in doublings; the number beside it takes any value.
  const slider = element("input", { type: "range", min: f.from, max: f.to, step: 1, "aria-label": f.label + ", in doublings",
    oninput: () => { input.value = 2 ** slider.value; change(); } });
  const follow = () => { slider.value = Math.round(Math.log2(Math.max(1, Number(input.value) || 1))); };
  input.addEventListener("input", follow);
  input.addEventListener("sync", follow);
  return element("div", { class: "field slider" }, label, input, slider);
}
