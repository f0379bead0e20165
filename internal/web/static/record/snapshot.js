// A memory snapshot: where the peak is, what it is made of, what is stuck.
import { element, words, paragraph, table, track } from "../dom.js";
import { figure, bytes, count, withUnit } from "../figures.js";
import { against } from "./against.js";

export function snapshot(record, { openTrace }) {
  return [openTrace ? element("button", { type: "button", onclick: openTrace }, "Look at the trace") : null, against(record.against, "recorded"), ...record.devices.flatMap(device)];
}

function device(d) {
  const most = Math.max(1, ...(d.composition || []).map(c => figure(c, "").high ?? 0));
  return [element("h3", {}, "cuda:" + d.device), paragraph(d.summary, "reason"), nested(d),
    table("What the peak is made of", [{ title: "category" }, { title: "bytes", number: true }, { title: "" }], (d.composition || []).map(c => [words(c.category), withUnit(figure(c, "")), track(0, most, [{ from: 0, to: figure(c, "").high ?? 0, kind: "sure" }], withUnit(figure(c, "")))])),
    table("The largest, by where they were made", [{ title: "bytes", number: true }, { title: "count", number: true }, { title: "category" }, { title: "alive at the end", number: true }, { title: "where" }],
      (d.top || []).slice(0, 20).map(t => [bytes(t.bytes), count(t.count), words(t.category), bytes(t.at_end_bytes), t.stack?.length ? element("details", {}, element("summary", {}, t.where || t.stack[0]), element("ol", {}, t.stack.map(f => element("li", {}, f)))) : "no stack was recorded"])),
    fragmentation(d.fragmentation), table("Requests that failed", [{ title: "bytes", number: true }, { title: "where" }], (d.failures || []).map(f => [bytes(f.request_bytes), f.where || "—"]))];
}

// The four peaks nest; each is its own moment, so that they are drawn beside one
// another from nothing, and never stacked.
function nested(d) {
  const scopes = ["requested", "allocated", "active", "reserved"], of = s => figure(d, "peak_" + s), most = Math.max(1, ...scopes.map(s => of(s).high ?? of(s).low ?? 0));
  return table(d.history ? "Peaks: each lies inside the one below it" : "Levels at the dump: no history was recorded", [{ title: "scope" }, { title: "peak", number: true }, { title: "" }, { title: "at the end", number: true }],
    scopes.filter(s => of(s).low != null || of(s).high != null).map(s => [s, withUnit(of(s)), track(0, most, [{ from: 0, to: of(s).low ?? 0, kind: "sure" }], withUnit(of(s))), withUnit(figure(d, "end_" + s))]));
}

function fragmentation(f) {
  return f ? paragraph(`At the end ${bytes(f.cached_bytes)} are cached and unused, of which ${bytes(f.unreleasable_bytes)} lie in segments that something still uses; the largest free block is ${bytes(f.largest_free_bytes)}.`, "note") : null;
}
