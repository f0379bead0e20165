// Evidence side by side: what changed, what that could reach, what moved, what is left;
// and several records as one table, which ranks nothing.
import { element, words, paragraph, table, track, pieces } from "../dom.js";
import { figure, bytes, count, duration, interval, signed, withUnit, unitFor, unitName } from "../figures.js";
import { waterfall } from "./waterfall.js";

export function comparison(record) {
  return [paragraph(record.comparable ? totals(record) : "NOT COMPARABLE: more differs than one thing; shown all the same.", "verdict " + (record.comparable ? "none" : "cannot_tell")),
    record.records.length ? null : paragraph(`a: ${record.a}; b: ${record.b}`), table("What changed", [{ title: "what" }, { title: "a" }, { title: "b" }], record.changed.map(c => [words(c.field), c.a ?? "—", c.b ?? "—"])),
    reach(record.reach), several(record.records), results(record.results),
    ...record.devices.flatMap(d => [element("h3", {}, "cuda:" + d.device), paragraph(d.summary, "reason"), d.equal ? null : steps(`cuda:${d.device} by category`, d.categories, record.totals.find(t => t.device === d.device), [])]),
    ...record.totals.map(t => moved(record, t)), ...[...places(record.rows.filter(level))].map(([name, rows]) => strips(name, rows))];
}

// A row that is a level of a phase, and no term of it.
const level = r => ["start", "peak", "end"].includes(r.term) && r.phase != null;

const place = r => [r.rank == null ? null : "rank " + r.rank, r.device == null ? null : "cuda:" + r.device].filter(Boolean).join(" ");

const phase = r => r.phase == null ? "" : words(r.phase) + (r.step ? " " + r.step : "");

function totals(record) {
  const said = record.totals.map(t => `${[place(t), `${words(t.scope)}${t.phase ? " in " + phase(t) : ""}`].filter(Boolean).join(", ")}: ${withUnit(figure(t, "a"))} → ${withUnit(figure(t, "b"))}`);
  return said.length ? `The peak of ${said.join("; ")}.` : "";
}

// What the one switch can touch of the peak: it cannot give more.
function reach(r) {
  if (!r) return null;
  const touched = { low: r.reachable_low_bytes, high: r.reachable_high_bytes }, peak = figure(r, "peak");
  return element("section", {}, element("h3", {}, `What ${words(r.switch)} can reach in ${phase(r)}`), paragraph(r.text, "reason"),
    touched.high == null || peak.high == null ? null : track(0, peak.high, pieces(touched), `${withUnit(touched)} of ${withUnit(peak)} ${words(r.scope)}`),
    paragraph([r.cost ? "It costs: " + r.cost : null, r.check ? "check " + r.check : null].filter(Boolean).join("; "), "note"));
}

function several(list) {
  return table("Each record, in the order in which they were named: no ranking", [{ title: "record" }, { title: "changed against the first" }, { title: "peak", number: true }, { title: "against the first", number: true }, { title: "peak in" }, { title: "took", number: true }, { title: "result" }, { title: "lacks for a choice" }],
    list.map(r => [r.name, r.changed.map(c => `${words(c.field)} ${c.a} → ${c.b}`).join("; ") || "—", withUnit(figure(r, "")), r.comparable ? difference(r) : "not comparable: " + r.why.join("; "), `${phase(r)}, ${words(r.scope)}`, duration(r.duration_ns), r.result ?? "—", r.missing.join(", ")]));
}

// Memory alone chooses nothing: what the runs took, and whether they computed the same.
function results(list) {
  const same = (a, b) => a == null || b == null ? "—" : a === b ? "the same" : `${a} → ${b}`;
  return table("Beside memory", [{ title: "phase" }, { title: "a took", number: true }, { title: "b took", number: true }, { title: "loss" }, { title: "result" }],
    list.map(r => [words(r.phase), duration(r.a_duration_ns), duration(r.b_duration_ns), same(r.a_loss, r.b_loss), r.a_sha256 == null || r.b_sha256 == null ? "—" : r.a_sha256 === r.b_sha256 ? "the same bytes" : "other bytes"]));
}

// What moved at a total's peak: the terms of its phase, or the places of its device, and
// what no row shows.
function moved(record, total) {
  const same = r => r.rank === total.rank && r.device === total.device && r.scope === total.scope && r.phase === total.phase && (r.step || 0) === (total.step || 0);
  const rows = record.rows.filter(r => !level(r) && same(r));
  return steps([place(total), phase(total), words(total.scope)].filter(Boolean).join(", "), rows, total, record.residual.filter(r => r.device === total.device));
}

function steps(name, rows, total, residual) {
  if (!rows.length) return null;
  const step = r => ({ name: r.term === "stack" ? r.where || "no stack was recorded" : words(r.term), a: figure(r, "a"), b: figure(r, "b"), difference: figure(r, "difference"), cause: [r.cause, counts(r)].filter(Boolean).join("; ") });
  const end = (side, f) => ({ name: `${side}, all of it`, total: f, a: side === "a" ? f : {}, b: side === "b" ? f : {}, difference: {} });
  const between = [...rows.map(step), ...residual.map(r => ({ ...step(r), residual: true }))];
  return waterfall(`What moved: ${name}`, "a", "b", total ? [end("a", figure(total, "a")), ...between, end("b", figure(total, "b"))] : between);
}

const counts = r => r.a_count == null || r.b_count == null || r.a_count === r.b_count ? null : `${count(r.a_count)} → ${count(r.b_count)} allocations`;

function places(rows) {
  const by = new Map();
  for (const r of rows) by.set(place(r), [...(by.get(place(r)) || []), r]);
  return by;
}

// Both sides phase by phase, one bar over the other. Peaks of several phases are never
// added.
function strips(name, rows) {
  const most = Math.max(1, ...rows.flatMap(r => ["a", "b"].map(side => figure(r, side).high ?? figure(r, side).low ?? 0))), unit = unitFor(most);
  const bars = r => element("span", {}, track(0, most, pieces(figure(r, "a"), "foreseen"), "a " + withUnit(figure(r, "a"))), track(0, most, pieces(figure(r, "b")), "b " + withUnit(figure(r, "b"))));
  return table(`${name ? name + ": " : ""}phase by phase, ${unitName(unit)}; above a, below b`, [{ title: "level" }, { title: "a", number: true }, { title: "b", number: true }, { title: "b − a", number: true }, { title: "" }, { title: "cause" }],
    rows.map(r => [`${phase(r)} ${r.term}, ${words(r.scope)}`, interval(figure(r, "a"), unit), interval(figure(r, "b"), unit), signed(figure(r, "difference"), unit), bars(r), r.cause || ""]));
}

function difference(r) {
  const f = figure(r, "difference");
  if (f.low == null && f.high == null) return "—";
  return f.low === f.high ? (f.low > 0 ? "+" : "") + bytes(f.low) : withUnit(f);
}
