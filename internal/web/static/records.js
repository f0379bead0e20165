// Records: a file that floodmark wrote or reads, or two side by side.
import { element, words, figure, withUnit, bytes, table, verdictWord, interval, unitFor, unitName } from "./dom.js";
import { answer, upload } from "./server.js";
import { show as showEstimate } from "./estimate.js";

export function records(host, tell, openTrace) {
  const first = element("input", { id: "record-a", size: 40, autocomplete: "off", spellcheck: "false" });
  const second = element("input", { id: "record-b", size: 40, autocomplete: "off", spellcheck: "false" });
  const shown = element("div", { class: "answer", "aria-live": "polite" });
  const chosen = element("input", { type: "file", id: "record-file", onchange: async () => {
    try {
      if (chosen.files[0]) first.value = await upload(chosen.files[0]);
      open();
    } catch (error) { tell(error); }
  } });
  host.append(element("form", { class: "form", onsubmit: e => { e.preventDefault(); location.hash = "records?" + new URLSearchParams({ a: first.value.trim(), b: second.value.trim() }); } },
    element("div", { class: "field" }, element("label", { for: "record-a" }, "File: a record, a snapshot, a log"), first),
    element("div", { class: "field" }, element("label", { for: "record-file" }, "or choose one"), chosen),
    element("div", { class: "field" }, element("label", { for: "record-b" }, "Compare with"), second),
    element("button", {}, "Open")), shown);

  async function open() {
    const a = first.value.trim(), b = second.value.trim();
    if (!a) return shown.replaceChildren(element("p", { class: "quiet" }, "A record of any command with --output or --json, a PyTorch memory snapshot, an out-of-memory text or an engine's log."));
    const args = b ? ["compare", a, b] : ["explain", a];
    try {
      const { record } = await answer([...args, "--json"]);
      tell(null);
      show(shown, record, a, openTrace);
    } catch (error) { tell(error); }
  }

  return query => {
    if (query.get("a") != null) {
      first.value = query.get("a");
      second.value = query.get("b") || "";
    }
    open();
  };
}

const drawers = { measurement, sweep, comparison, snapshot, log, decision, estimate, solve: estimate };

function show(host, record, path, openTrace) {
  if (record.kind === "error") return host.replaceChildren(element("p", { class: "verdict does_not_fit" }, record.message), element("p", {}, record.hint || ""));
  const draw = drawers[record.kind];
  host.replaceChildren(element("h2", {}, words(record.kind)), ...(draw ? draw(record, { path, openTrace }) : []),
    ...(record.warnings || []).map(w => element("p", { class: "note" }, w.text)),
    element("details", {}, element("summary", {}, "the record as JSON"), element("pre", {}, JSON.stringify(record, null, 2))));
}

function estimate(record) {
  const host = element("div");
  showEstimate(host, record, record.tool.command);
  return [host];
}

function measurement(record) {
  const place = p => p.rank == null ? "" : String(p.rank);
  return [record.subject === "lab" ? element("p", { class: "note" }, "The lab network: it shows that measuring works here, and is no evidence for a workload.") : null,
    table("Each phase: allocated and reserved are two counters, of which one lies inside the other; they are never added",
      [{ title: "phase" }, { title: "step", number: true }, { title: "rank", number: true }, { title: "allocated: start", number: true }, { title: "peak", number: true }, { title: "end", number: true },
        { title: "reserved: start", number: true }, { title: "peak", number: true }, { title: "end", number: true }, { title: "device", number: true }, { title: "status" }],
      record.phases.map(p => [words(p.label || p.name), String(p.step || ""), place(p), bytes(p.start.allocated_bytes), withUnit(figure(p.peak, "allocated")), bytes(p.end.allocated_bytes),
        bytes(p.start.reserved_bytes), withUnit(figure(p.peak, "reserved")), bytes(p.end.reserved_bytes), withUnit(figure(p, "device")), [p.status, p.inferred ? "inferred" : "", p.error || ""].filter(Boolean).join("; ")]))].filter(Boolean);
}

