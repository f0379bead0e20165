// What a record says, whatever its kind. The page shows records with this, and so
// does the one file that --html writes.
import { element, paragraph, commandLine } from "../dom.js";
import { estimate, solve } from "./estimate.js";
import { measurement } from "./measurement.js";
import { sweep } from "./sweep.js";
import { comparison } from "./comparison.js";
import { decision } from "./decision.js";
import { log } from "./log.js";
import { snapshot } from "./snapshot.js";
import { replay } from "./replay.js";
import { gpus } from "./gpus.js";

const drawers = { estimate, solve, measurement, sweep, comparison, decision, log, snapshot, replay, gpus, error };

// show puts a record into an element. Actions are what only a page with a server can
// do: openTrace looks at a snapshot's trace, open opens another file, apply takes a
// change of a setting.
export function show(host, record, command, actions = {}) {
  const draw = drawers[record.kind] || (() => []);
  const notes = record.kind === "log" ? [] : record.warnings || []; // of a text they are the answer, and it draws them
  host.replaceChildren(...[draw(record, actions), notes.map(w => paragraph(w.text, "note")), raw(record), command ? commandLine(command) : null].flat(2).filter(Boolean));
}

function error(record) {
  const where = [record.file, record.offset == null ? null : `byte ${record.offset}`, record.field].filter(Boolean).join(", ");
  return [paragraph(record.message, "verdict does_not_fit"), paragraph(where, "quiet"), paragraph(record.hint)];
}

// The record itself, written out when somebody looks.
function raw(record) {
  const text = element("pre", { tabindex: "0" });
  const details = element("details", { class: "raw", ontoggle: () => { if (!text.textContent) text.textContent = JSON.stringify(record, null, 2); } },
    element("summary", {}, "the record as JSON"), text);
  return details;
}
