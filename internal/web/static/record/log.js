// A log or an out-of-memory text: what failed and why, what the text says of memory,
// and an estimate beside it.
import { element, words, paragraph, table } from "../dom.js";
import { figure, withUnit, count } from "../figures.js";
import { against } from "./against.js";

export function log(record) {
  const answered = record.out_of_memory?.length || record.against;
  return [...record.warnings.map(w => paragraph(w.text, answered ? "note" : "verdict none")), ...(record.out_of_memory || []).map(failure), against(record.against, "printed"), table("Allocator settings in force", [{ title: "setting" }, { title: "value" }, { title: "line", number: true }], (record.settings || []).map(s => [s.name, s.value, count(s.line)])),
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
