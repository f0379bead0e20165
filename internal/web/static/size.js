// Size: a workload and a card, and at once what each rank needs. Every figure is
// of a record that the program itself made; the command that makes it is shown.
import { element, drawn, words, figure, interval, withUnit, unitFor, unitName, table, verdictWord } from "./dom.js";
import { answer } from "./server.js";

// The fields of the form: the flag, its words, and where a slider helps its range
// in steps of a doubling.
const fields = [
  { name: "model", label: "Model", kind: "text", list: "models", hint: "folder, file, hub or catalogue name" },
  { name: "gpu", label: "Card", kind: "text", list: "cards", hint: "empty asks for no verdict" },
  { name: "engine", label: "Engine", kind: "choice", choices: ["transformers", "serving"] },
  { name: "context", label: "Context, positions", kind: "slider", from: 8, to: 20, at: 8192 },
  { name: "generated", label: "Generated, positions", kind: "slider", from: 0, to: 16, at: 512 },
  { name: "sequences", label: "Sequences together", kind: "slider", from: 0, to: 12, at: 1 },
  { name: "tensor-parallel", label: "Tensor parallel, ranks", kind: "slider", from: 0, to: 7, at: 1 },
  { name: "pipeline-parallel", label: "Pipeline stages", kind: "slider", from: 0, to: 5, at: 1 },
  { name: "more", label: "More flags", kind: "text", hint: "as on the command line: --cache-format fp8 --free 70GiB" },
];

