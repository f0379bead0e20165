// A log or an out-of-memory text: what failed and why, what the text says of memory,
// and beside an estimate the waterfall from predicted to printed.
import { element, words, paragraph, table } from "../dom.js";
import { figure, withUnit, count } from "../figures.js";
import { waterfall } from "./waterfall.js";

export function log(record) {
  return [...(record.out_of_memory || []).map(failure), against(record.against), table("Allocator settings in force", [{ title: "setting" }, { title: "value" }, { title: "line", number: true }], (record.settings || []).map(s => [s.name, s.value, count(s.line)])),
    table("What the text says", [{ title: "component" }, { title: "kind" }, { title: "bytes", number: true }, { title: "as printed", number: true }, { title: "rank", number: true }, { title: "device", number: true }, { title: "line", number: true }],
      (record.components || []).map(c => [words(c.component), words(c.kind), withUnit(figure(c, "")), c.printed, c.rank == null ? "—" : String(c.rank), c.device == null ? "—" : String(c.device), count(c.line)])),
    paragraph(`${count(record.not_understood)} of ${count(record.lines)} lines say nothing about memory that is understood.`, "quiet")];
}

const sentences = { spill: "SPILLED: the driver put live bytes into main memory", absurd_size: "AN ABSURD SIZE was asked for: it is no shortage of memory", limit_outside_allocator: "THE LIMIT LIES OUTSIDE the allocator", exhaustion: "EXHAUSTED: no allocator setting helps",
  fragmentation_plausible: "FRAGMENTATION is plausible, not proven", cannot_tell: "CANNOT TELL" };

function failure(f) {
  const repeats = f.repeats ? ` (printed ${f.repeats + 1} times)` : "";
  const place = [f.rank == null ? null : "rank " + f.rank, f.device == null ? null : "cuda:" + f.device, f.phase ? "in " + words(f.phase) : null, f.where?.file ? `at ${f.where.file}:${f.where.line}` : null].filter(Boolean).join(", ");
  return element("section", {}, paragraph(`${sentences[f.class] || words(f.class)}: ${withUnit(figure(f, "request"))} were asked for${place ? ", " + place : ""}${repeats}.`, "verdict " + (f.class === "cannot_tell" ? "cannot_tell" : "does_not_fit")),
    paragraph(f.because, "reason"), f.possible?.length ? paragraph("It can be: " + f.possible.map(words).join(", "), "note") : null, element("ul", {}, (f.advice || []).map(a => element("li", {}, a.text))));
}

// What stands beside the terms of the budget: the budget itself, the card, and what an
// engine takes off the cache or not, by its version.
const beside = ["budget", "capacity", "cuda_graphs"];

// From what was estimated to what was printed, term by term, the residual last: with
// it the printed terms make up the printed budget.
function against(a) {
  if (!a) return null;
  const of = (r, name) => ({ low: r[name + "_low"], high: r[name + "_high"] });
  const all = a.rows.filter(r => r.unit === "bytes").map(r => ({ name: r.term, a: of(r, "predicted"), b: of(r, "observed"), difference: { low: r.difference_low_bytes, high: r.difference_high_bytes }, cause: r.cause, residual: r.term === "residual" }));
  const steps = all.filter(r => !beside.includes(r.name));
  const total = (name, side) => ({ name, total: sum(steps.map(r => r[side])), a: side === "a" ? sum(steps.map(r => r.a)) : {}, b: side === "b" ? sum(steps.map(r => r.b)) : {}, difference: {} });
  const share = a.bare_utilization == null ? null : `With the printed terms the utilization must be at least ${a.bare_utilization.toFixed(3)} for any room at all` + (a.one_utilization == null ? "." : `, and at least ${a.one_utilization.toFixed(3)} for one request of the longest length.`);
  return element("section", {}, element("h3", {}, "Beside the estimate of " + a.estimate), paragraph(share, "reason"),
    waterfall("From estimated to printed: each step is what a term is more or less", "estimated", "printed", [total("estimated, together", "a"), ...steps, total("printed, together", "b")]),
    table("Beside these terms", [{ title: "term" }, { title: "estimated", number: true }, { title: "printed", number: true }, { title: "cause" }],
      [...all.filter(r => beside.includes(r.name)).map(r => [words(r.name), withUnit(r.a), withUnit(r.b), r.cause]), ...a.rows.filter(r => r.unit !== "bytes").map(r => [words(r.term), between(of(r, "predicted")), between(of(r, "observed")), r.cause])]));
}

// The sum of what is known of figures of one moment.
const sum = list => ({ low: list.reduce((n, f) => n + (f.low ?? 0), 0), high: list.reduce((n, f) => n + (f.high ?? f.low ?? 0), 0) });

const between = f => f.low == null ? "—" : f.low === f.high ? count(f.low) : `${count(f.low)} to ${count(f.high)}`;
