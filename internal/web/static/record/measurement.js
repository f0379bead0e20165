// A measurement: how it ended, the phases as a strip, and every counter that was read.
import { words, paragraph, table } from "../dom.js";
import { figure, exactly, bytes, withUnit, duration, unitFor, unitName, interval } from "../figures.js";
import { against } from "./against.js";
import { phases } from "./phases.js";

export function measurement(record) {
  return [outcome(record), record.subject === "lab" ? paragraph("The lab network: it shows that measuring works here, and is no evidence for a workload.", "note") : null,
    environment(record.environment), against(record.against, "measured"), ...ranksOf(record).map(([rank, list]) => strip(rank, list, record)), counters(record.phases)];
}

function outcome({ outcome: o, complete }) {
  if (!o) return paragraph("nobody saw the program end", "verdict cannot_tell");
  const ended = o.signal ? "it was ended by " + o.signal : o.status === 0 ? "it ended well" : "it ended with status " + o.status;
  return paragraph(`${ended}${o.interrupted ? ", interrupted" : ""}, after ${duration(o.duration_ns)}${complete ? "" : "; not every phase was seen"}.`, "verdict " + (o.status === 0 && complete ? "fits" : "cannot_tell"));
}

export function environment(e) {
  if (!e) return null;
  const cards = (e.devices || []).map(d => `cuda:${d.index} ${d.name || "—"}, which reports ${bytes(d.reported_bytes)}`);
  return paragraph([e.pytorch ? "PyTorch " + e.pytorch : "PyTorch —", e.backend, e.driver ? "driver " + e.driver : null, e.allocator?.settings ? "allocator " + e.allocator.settings : null, ...cards].filter(Boolean).join(" · "), "note");
}

function ranksOf(record) {
  const by = new Map();
  for (const p of record.phases) {
    if (p.device == null) continue;
    const key = p.rank == null ? `cuda:${p.device}` : `rank ${p.rank}, cuda:${p.device}`;
    by.set(key, [...(by.get(key) || []), p]);
  }
  return [...by];
}

function strip(rank, list, record) {
  const top = p => figure(p.peak, "reserved").low ?? 0;
  const highest = list.reduce((a, b) => top(b) > top(a) ? b : a);
  const card = record.environment?.devices?.find(d => d.index === list[0].device)?.reported_bytes ?? null;
  return phases(`${rank}: what the allocator holds in each phase`, list.map(p => ({ name: p.label || p.name, step: p.step, peak: figure(p.peak, "reserved"), start: exactly(p.start.reserved_bytes), end: exactly(p.end.reserved_bytes),
    highest: p === highest, note: p.status === "completed" ? null : [words(p.status), p.error].filter(Boolean).join(": ") })), card);
}

// Two counters, of which one lies inside the other: start, peak and end of each.
function counters(list) {
  const unit = unitFor(...list.flatMap(p => [figure(p.peak, "reserved").low, figure(p.peak, "allocated").low]));
  const number = { number: true };
  return table(`Counters, ${unitName(unit)}: allocated lies inside reserved, and the two are never added`,
    [{ title: "phase" }, { title: "step", ...number }, { title: "rank", ...number }, { title: "allocated: start", ...number }, { title: "allocated: peak", ...number }, { title: "allocated: end", ...number },
      { title: "reserved: start", ...number }, { title: "reserved: peak", ...number }, { title: "reserved: end", ...number }, { title: "device", ...number }, { title: "took", ...number }, { title: "status" }],
    list.map(p => [words(p.label || p.name), String(p.step || ""), p.rank == null ? "" : String(p.rank), interval(exactly(p.start.allocated_bytes), unit), interval(figure(p.peak, "allocated"), unit), interval(exactly(p.end.allocated_bytes), unit),
      interval(exactly(p.start.reserved_bytes), unit), interval(figure(p.peak, "reserved"), unit), interval(exactly(p.end.reserved_bytes), unit), withUnit(figure(p, "device")), duration(p.duration_ns),
      [words(p.status), p.inferred ? "inferred" : "", p.note, p.error].filter(Boolean).join("; ")]));
}
