// Records: a file that floodmark wrote or reads, beside an estimate, or two side by
// side.
import { element, words, paragraph } from "../dom.js";
import { answer } from "../server.js";
import { show } from "../record/show.js";
import { pathField, fileField } from "./files.js";

export function records(host, tell, openTrace) {
  const file = pathField("record-a", "File: a record, a snapshot, a log");
  const other = pathField("record-b", "beside an estimate, or compared with");
  const shown = element("div", { class: "answer" });
  const status = element("p", { role: "status", class: "quiet" });
  const go = (a, b) => { location.hash = "records?" + new URLSearchParams(b ? { a, b } : { a }); };
  host.append(element("form", { class: "form", onsubmit: e => { e.preventDefault(); go(file.input.value.trim(), other.input.value.trim()); } },
    element("div", {}, file.row, fileField("record-file", "or choose the file", path => go(path, other.input.value.trim()), tell)),
    element("div", {}, other.row, fileField("record-other", "or choose the file beside it", path => go(file.input.value.trim(), path), tell)), element("button", {}, "Open")), status, shown);

  async function open(force) {
    const a = file.input.value.trim(), b = other.input.value.trim();
    if (!a) return shown.replaceChildren(paragraph("A record of any command with --output or --json (a measurement, a sweep, a decision, an estimate …), a PyTorch memory snapshot, an out-of-memory text or an engine's log.", "quiet"));
    status.textContent = "reading …";
    try {
      const { record, args } = b ? await beside(a, b, force) : await ask(["explain", a]);
      tell(null);
      if (record.kind !== "error") [a, b].forEach((path, i) => [file, other][i].remember(path));
      const content = element("div");
      show(content, record, args, { openTrace: () => openTrace(a), open: path => go(path) });
      shown.replaceChildren(element("h2", {}, record.kind === "error" ? "no answer" : words(record.kind)), content, ...[refusal(record, args, () => open(true))].filter(Boolean));
    } catch (error) { tell(error); }
    status.textContent = "";
  }

  return query => {
    if (query.get("a") != null) {
      file.input.value = query.get("a");
      other.input.value = query.get("b") || "";
    } else if (shown.childElementCount) return; // the tab alone: what was there stays
    return open();
  };
}

// What differs in more than one thing is refused; somebody may want to see it.
function refusal(record, args, go) {
  if (args[0] !== "compare" || record.kind !== "error" || !/not comparable/.test(record.message)) return null;
  return element("button", { type: "button", onclick: go }, "Show the two all the same");
}

const ask = async args => ({ record: (await answer(args)).record, args });

// An estimate stands beside evidence; two of a kind are compared.
async function beside(a, b, force) {
  const estimate = async path => /\.ya?ml$/.test(path) || (await ask(["explain", path])).record.kind === "estimate";
  if (await estimate(a) === await estimate(b)) return ask(["compare", a, b, ...(force ? ["--force"] : [])]);
  return ask(["explain", a, "--against", b]);
}