export function size(host, tell) {
  const inputs = {};
  const form = element("form", { class: "form", onsubmit: e => e.preventDefault() });
  const answerHost = element("div", { class: "answer", "aria-live": "polite" });
  for (const f of fields) form.append(row(f, inputs, () => change()));
  form.append(element("datalist", { id: "models" }), element("datalist", { id: "cards" }));
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
    } catch (error) { tell(error); }
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
export function command(given) {
  const args = ["estimate", given.model];
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

export function show(host, record, args) {
  const line = element("p", { class: "command" }, element("code", {}, "floodmark " + args.map(quoted).join(" ")));
  if (record.kind === "error") {
    host.replaceChildren(line, element("p", { class: "verdict does_not_fit" }, record.message), element("p", {}, record.hint || ""));
    return;
  }
  host.replaceChildren(verdict(record), ranks(record), ...record.ranks.slice(0, 1).map(() => phases(limiting(record))), terms(limiting(record)), advice(record),
    ...record.warnings.map(w => element("p", { class: "note" }, w.text)), line);
}

const quoted = arg => /^[\w@%+=:,./-]+$/.test(arg) ? arg : "'" + arg.replaceAll("'", "'\\''") + "'";

function limiting(record) {
  return record.ranks.find(r => r.rank === record.verdict?.rank) || record.ranks[0];
}

// The verdict in one sentence: which rank, which phase, which term, how much.
function verdict(record) {
  const v = record.verdict, model = record.model.name || "the model";
  if (!v) return element("p", { class: "verdict none" }, `${model} needs ${withUnit(figure(limiting(record).peak, ""))} on each rank at its peak, in ${words(limiting(record).peak.phase)}; no card was named.`);
  const headroom = figure(v, "headroom");
  const sentence = `${verdictWord(v.value)}: on ${limiting(record).device?.name || "the card"}, rank ${v.rank} decides, in ${words(v.phase)}, by its ${words(v.term)}; ` +
    `headroom ${withUnit(headroom)}; ${v.basis}.`;
  return element("div", {}, element("p", { class: "verdict " + v.value }, sentence), ...v.reasons.map(r => element("p", { class: "reason" }, r)));
}

// A column for each kind of rank against what its card has. Quantities nest:
// allocated lies inside of reserved, reserved inside of the process; they are
// drawn inside one another and never stacked. What is not certain is hatched.
function ranks(record) {
  const kinds = record.ranks, height = 260, width = 110;
  const capacity = r => r.device ? figure(r.device, "usable") : null;
  const peakPhase = r => r.phases.find(p => p.name === r.peak.phase && p.step === r.peak.step) || r.phases[r.phases.length - 1];
  const most = Math.max(1, ...kinds.flatMap(r => {
    const p = peakPhase(r), f = figure(p, "process"), c = capacity(r);
    return [Math.min(f.high ?? f.low ?? 0, 3 * (c?.high ?? Infinity)), c?.high ?? 0];
  }));
  const y = n => height - Math.min(n, most * 1.05) / (most * 1.05) * (height - 20);
  const svg = drawn("svg", { viewBox: `0 0 ${kinds.length * width + 80} ${height + 40}`, class: "ranks", role: "img", "aria-label": "what each kind of rank needs, beside what its card has" }, hatch());
  kinds.forEach((r, i) => {
    const p = peakPhase(r), left = 70 + i * width;
    const nested = [["process", "process", 64], ["peak_reserved", "reserved", 44], ["peak_allocated", "allocated", 24]];
    for (const [field, word, w] of nested) {
      const f = figure(p, field);
      if (f.low == null && f.high == null) continue;
      const x = left + (64 - w) / 2;
      if (f.high != null && f.high > (f.low ?? 0)) svg.append(drawn("rect", { x, y: y(f.high), width: w, height: y(f.low ?? 0) - y(f.high), class: "open " + word, fill: "url(#hatch)" }, title(`${word}: up to ${withUnit(f)}`)));
      svg.append(drawn("rect", { x, y: y(f.low ?? 0), width: w, height: height - y(f.low ?? 0), class: "sure " + word }, title(`${word}: ${withUnit(f)}`)));
    }
    const c = capacity(r);
    if (c) svg.append(drawn("line", { x1: left - 8, x2: left + 72, y1: y(c.low), y2: y(c.low), class: "capacity" }, title("the card has " + withUnit(c))));
    svg.append(drawn("text", { x: left + 32, y: height + 16, class: "label" }, r.ranks.length > 1 ? `ranks ${r.ranks[0]}–${r.ranks[r.ranks.length - 1]}` : "rank " + r.ranks[0]),
      drawn("text", { x: left + 32, y: height + 32, class: "label quiet" }, words(r.peak.phase)));
  });
  const unit = unitFor(most);
  for (const part of [0, 0.5, 1]) svg.append(drawn("text", { x: 58, y: y(most * part) + 4, class: "tick" }, (most * part / 1024 ** unit).toFixed(part ? 1 : 0) + (part === 1 ? " " + unitName(unit) : "")));
  return element("figure", {}, svg, element("figcaption", {}, "Widest: process; inside it reserved, inside that allocated. Solid is at least, hatched at most; the line is what the card has."));
}

const title = text => drawn("title", {}, text);

function hatch() {
  return drawn("defs", {}, drawn("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, drawn("rect", { width: 2, height: 6, class: "line" })));
}

// The phases in their order: the peak is coloured, a phase whose bytes nobody
// knows is hatched.
function phases(rank) {
  const shown = rank.phases.map(p => ({ p, f: figure(p, "process") }));
  const unit = unitFor(...shown.map(s => s.f.high ?? s.f.low));
  return element("ol", { class: "phases", "aria-label": "phases" }, ...shown.map(({ p, f }) => {
    const peak = p.name === rank.peak.phase && (rank.peak.step == null || p.step === rank.peak.step);
    return element("li", { class: (peak ? "peak " : "") + (f.high == null ? "open" : "") },
      element("b", {}, words(p.name) + (p.step ? " " + p.step : "")), element("span", {}, `${interval(f, unit)} ${unitName(unit)}`),
      peak ? element("em", {}, "peak") : null);
  }));
}

function terms(rank) {
  // A term without phases has nothing to say of a prediction.
  const counted = rank.terms.filter(t => t.status !== "zero" && t.from_phase != null);
  const unit = unitFor(...counted.map(t => figure(t, "").high ?? figure(t, "").low));
  return table(`What the peak is made of, ${unitName(unit)}`,
    [{ title: "term" }, { title: "bytes", number: true }, { title: "at the peak", number: true }, { title: "how it is known" }],
    counted.map(t => [words(t.id), interval(figure(t, ""), unit), interval(figure(t, "at_peak"), unit), `${t.origin}: ${t.reason || t.rule_short || t.rule || words(t.category)}`]));
}

// A switch may move more of the lower end than of the upper one.
const ordered = (a, b) => a == null || b == null ? { low: a, high: b } : { low: Math.min(a, b), high: Math.max(a, b) };

function advice(record) {
  const options = record.advice?.options || [];
  if (!options.length) return element("span");
  return table("What would make it fit: one change at a time, each estimated as a whole",
    [{ title: "setting" }, { title: "moves", number: true }, { title: "then" }, { title: "costs" }],
    options.map(o => [o.setting, withUnit(ordered(o.low_moved_bytes, o.high_moved_bytes)), o.verdict ? verdictWord(o.verdict.value).toLowerCase() : "—", [o.cost, o.check].filter(Boolean).join("; ")]));
}
