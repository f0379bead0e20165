// Two pieces of evidence side by side: what changed, what moved, and what is left.
import { element, words, paragraph, table } from "../dom.js";
import { figure, exactly, bytes, count, duration, signed, unitFor } from "../figures.js";
import { waterfall } from "./waterfall.js";

export function comparison(record) {
  return [paragraph(record.comparable === false ? "NOT COMPARABLE: more differs than one thing; shown all the same." : totals(record), "verdict " + (record.comparable === false ? "cannot_tell" : "none")),
    paragraph(`a: ${record.a}; b: ${record.b}`), table("What changed", [{ title: "what" }, { title: "a" }, { title: "b" }], (record.changed || []).map(c => [words(c.field), c.a ?? "—", c.b ?? "—"])),
    results(record.results), ...(record.devices || []).map(d => element("section", {}, element("h3", {}, "cuda:" + d.device), paragraph(d.summary, "reason"), d.equal ? null : moved(`cuda:${d.device} by category`, d.categories, record, d.device))),
    ...groups(record).map(([name, rows]) => moved(name, rows, record, rows[0].device))];
}

function totals(record) {
  const said = (record.totals || []).filter(t => t.difference_bytes != null).map(t => `${place(t)}${t.scope} ${t.difference_bytes > 0 ? "rose" : t.difference_bytes < 0 ? "fell" : "is equal"}${t.difference_bytes ? " by " + bytes(Math.abs(t.difference_bytes)) : ""}`);
  return said.length ? `The highest peak: ${said.join("; ")}.` : "";
}

const place = r => [r.rank == null ? null : "rank " + r.rank, r.device == null ? null : "cuda:" + r.device].filter(Boolean).join(" ") + (r.rank == null && r.device == null ? "" : ", ");

// Memory alone chooses nothing: what the runs took, and whether they computed the same.
function results(list) {
  const same = (a, b) => a == null || b == null ? "—" : a === b ? "the same" : `${a} → ${b}`;
  return table("Beside memory", [{ title: "phase" }, { title: "a took", number: true }, { title: "b took", number: true }, { title: "loss" }, { title: "result" }],
    (list || []).map(r => [words(r.phase), duration(r.a_duration_ns), duration(r.b_duration_ns), same(r.a_loss, r.b_loss), r.a_sha256 == null || r.b_sha256 == null ? "—" : r.a_sha256 === r.b_sha256 ? "the same bytes" : "other bytes"]));
}

// Rows that can stand in one waterfall: those of one device, rank and scope.
function groups(record) {
  const by = new Map();
  for (const r of [...record.rows, ...(record.residual || [])]) {
    const key = `${place(r)}${words(r.scope)}`;
    by.set(key, [...(by.get(key) || []), r]);
  }
  return [...by];
}

// moved is a waterfall from a to b where the rows make up a total, and else the
// differences one by one: peaks of several phases are never added.
function moved(name, rows, record, device) {
  const own = record.totals?.find(t => t.device === device && t.scope === rows[0].scope);
  const adds = !rows.some(r => r.phase) || record.devices?.length;
  const step = r => ({ name: [r.phase ? words(r.phase) : null, r.where || words(r.term)].filter(Boolean).join(": "), a: figure(r, "a"), b: figure(r, "b"), difference: figure(r, "difference"), cause: [r.cause, counts(r)].filter(Boolean).join("; "), residual: record.residual?.includes(r) });
  const ends = adds && own ? [{ name: "a", total: exactly(own.a_bytes), a: exactly(own.a_bytes), b: {}, difference: {} }, { name: "b", total: exactly(own.b_bytes), a: {}, b: exactly(own.b_bytes), difference: {} }] : [];
  if (!rows.length) return null;
  return adds ? waterfall(`Where they differ: ${name}`, "a", "b", [...ends.slice(0, 1), ...rows.map(step), ...ends.slice(1)]) : phasewise(name, rows);
}

const counts = r => r.a_count == null || r.b_count == null || r.a_count === r.b_count ? null : `${count(r.a_count)} → ${count(r.b_count)} allocations`;

function phasewise(name, rows) {
  return table(`Phase by phase: ${name}`, [{ title: "phase" }, { title: "term" }, { title: "a", number: true }, { title: "b", number: true }, { title: "b − a", number: true }, { title: "cause" }],
    rows.map(r => [words(r.phase), words(r.term), bytes(r.a_bytes), bytes(r.b_bytes), difference(r.difference_bytes), r.cause || ""]));
}

function difference(n) {
  if (n == null) return "—";
  return signed(exactly(n), unitFor(n)) + (n ? " " + bytes(n).split(" ")[1] : "");
}
