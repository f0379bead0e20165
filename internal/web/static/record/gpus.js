// The catalogue of cards: what the label says, and what a program is told.
import { table } from "../dom.js";
import { bytes, figure, withUnit } from "../figures.js";

export function gpus(record) {
  return [table("Cards", [{ title: "card" }, { title: "name" }, { title: "label", number: true }, { title: "reports", number: true }, { title: "compute capability" }],
    record.cards.map(c => [c.id, c.name, bytes(c.label_bytes), withUnit(figure(c, "reported")), c.compute_capability || "—"]))];
}
