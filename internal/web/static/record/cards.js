// Answers that are of no single rank: every card, several workloads on one device,
// main memory, and arithmetic before a model is chosen.
import { element, words, paragraph, table, verdictWord } from "../dom.js";
import { figure, withUnit, bytes, count } from "../figures.js";

// Every card of the catalogue, those that fit first.
export function cards(list, { choose } = {}) {
  const order = ["fits", "cannot_tell", "does_not_fit", "not_runnable"];
  const sorted = [...(list || [])].sort((a, b) => order.indexOf(a.verdict.value) - order.indexOf(b.verdict.value));
  return table("On each card of the catalogue", [{ title: "card" }, { title: "verdict" }, { title: "reports", number: true }, { title: "headroom", number: true }, { title: "decided by" }, ...(choose ? [{ title: "" }] : [])],
    sorted.map(c => [c.name || c.id, verdictWord(c.verdict.value).toLowerCase(), withUnit(figure(c, "reported")), withUnit(figure(c.verdict, "headroom")), [words(c.verdict.phase || ""), words(c.verdict.term || ""), c.note].filter(Boolean).join(", "),
      ...(choose ? [element("button", { type: "button", "aria-label": "Look at " + (c.name || c.id), onclick: () => choose(c.id) }, "Look")] : [])]));
}

export function shared(s, verdict) {
  return [verdict, paragraph(`${s.device} must hold ${withUnit(figure(s, ""))}: nobody declared that the peaks coincide, or that they do not.`),
    table("Each process", [{ title: "workload" }, { title: "model" }, { title: "highest in" }, { title: "peak", number: true }, { title: "keeps", number: true }],
      s.processes.map(p => [p.name, p.model || "—", words(p.phase), withUnit(figure(p, "peak")), bytes(p.kept_bytes)]))];
}

export function preparation(p) {
  return [paragraph(`${bytes(p.total_bytes)}: a preparation, and no proof that anything fits.`, "verdict none"),
    table("Arithmetic", [{ title: "of" }, { title: "bytes", number: true }, { title: "how" }],
      [["weights", bytes(p.weights_bytes), `${count(p.parameters)} parameters × ${p.bits} bits`], ...(p.states || []).map(s => [words(s.tensor), bytes(s.bytes), s.format]), ...(p.reserve_bytes ? [["reserve", bytes(p.reserve_bytes), "assumed by you"]] : [])]),
    paragraph("Not included: " + p.excluded.join(", "), "note"), ...p.caveats.map(c => paragraph(c, "note"))];
}

export function host(h) {
  if (!h) return null;
  const has = h.capacity_bytes == null ? "" : ` of ${bytes(h.capacity_bytes)}`;
  return paragraph(`Main memory: ${withUnit(figure(h, ""))}${has} in ${words(h.phase)}, by its ${words(h.term)}${h.verdict ? `: ${verdictWord(h.verdict.value).toLowerCase()}` : ""}`, "reason");
}
