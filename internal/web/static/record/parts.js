// The weights by module or by layer, where they were asked for.
import { words, table, track, pieces } from "../dom.js";
import { figure, withUnit, count } from "../figures.js";

export function parts(given) {
  const list = given || [], most = Math.max(1, ...list.map(p => figure(p, "").high ?? figure(p, "").low ?? 0));
  return table("Weights by part", [{ title: "part" }, { title: "parameters", number: true }, { title: "bytes", number: true }, { title: "" }, { title: "stored as" }],
    list.map(p => [[words(p.stack), words(p.kind), p.layer, p.module].filter(v => v != null && v !== "").join(" "), count(p.parameters), withUnit(figure(p, "")), track(0, most, pieces(figure(p, "")), withUnit(figure(p, ""))), p.stored_formats.map(f => f.name).join(", ")]));
}
