// Suggestions for the model: what was used last on this page, and the catalogue. A
// list box below the field, as the combobox pattern of ARIA has it: arrows go through
// it, Enter takes, Escape closes.
import { element } from "../dom.js";
import { models } from "../server.js";
import { last } from "./last.js";

const most = 12;

export function suggestions(input, change) {
  const id = input.id + "-list", box = element("ul", { id, class: "suggestions", role: "listbox", "aria-label": "models", hidden: true });
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list" })) input.setAttribute(name, value);
  let catalogue = [], at = -1, asked = false;

  function offer() {
    const typed = input.value.trim().toLowerCase(), seen = new Set();
    const of = (list, note) => list.filter(m => m.toLowerCase().includes(typed) && !seen.has(m) && seen.add(m)).map(m => [m, note]);
    const found = [...of(last("models"), "used last"), ...of(catalogue, "catalogue")].slice(0, most);
    box.replaceChildren(...found.map(([m, note], i) => element("li", { role: "option", id: `${id}-${i}`, "aria-selected": "false", "data-value": m, onpointerdown: e => { e.preventDefault(); take(m); } }, m, element("small", {}, note))));
    at = -1;
    open(found.length > 0 && !(found.length === 1 && found[0][0] === input.value));
  }
  function open(yes) {
    box.hidden = !yes;
    input.setAttribute("aria-expanded", yes);
    mark();
  }
  function mark() {
    [...box.children].forEach((o, i) => o.setAttribute("aria-selected", i === at));
    if (at >= 0 && !box.hidden) {
      input.setAttribute("aria-activedescendant", `${id}-${at}`);
      box.children[at].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }
  function take(model) {
    input.value = model;
    open(false);
    change();
  }

  input.addEventListener("focus", async () => {
    if (!asked) {
      asked = true;
      catalogue = await models().catch(() => []);
    }
    if (document.activeElement === input && !input.value) offer();
  });
  input.addEventListener("input", offer);
  input.addEventListener("blur", () => open(false));
  input.addEventListener("keydown", e => {
    if (e.key === "Escape") return open(false);
    if (e.key === "Enter" && at >= 0) { e.preventDefault(); return take(box.children[at].dataset.value); }
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    if (box.hidden) offer();
    const n = box.children.length;
    if (n) at = at < 0 && step < 0 ? n - 1 : (at + step + n) % n;
    mark();
  });
  return box;
}
