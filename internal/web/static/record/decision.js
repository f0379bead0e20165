// A decision: what was calculated, observed and assumed stand apart, each card by
// itself, and the raw results are named by their content.
import { element, words, paragraph, table, track, verdictWord } from "../dom.js";
import { bytes, count, duration, figure, withUnit } from "../figures.js";
import { phases } from "./phases.js";
import { environment } from "./measurement.js";

export function decision(record) {
  const c = record.chosen;
  return [paragraph(c ? `${c.option}, because ${c.reason}; ${c.basis}.` : "Nothing is chosen.", "verdict " + (c ? "fits" : "cannot_tell")),
    element("h3", {}, "Calculated"), paragraph(`Weights: ${exact(record.weights_bytes)} of stored tensors; nothing else that memory holds is in this figure.`),
    element("h3", {}, "Observed"), environment(record.environment), ...record.maximum_load.map(l => paragraph(`Largest ${words(l.dimension)} that was run: ${count(l.value)}; a larger one is not tested.`)),
    ended(record.phases), counters(record.counters), options(record.options),
    element("h3", {}, "Assumed: what the margin is for"), margin(record.margin),
    table("Each card, which is never one pool with another", [{ title: "card" }, { title: "verdict" }, { title: "reports", number: true }, { title: "room", number: true }, { title: "why" }],
      record.cards.map(k => [k.name || k.id, verdictWord(k.verdict).toLowerCase(), withUnit(figure(k, "reported")), withUnit(figure(k, "room")), k.reason])),
    element("h3", {}, "Out of scope"), record.out_of_scope.length ? element("ul", {}, record.out_of_scope.map(t => element("li", {}, t))) : paragraph("nothing was named"),
    table("Raw results, by their content", [{ title: "file" }, { title: "kind" }, { title: "SHA-256" }], record.evidence.map(e => [e.name, words(e.kind), element("code", {}, e.sha256)]))];
}

const exact = n => n == null ? "—" : `${count(n)} B (${bytes(n)})`;

// Phases that succeeded and failed; one that no run had is hatched.
function ended(list) {
  const had = list.filter(p => !["not_exercised", "missing"].includes(p.status));
  const none = list.filter(p => !had.includes(p));
  if (!list.length) return null;
  return element("ol", { class: "phases", "aria-label": "how each phase ended" }, had.map(p => element("li", { class: p.status === "completed" ? "" : "failed" }, element("b", {}, words(p.name) + (p.step ? " " + p.step : "")), element("span", {}, words(p.status)))),
    none.map(p => element("li", { class: "open absent" }, element("b", {}, words(p.name) + (p.step ? " " + p.step : "")), element("span", {}, words(p.status)))));
}

// The counters of the highest phase: one inside the other, each on the same scale.
function counters(list) {
  const most = Math.max(1, ...list.map(c => c.value ?? 0));
  return table("Counters of the phase that stands highest: they nest, and are never added", [{ title: "counter" }, { title: "scope" }, { title: "phase" }, { title: "value", number: true }, { title: "" }],
    list.map(c => [c.name, words(c.scope), words(c.phase), c.unit === "bytes" || c.unit === "B" ? exact(c.value) : count(c.value), c.value == null ? "" : track(0, most, [{ from: 0, to: c.value, kind: "sure" }], bytes(c.value))]));
}

function options(list) {
  const lacks = o => [...(o.missing || []), o.comparable ? null : "not comparable with the first: more than one thing differs"].filter(Boolean).join(", ");
  return table("Options", [{ title: "option" }, { title: "ended" }, { title: "peak", number: true }, { title: "took", number: true }, { title: "quality" }, { title: "result" }, { title: "lacks" }],
    list.map(o => [o.name, words(o.status), bytes(o.peak_bytes), duration(o.duration_ns), o.quality || "—", o.result_check || "—", lacks(o)]));
}

function margin(list) {
  return list.length ? table("Variations", [{ title: "variation" }, { title: "bytes", number: true }, { title: "origin" }], list.map(v => [v.variation, exact(v.bytes), words(v.origin)])) : paragraph("No variation was named, so that no room is kept.");
}
