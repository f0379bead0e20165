// The waterfall: from one total to another, what each term adds or takes away. A step
// is an interval; its bar is what it moves in the middle, and the figure beside it is
// the interval itself.
import { element, words, track } from "../dom.js";
import { interval, signed, unitFor, unitName } from "../figures.js";

const middle = f => f.low == null ? f.high : f.high == null ? f.low : (f.low + f.high) / 2;

// waterfall draws rows {name, a, b, difference, cause, residual}, whose bars begin
// where the one before ended. Total rows {name, total, ...} stand from nothing.
export function waterfall(caption, from, to, rows) {
  const unit = unitFor(...rows.flatMap(r => [r.a.low, r.a.high, r.b.low, r.b.high, r.difference.low, r.difference.high]));
  let level = 0;
  const drawn = rows.map(r => {
    if (r.total) {
      level = middle(r.total) ?? 0;
      return { ...r, from: 0, to: level, kind: "sure total" };
    }
    const by = middle(r.difference);
    const step = { ...r, from: level, to: by == null ? null : level + by, kind: by == null ? "" : by > 0 ? "more" : "less" };
    level += by ?? 0;
    return step;
  });
  const ends = drawn.flatMap(r => [r.from, r.to ?? r.from]), least = Math.min(0, ...ends), most = Math.max(1, ...ends);
  const cell = (name, text, number) => element("td", { "data-title": name, class: number ? "number" : null }, text);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, element("table", { class: "waterfall" }, element("caption", {}, `${caption}, ${unitName(unit)}`),
    element("thead", {}, element("tr", {}, ["term", from, to, "difference", "", "cause"].map((t, i) => element("th", { scope: "col", class: i > 0 && i < 4 ? "number" : null }, t)))),
    element("tbody", {}, drawn.map(r => element("tr", { class: r.total ? "total" : r.residual ? "residual" : null },
      element("th", { scope: "row" }, words(r.name)), cell(from, interval(r.a, unit), true), cell(to, interval(r.b, unit), true), cell("difference", r.total ? "" : signed(r.difference, unit), true),
      cell("", r.to == null ? "cannot be told" : track(least, most, [r], `${words(r.name)}: ${r.total ? interval(r.total, unit) : signed(r.difference, unit)} ${unitName(unit)}`)), cell("cause", r.cause || ""))))));
}