function sweep(record) {
  const b = record.boundary;
  return [element("p", { class: "verdict" }, b.largest_pass != null ? `${record.varied} ${b.largest_pass} passed` + (b.smallest_fail != null ? `, ${b.smallest_fail} ran out of memory` : "; nothing ran out of memory") : "nothing passed"),
    table("Points", [{ title: record.varied, number: true }, { title: "status" }, { title: "peak", number: true }, { title: "scope" }, { title: "why" }],
      record.points.map(p => [String(p.value), words(p.status), bytes(p.peak_bytes), p.scope || "—", p.error || ""]))];
}

// The waterfall of a comparison: what each row adds or takes away between a and b.
function comparison(record) {
  const rows = [...record.rows, ...(record.residual || [])];
  const unit = unitFor(...rows.flatMap(r => [r.a_bytes, r.b_bytes]));
  const most = Math.max(1, ...rows.map(r => Math.abs(r.difference_bytes ?? 0)));
  const bar = n => element("span", { class: "bar " + (n < 0 ? "less" : "more"), role: "img", "aria-label": n == null ? "unknown" : bytes(n) }, element("i", { class: "w" + Math.round(20 * Math.abs(n ?? 0) / most) }));
  return [element("p", {}, `a: ${record.a}; b: ${record.b}`),
    ...(record.changed || []).map(c => element("p", { class: "note" }, `${words(c.field)}: ${c.a ?? "—"} → ${c.b ?? "—"}`)),
    table(`Where they differ, ${unitName(unit)}`, [{ title: "term" }, { title: "scope" }, { title: "phase" }, { title: "a", number: true }, { title: "b", number: true }, { title: "b − a", number: true }, { title: "" }, { title: "cause" }],
      rows.map(r => [words(r.term), r.scope || "", words(r.phase || ""), interval(figure(r, "a"), unit), interval(figure(r, "b"), unit), interval(figure(r, "difference"), unit), bar(r.difference_bytes), r.cause || ""]))];
}

function snapshot(record, { path, openTrace }) {
  return [element("button", { onclick: () => openTrace(path) }, "Look at the trace"),
    ...record.devices.flatMap(d => [element("h3", {}, "cuda:" + d.device), element("p", {}, d.summary || ""),
      table("What the peak is made of", [{ title: "category" }, { title: "bytes", number: true }], (d.composition || []).map(c => [words(c.category), bytes(c.bytes)])),
      table("The largest", [{ title: "bytes", number: true }, { title: "count", number: true }, { title: "where" }], (d.top || []).slice(0, 20).map(t => [bytes(t.bytes), String(t.count), (t.stack || []).slice(0, 3).join(" ← ")]))])];
}

function log(record) {
  return [record.class ? element("p", { class: "verdict" }, words(record.class)) : null,
    table("What it says", [{ title: "component" }, { title: "device", number: true }, { title: "kind" }, { title: "bytes", number: true }, { title: "line", number: true }],
      (record.components || []).map(c => [words(c.component), c.device == null ? "—" : String(c.device), words(c.kind), withUnit(figure(c, "")), String(c.line)])),
    element("p", { class: "quiet" }, `${record.not_understood} lines were not understood`)].filter(Boolean);
}

function decision(record) {
  return [element("p", { class: "verdict" }, record.chosen ? `${record.chosen.option}: ${record.chosen.reason}` : "nothing was chosen"),
    table("Phases", [{ title: "phase" }, { title: "status" }], (record.phases || []).map(p => [words(p.name), words(p.status)])),
    table("Counters", [{ title: "name" }, { title: "scope" }, { title: "value", number: true }], (record.counters || []).map(c => [c.name, c.scope, c.unit === "bytes" || c.unit === "B" ? bytes(c.value) : String(c.value ?? "—")])),
    table("Cards", [{ title: "card" }, { title: "verdict" }], (record.cards || []).map(c => [c.name || c.id, c.verdict ? verdictWord(c.verdict.value || c.verdict) : "—"]))];
}
