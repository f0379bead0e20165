// A column for each kind of rank against what its card has. Quantities nest:
// allocated lies inside of reserved, reserved inside of the process; they are drawn
// inside one another and never stacked. What is not certain is hatched.
import { element, drawn, words, title } from "../dom.js";
import { figure, withUnit, unitFor, unitName } from "../figures.js";

const height = 260, width = 110, mostColumns = 12;
const nested = [["process", "process", 64], ["peak_reserved", "reserved", 44], ["peak_allocated", "allocated", 24]];

const capacity = r => r.device ? figure(r.device, "usable") : { low: null, high: null };
const peakPhase = r => r.phases.find(p => p.name === r.peak?.phase && p.step === r.peak.step) || r.phases.at(-1);

export function ranks(record) {
  const kinds = record.ranks.filter(peakPhase).slice(0, mostColumns);
  if (!kinds.length) return null;
  const most = Math.max(1, ...kinds.flatMap(r => {
    const f = figure(peakPhase(r), "process"), c = capacity(r);
    return [Math.min(f.high ?? f.low ?? 0, 3 * (c.high ?? Infinity)), c.high ?? 0];
  }));
  const y = n => height - Math.min(n, most * 1.05) / (most * 1.05) * (height - 20);
  const svg = drawn("svg", { viewBox: `0 0 ${kinds.length * width + 80} ${height + 40}`, class: "ranks", role: "img", "aria-label": spoken(kinds) }, hatch());
  kinds.forEach((r, i) => column(svg, r, 70 + i * width, y));
  const unit = unitFor(most);
  for (const part of [0, 0.5, 1]) svg.append(drawn("text", { x: 58, y: y(most * part) + 4, class: "tick" }, (most * part / 1024 ** unit).toFixed(part ? 1 : 0) + (part === 1 ? " " + unitName(unit) : "")));
  const left = record.ranks.length - kinds.length;
  return element("figure", {}, svg, element("figcaption", {}, "Widest: process; inside it reserved, inside that allocated. Solid is at least, hatched at most; the line is what the card has." +
    (left > 0 ? ` ${left} more kinds of ranks are in the record.` : "")));
}

const name = r => r.ranks.length > 1 ? `ranks ${r.ranks[0]}–${r.ranks.at(-1)}` : "rank " + r.ranks[0];

const spoken = kinds => kinds.map(r => `${name(r)}: the process needs ${withUnit(figure(peakPhase(r), "process"))}` + (r.device ? `, its card has ${withUnit(capacity(r))}` : "")).join("; ");

function column(svg, r, left, y) {
  for (const [field, word, w] of nested) {
    const f = figure(peakPhase(r), field), x = left + (64 - w) / 2;
    if (f.low == null && f.high == null) continue;
    if (f.high != null && f.high > (f.low ?? 0)) svg.append(drawn("rect", { x, y: y(f.high), width: w, height: y(f.low ?? 0) - y(f.high), class: "open " + word, fill: "url(#hatch)" }, title(`${word}: up to ${withUnit(f)}`)));
    svg.append(drawn("rect", { x, y: y(f.low ?? 0), width: w, height: height - y(f.low ?? 0), class: "sure " + word }, title(`${word}: ${withUnit(f)}`)));
  }
  const c = capacity(r);
  if (c.low != null) svg.append(drawn("line", { x1: left - 8, x2: left + 72, y1: y(c.low), y2: y(c.low), class: "capacity" }, title("the card has " + withUnit(c))));
  svg.append(drawn("text", { x: left + 32, y: height + 16, class: "label" }, name(r)), drawn("text", { x: left + 32, y: height + 32, class: "label quiet" }, words(r.peak?.phase || "")));
}

function hatch() {
  return drawn("defs", {}, drawn("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, drawn("rect", { width: 2, height: 6, class: "line" })));
}
