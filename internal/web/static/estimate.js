// What a record of an estimate says: verdict, ranks, phases, terms, advice. The page
// draws it, and so does the one file that estimate --html writes.
import { element, drawn, words, figure, interval, withUnit, unitFor, unitName, table, verdictWord } from "./dom.js";

export function show(host, record, args) {
  const line = element("p", { class: "command" }, element("code", {}, "floodmark " + args.map(quoted).join(" ")));
  if (record.kind === "error") {
    host.replaceChildren(line, element("p", { class: "verdict does_not_fit" }, record.message), element("p", {}, record.hint || ""));
    return;
  }
  host.replaceChildren(verdict(record), ranks(record), ...record.ranks.slice(0, 1).map(() => phases(limiting(record))), terms(limiting(record)), advice(record),
    ...record.warnings.map(w => element("p", { class: "note" }, w.text)), line);
}

const quoted = arg => /^[\w@%+=:,./-]+$/.test(arg) ? arg : "'" + arg.replaceAll("'", "'\\''") + "'";

function limiting(record) {
  return record.ranks.find(r => r.rank === record.verdict?.rank) || record.ranks[0];
}

// The verdict in one sentence: which rank, which phase, which term, how much.
function verdict(record) {
  const v = record.verdict, model = record.model.name || "the model";
  if (!v) return element("p", { class: "verdict none" }, `${model} needs ${withUnit(figure(limiting(record).peak, ""))} on each rank at its peak, in ${words(limiting(record).peak.phase)}; no card was named.`);
  const headroom = figure(v, "headroom");
  const sentence = `${verdictWord(v.value)}: on ${limiting(record).device?.name || "the card"}, rank ${v.rank} decides, in ${words(v.phase)}, by its ${words(v.term)}; ` +
    `headroom ${withUnit(headroom)}; ${v.basis}.`;
  return element("div", {}, element("p", { class: "verdict " + v.value }, sentence), ...v.reasons.map(r => element("p", { class: "reason" }, r)));
}

// A column for each kind of rank against what its card has. Quantities nest:
// allocated lies inside of reserved, reserved inside of the process; they are
// drawn inside one another and never stacked. What is not certain is hatched.
function ranks(record) {
  const kinds = record.ranks, height = 260, width = 110;
  const capacity = r => r.device ? figure(r.device, "usable") : null;
  const peakPhase = r => r.phases.find(p => p.name === r.peak.phase && p.step === r.peak.step) || r.phases[r.phases.length - 1];
  const most = Math.max(1, ...kinds.flatMap(r => {
    const p = peakPhase(r), f = figure(p, "process"), c = capacity(r);
    return [Math.min(f.high ?? f.low ?? 0, 3 * (c?.high ?? Infinity)), c?.high ?? 0];
  }));
  const y = n => height - Math.min(n, most * 1.05) / (most * 1.05) * (height - 20);
  const svg = drawn("svg", { viewBox: `0 0 ${kinds.length * width + 80} ${height + 40}`, class: "ranks", role: "img", "aria-label": "what each kind of rank needs, beside what its card has" }, hatch());
  kinds.forEach((r, i) => {
    const p = peakPhase(r), left = 70 + i * width;
    const nested = [["process", "process", 64], ["peak_reserved", "reserved", 44], ["peak_allocated", "allocated", 24]];
    for (const [field, word, w] of nested) {
      const f = figure(p, field);
      if (f.low == null && f.high == null) continue;
      const x = left + (64 - w) / 2;
      if (f.high != null && f.high > (f.low ?? 0)) svg.append(drawn("rect", { x, y: y(f.high), width: w, height: y(f.low ?? 0) - y(f.high), class: "open " + word, fill: "url(#hatch)" }, title(`${word}: up to ${withUnit(f)}`)));
      svg.append(drawn("rect", { x, y: y(f.low ?? 0), width: w, height: height - y(f.low ?? 0), class: "sure " + word }, title(`${word}: ${withUnit(f)}`)));
    }
    const c = capacity(r);
    if (c) svg.append(drawn("line", { x1: left - 8, x2: left + 72, y1: y(c.low), y2: y(c.low), class: "capacity" }, title("the card has " + withUnit(c))));
    svg.append(drawn("text", { x: left + 32, y: height + 16, class: "label" }, r.ranks.length > 1 ? `ranks ${r.ranks[0]}–${r.ranks[r.ranks.length - 1]}` : "rank " + r.ranks[0]),
      drawn("text", { x: left + 32, y: height + 32, class: "label quiet" }, words(r.peak.phase)));
  });
  const unit = unitFor(most);
  for (const part of [0, 0.5, 1]) svg.append(drawn("text", { x: 58, y: y(most * part) + 4, class: "tick" }, (most * part / 1024 ** unit).toFixed(part ? 1 : 0) + (part === 1 ? " " + unitName(unit) : "")));
  return element("figure", {}, svg, element("figcaption", {}, "Widest: process; inside it reserved, inside that allocated. Solid is at least, hatched at most; the line is what the card has."));
}

const title = text => drawn("title", {}, text);

function hatch() {
  return drawn("defs", {}, drawn("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, drawn("rect", { width: 2, height: 6, class: "line" })));
}

// The phases in their order: the peak is coloured, a phase whose bytes nobody
// knows is hatched.
function phases(rank) {
  const shown = rank.phases.map(p => ({ p, f: figure(p, "process") }));
  const unit = unitFor(...shown.map(s => s.f.high ?? s.f.low));
  return element("ol", { class: "phases", "aria-label": "phases" }, ...shown.map(({ p, f }) => {
    const peak = p.name === rank.peak.phase && (rank.peak.step == null || p.step === rank.peak.step);
    return element("li", { class: (peak ? "peak " : "") + (f.high == null ? "open" : "") },
      element("b", {}, words(p.name) + (p.step ? " " + p.step : "")), element("span", {}, `${interval(f, unit)} ${unitName(unit)}`),
      peak ? element("em", {}, "peak") : null);
  }));
}

function terms(rank) {
  // A term without phases has nothing to say of a prediction.
  const counted = rank.terms.filter(t => t.status !== "zero" && t.from_phase != null);
  const unit = unitFor(...counted.map(t => figure(t, "").high ?? figure(t, "").low));
  return table(`What the peak is made of, ${unitName(unit)}`,
    [{ title: "term" }, { title: "bytes", number: true }, { title: "at the peak", number: true }, { title: "how it is known" }],
    counted.map(t => [words(t.id), interval(figure(t, ""), unit), interval(figure(t, "at_peak"), unit), `${t.origin}: ${t.reason || t.rule_short || t.rule || words(t.category)}`]));
}

// A switch may move more of the lower end than of the upper one.
const ordered = (a, b) => a == null || b == null ? { low: a, high: b } : { low: Math.min(a, b), high: Math.max(a, b) };

function advice(record) {
  const options = record.advice?.options || [];
  if (!options.length) return element("span");
  return table("What would make it fit: one change at a time, each estimated as a whole",
    [{ title: "setting" }, { title: "moves", number: true }, { title: "then" }, { title: "costs" }],
    options.map(o => [o.setting, withUnit(ordered(o.low_moved_bytes, o.high_moved_bytes)), o.verdict ? verdictWord(o.verdict.value).toLowerCase() : "—", [o.cost, o.check].filter(Boolean).join("; ")]));
}
