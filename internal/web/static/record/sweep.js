// A sweep: the peak over the value, with the boundary between the largest value that
// passed and the smallest that ran out of memory.
import { element, drawn, words, paragraph, table, title, quoted } from "../dom.js";
import { bytes, count, duration, unitFor, unitName } from "../figures.js";

export function sweep(record, { open }) {
  return [paragraph(answer(record), "verdict " + (record.boundary.monotone && record.boundary.largest_pass != null ? "fits" : "cannot_tell")),
    paragraph(`${words(record.varied)} varied · ${record.command.length ? record.command.map(quoted).join(" ") : "the lab network"} · each value in a process of its own, order ${words(record.series.order)}`, "note"),
    plot(record), legend(record.points),
    record.missing.length ? paragraph(`not run yet: ${record.missing.map(count).join(", ")}`, "note") : null,
    table("Every value", [{ title: words(record.varied), number: true }, { title: "how it ended" }, { title: "peak", number: true }, { title: "scope" }, { title: "took", number: true }, { title: "why" }, { title: "raw result" }],
      record.points.map(p => [count(p.value), words(p.status) + (p.attempt > 1 ? `, attempt ${p.attempt}` : ""), peak(p), p.scope || "—", duration(p.duration_ns), p.error || "", raw(record, p, open)]))];
}

const peak = p => p.peak_bytes == null ? "—" : (p.status === "passed" ? "" : "≥ ") + bytes(p.peak_bytes);

function raw(record, p, open) {
  if (!p.record) return "—";
  return open ? element("button", { type: "button", onclick: () => open(record.folder + "/" + p.record) }, p.record) : p.record;
}

function answer({ varied, boundary: b }) {
  const name = words(varied);
  if (!b.monotone) return `No boundary: ${name} ${count(b.largest_pass)} passed, and ${count(b.smallest_fail)} ran out of memory.`;
  if (b.largest_pass != null && b.smallest_fail != null) return `${name} ${count(b.largest_pass)} passed, ${count(b.smallest_fail)} ran out of memory.`;
  if (b.largest_pass != null) return `${name} ${count(b.largest_pass)} passed, and nothing ran out of memory: the boundary, if there is one, lies above.`;
  if (b.smallest_fail != null) return `${name} ${count(b.smallest_fail)} ran out of memory, and nothing passed: the boundary lies below.`;
  return "No boundary: nothing passed, and nothing ran out of memory.";
}

// Each way to end has a mark of its own shape, so that no colour is needed to tell.
const marks = {
  passed: (x, y) => drawn("circle", { cx: x, cy: y, r: 6, class: "passed" }),
  out_of_memory: (x, y) => drawn("path", { d: `M${x - 6} ${y - 6}L${x + 6} ${y + 6}M${x + 6} ${y - 6}L${x - 6} ${y + 6}`, class: "out_of_memory" }),
  failed: (x, y) => drawn("path", { d: `M${x} ${y - 7}L${x + 7} ${y + 6}H${x - 7}Z`, class: "failed" }),
  lost: (x, y) => drawn("rect", { x: x - 6, y: y - 6, width: 12, height: 12, class: "lost" }),
};
const meanings = { passed: "passed", out_of_memory: "ran out of memory: its peak is what was read last", failed: "failed for another reason: says nothing about memory", lost: "lost, it ended without a result: says nothing about memory" };

function legend(points) {
  const seen = Object.keys(marks).filter(s => points.some(p => p.status === s));
  return element("ul", { class: "legend" }, seen.map(s => element("li", {}, drawn("svg", { viewBox: "0 0 20 20", class: "mark", "aria-hidden": "true" }, marks[s](10, 10)), meanings[s])));
}

const left = 64, right = 690, top = 30, bottom = 290;

// Values stand evenly by their logarithm where they span more than a factor of 16, as
// doublings do.
function scale(points) {
  const values = points.map(p => p.value), least = Math.min(...values), most = Math.max(...values);
  const of = least > 0 && most / least > 16 ? Math.log2 : n => n;
  return n => most === least ? (left + right) / 2 : left + 10 + (right - left - 20) * (of(n) - of(least)) / (of(most) - of(least));
}

function plot(record) {
  const points = record.points, b = record.boundary, capacity = record.series.capacity_bytes ?? null;
  if (!points.length) return null;
  const x = scale(points), most = Math.max(1, capacity ?? 0, ...points.map(p => p.peak_bytes ?? 0)) * 1.06;
  const read = points.some(p => p.peak_bytes != null) || capacity != null;
  const y = n => bottom - (bottom - top) * n / most, unit = unitFor(most);
  const svg = drawn("svg", { viewBox: "0 0 700 350", class: "plot", role: "img", "aria-label": `peak over ${words(record.varied)}: ${answer(record)} Every value stands in the table below.` });
  const label = (text, at, anchor = "start", kind = "") => drawn("text", { x: at[0], y: at[1], "text-anchor": anchor, class: kind }, text);
  if (b.monotone && b.largest_pass != null && b.smallest_fail != null) {
    svg.append(drawn("rect", { x: x(b.largest_pass), y: top, width: Math.max(1, x(b.smallest_fail) - x(b.largest_pass)), height: bottom - top, class: "boundary" }),
      label(`boundary: between ${count(b.largest_pass)} and ${count(b.smallest_fail)}`, [right, top - 12], "end"));
  }
  svg.append(label(read ? `peak, ${unitName(unit)}` : "no peak was read", [left, top - 12]), label(words(record.varied), [right, bottom + 52], "end"));
  for (const part of read ? [0, 0.25, 0.5, 0.75, 1] : []) {
    svg.append(drawn("path", { d: `M${left} ${y(most * part / 1.06)}H${right}`, class: "grid" }), label((most * part / 1.06 / 1024 ** unit).toFixed(1), [left - 8, y(most * part / 1.06) + 4], "end"));
  }
  if (capacity != null) svg.append(drawn("path", { d: `M${left} ${y(capacity)}H${right}`, class: "capacity" }), label("the card: " + bytes(capacity), [left + 6, y(capacity) + 14], "start"));
  let free = -Infinity;
  for (const p of points) {
    const at = x(p.value), half = 4 * count(p.value).length;
    if (at - half > free) {
      svg.append(label(count(p.value), [at, bottom + 18], "middle"));
      free = at + half + 6;
    }
    // Without a reading a mark stands under the axis: unknown is not 0.
    const where = p.peak_bytes == null ? bottom + 28 : y(p.peak_bytes);
    svg.append(drawn("g", {}, title(`${words(record.varied)} ${count(p.value)}: ${words(p.status)}, ${p.peak_bytes == null ? "no peak was read" : "peak " + peak(p)}`), (marks[p.status] || marks.lost)(at, where)));
  }
  return element("figure", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "plot" }, svg));
}
