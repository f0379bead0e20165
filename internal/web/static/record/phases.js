// The phases in their order, each a bar from nothing to its peak, with what is there
// at its start and its end where that is known. The highest is the only coloured one;
// a phase that the work does not declare, or that no run had, is hatched.
import { element, words } from "../dom.js";
import { figure, interval, withUnit, unitFor, unitName } from "../figures.js";

// What a training job can have beside its steps, as --phase spells it.
const beside = ["resume", "evaluation", "generate", "save", "merge", "export"];

// strip is the phases of a rank of an estimate.
export function strip(record, rank, { apply }) {
  const missing = record.training ? beside.filter(name => !rank.phases.some(p => p.name === name)) : [];
  const shown = rank.phases.map(p => ({ name: p.name, step: p.step, part: p.micro_batch, peak: figure(p, "process"), start: figure(p, "start_allocated"), end: figure(p, "end_allocated"), verdict: p.verdict?.value,
    highest: p.name === rank.peak?.phase && (rank.peak.step == null || p.step === rank.peak.step) }));
  const capacity = rank.device ? figure(rank.device, "usable").low : null;
  return phases("Phases: what the process holds", shown, capacity, missing.map(name => ({ name, why: "not declared", apply: apply && (() => apply("phase=" + name)) })));
}

// phases draws them: name, step, peak, start, end, verdict, highest, note.
export function phases(caption, shown, capacity, missing = []) {
  if (!shown.length) return null;
  const top = f => f.high ?? f.low ?? 0;
  const most = Math.max(1, ...shown.map(p => Math.min(top(p.peak), 3 * (capacity ?? Infinity))), capacity ?? 0), unit = unitFor(most);
  const part = n => Math.min(100, 100 * n / most) + "%";
  const level = (f, word) => f && (f.low != null || f.high != null) ? `${word} ${interval(f, unit)}` : null;
  const item = p => element("li", { class: [p.highest ? "peak" : "", p.peak.high == null ? "open" : ""].join(" ") },
    element("b", {}, words(p.name) + (p.step ? " " + p.step : "") + (p.part ? `, micro-batch ${p.part}` : "")),
    element("span", { class: "level", "aria-hidden": "true" }, element("i", { class: "sure", style: { height: part(p.peak.low ?? 0) } }), element("i", { class: "may", style: { bottom: part(p.peak.low ?? 0), height: part(top(p.peak) - (p.peak.low ?? 0)) } }),
      capacity == null ? null : element("i", { class: "line", style: { bottom: part(capacity) } })),
    element("span", {}, `${interval(p.peak, unit)} ${unitName(unit)}`),
    element("small", {}, [level(p.start, "from"), level(p.end, "to")].filter(Boolean).join(", ")),
    p.highest ? element("em", {}, "peak") : null,
    p.verdict && p.verdict !== "fits" || p.note ? element("small", { class: "doubt" }, [p.verdict && p.verdict !== "fits" ? words(p.verdict) : null, p.note].filter(Boolean).join("; ")) : null);
  const absent = m => element("li", { class: "open absent" }, element("b", {}, words(m.name)), element("small", {}, m.why),
    m.apply ? element("button", { type: "button", "aria-label": "Add the phase " + words(m.name), onclick: m.apply }, "Add") : null);
  return element("section", {}, element("h3", {}, caption + (capacity == null ? "" : `; the line is what the card has, ${withUnit({ low: capacity, high: capacity })}`)),
    element("ol", { class: "phases", "aria-label": caption }, shown.map(item), missing.map(absent)));
}
