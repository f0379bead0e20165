// The form of the size view: a row for each field, of which those are shown that are
// for the work at hand.
import { element } from "../dom.js";
import { fields, isFor } from "./fields.js";
import { suggestions } from "./models.js";

export function form(change) {
  const inputs = {}, rows = {};
  for (const f of fields) rows[f.name] = row(f, inputs, event => { fit(); change(event); });
  const host = element("form", { class: "form", onsubmit: e => e.preventDefault() }, Object.values(rows), element("datalist", { id: "cards" }));
  const values = () => Object.fromEntries(fields.map(f => [f.name, inputs[f.name].value.trim()]).filter(([, v]) => v !== ""));
  const fit = () => { for (const f of fields) rows[f.name].hidden = !isFor(f, values()); };

  // fill puts given values into the fields, and what a field begins with into others.
  function fill(given) {
    for (const f of fields) {
      const input = inputs[f.name], value = given[f.name] ?? input.dataset.at ?? "";
      if (f.kind === "choice" && ![...input.options].some(o => o.value === value)) input.append(element("option", { value }, value));
      input.value = value;
      input.dispatchEvent(new Event("sync"));
    }
    fit();
  }
  // shared is what an address must say: the fields of this work.
  const shared = () => { const given = values(); return Object.fromEntries(Object.entries(given).filter(([name]) => isFor(fields.find(f => f.name === name), given))); };
  return { host, values, shared, fill };
}

function row(f, inputs, change) {
  const id = "size-" + f.name, hint = f.hint ? element("small", { id: id + "-hint" }, f.hint) : null;
  const about = { id, "aria-describedby": hint ? id + "-hint" : null, "data-at": f.at ?? null, autocomplete: "off", spellcheck: "false" };
  const make = { choice, lines, model: text, text, slider: text }[f.kind];
  const input = inputs[f.name] = make(f, about, change);
  const extra = f.kind === "slider" ? slider(f, input, change) : f.kind === "model" ? suggestions(input, change) : null;
  return element("div", { class: "field " + f.kind }, element("label", { for: id }, f.label), input, extra, hint);
}

const choice = (f, about, change) => element("select", { ...about, onchange: change, "data-at": f.choices[0][0] }, f.choices.map(([value, words]) => element("option", { value }, words)));

const lines = (f, about, change) => element("textarea", { ...about, rows: 4, oninput: change });

const text = (f, about, change) => element("input", { ...about, list: f.list, inputmode: f.kind === "slider" ? "numeric" : null, oninput: change });

// The slider goes in doublings; the number beside it takes any value.
function slider(f, input, change) {
  const range = element("input", { type: "range", min: f.from, max: f.to, step: 1, "aria-label": f.label + ", in doublings", oninput: () => { input.value = 2 ** range.value; said(); change(); } });
  const said = () => range.setAttribute("aria-valuetext", String(input.value));
  const follow = () => { range.value = Math.round(Math.log2(Math.max(1, Number(input.value) || 1))); said(); };
  input.addEventListener("input", follow);
  input.addEventListener("sync", follow);
  return range;
}
