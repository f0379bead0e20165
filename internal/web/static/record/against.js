// Evidence beside an estimate: rank by rank the waterfall from estimated to observed,
// term by term with the residual last; the levels phase by phase; errors that hide each
// other; and one checkpoint, scope inside scope.
import { element, words, paragraph, table, track, pieces } from "../dom.js";
import { figure, interval, signed, withUnit, count, unitFor, unitName } from "../figures.js";
import { waterfall } from "./waterfall.js";

// What frames the terms and is none of them: the budget that they are spent from, the
// card, what lies outside the allocator.
const frames = ["budget", "capacity", "cuda_graphs", "outside_the_allocator", "other_processes"];
const levels = ["start", "peak", "end"];

const of = (r, name) => ({ low: r[name + "_low"], high: r[name + "_high"] });
const difference = r => ({ low: r.difference_low_bytes, high: r.difference_high_bytes });

export function against(a, seen) {
  if (!a) return null;
  const share = a.bare_utilization == null ? null : `With the printed terms the utilization must be at least ${a.bare_utilization.toFixed(3)} for any room at all` + (a.one_utilization == null ? "." : `, and at least ${a.one_utilization.toFixed(3)} for one request of the longest length.`);
  return element("section", { class: "against" }, element("h3", {}, "Beside the estimate of " + a.estimate),
    a.cancelling.map(c => paragraph([place(c), c.text].filter(Boolean).join(": "), "verdict cannot_tell")), paragraph(share, "reason"),
    [...places(a.rows)].flatMap(([name, rows]) => beside(name, rows, seen)), checkpoint(a.checkpoint));
}

const place = r => [r.rank == null ? null : "rank " + r.rank, r.device == null ? null : "cuda:" + r.device].filter(Boolean).join(", ");

function places(rows) {
  const by = new Map();
  for (const r of rows) by.set(place(r), [...(by.get(place(r)) || []), r]);
  return by;
}

function beside(name, rows, seen) {
  const where = name ? name + ": " : "", sized = rows.filter(r => r.unit === "bytes");
  const total = sized.find(r => r.term === "total") || highest(sized);
  const steps = sized.filter(r => r !== total && r.term !== "total" && !levels.includes(r.term) && !frames.includes(r.term));
  const ends = total ? [of(total, "predicted"), of(total, "observed")] : ["predicted", "observed"].map(side => sum(steps.map(r => of(r, side))));
  const label = total && levels.includes(total.term) ? `peak${total.phase ? " of " + phase(total) : ""}, ${words(total.scope)}` : "together";
  const step = r => ({ name: r.term, a: of(r, "predicted"), b: of(r, "observed"), difference: difference(r), cause: r.cause, residual: r.term === "residual" });
  return [waterfall(`${where}from estimated to ${seen}, each step what a term is more or less`, "estimated", seen,
    [{ name: `estimated, ${label}`, total: ends[0], a: ends[0], b: {}, difference: {} }, ...steps.map(step), { name: `${seen}, ${label}`, total: ends[1], a: {}, b: ends[1], difference: {}, cause: total?.cause }]),
  strip(where, sized.filter(r => levels.includes(r.term) && (r !== total || r.phase)), seen),
  table(`${where}what frames the terms`, [{ title: "of" }, { title: "estimated", number: true }, { title: seen, number: true }, { title: "cause" }],
    rows.filter(r => r.unit !== "bytes" || frames.includes(r.term)).map(r => [words(r.term), said(r, "predicted"), said(r, "observed"), r.cause]))];
}

// The highest peak that the estimate foresees, of allocated bytes.
function highest(rows) {
  const peaks = rows.filter(r => r.term === "peak" && r.scope === "allocated");
  return peaks.length ? peaks.reduce((a, b) => (b.predicted_high ?? b.predicted_low ?? 0) > (a.predicted_high ?? a.predicted_low ?? 0) ? b : a) : null;
}

const sum = list => ({ low: list.reduce((n, f) => n + (f.low ?? 0), 0), high: list.reduce((n, f) => n + (f.high ?? f.low ?? 0), 0) });

const phase = r => r.phase ? words(r.phase) + (r.step ? " " + r.step : "") : "";

function said(r, side) {
  const f = of(r, side);
  if (r.unit === "bytes") return withUnit(f);
  return f.low == null ? "—" : f.low === f.high ? count(f.low) : `${count(f.low)} to ${count(f.high)}`;
}

// The levels of each phase on both sides, one bar over the other. Where a phase starts
// its peak tells, and an end that is as estimated says nothing new.
function strip(where, rows, seen) {
  const told = rows.filter(r => r.term === "peak" ? r.scope !== "process" || r.inside != null : r.term === "end" && r.inside === false);
  const most = Math.max(1, ...told.flatMap(r => [r.predicted_high ?? r.predicted_low ?? 0, r.observed_high ?? r.observed_low ?? 0])), unit = unitFor(most);
  const bars = r => element("span", {}, track(0, most, pieces(of(r, "predicted"), "foreseen"), `estimated ${withUnit(of(r, "predicted"))}`), track(0, most, pieces(of(r, "observed")), `${seen} ${withUnit(of(r, "observed"))}`));
  return table(`${where}phase by phase, ${unitName(unit)}; above estimated, below ${seen}`, [{ title: "level" }, { title: "estimated", number: true }, { title: seen, number: true }, { title: "difference", number: true }, { title: "" }, { title: "cause" }],
    told.map(r => [`${phase(r)} ${r.term}, ${words(r.scope)}`.trim(), interval(of(r, "predicted"), unit), interval(of(r, "observed"), unit), signed(difference(r), unit), bars(r), r.cause]));
}

// One moment, scope inside scope: boxes in boxes, as wide as their share of the one
// around them, and never beside one another.
function checkpoint(c) {
  if (!c) return null;
  const size = l => figure(l, "").low ?? figure(l, "").high ?? 0;
  const box = i => {
    const l = c.levels[i];
    if (!l) return null;
    const around = i ? size(c.levels[i - 1]) : 0, wide = around ? Math.max(8, Math.min(100, 100 * size(l) / around)) : 100;
    const left = { low: l.beside_low_bytes, high: l.beside_high_bytes };
    return element("div", { class: "box", style: { width: wide + "%" } }, element("b", {}, `${words(l.scope)} ${withUnit(figure(l, ""))}`),
      element("small", {}, (left.low == null && left.high == null ? "" : `; of it not in the next: ${withUnit(left)}, `) + (l.beside ? (left.low == null && left.high == null ? ": " : "") + l.beside : "")), box(i + 1));
  };
  return element("figure", { class: "boxes" }, element("figcaption", {}, `At ${c.at}${place(c) ? " of " + place(c) : ""}: each lies inside the one around it`), box(0));
}
