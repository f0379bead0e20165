// Other allocator settings beside what was recorded: a curve each, and what they would
// have reserved at most. It is a simulation, offered only where it reproduces the
// recording.
import { element, table } from "../dom.js";
import { bytes, figure, withUnit } from "../figures.js";

// Settings that people try first, as PYTORCH_ALLOC_CONF spells them.
const tried = ["", "expandable_segments:True", "max_split_size_mb:128", "roundup_power2_divisions:4", "garbage_collection_threshold:0.8"];
const mostCurves = 4;

export function whatIf(source, d, view, curves, draw, tell) {
  const id = `conf-${d.device}`;
  const conf = element("input", { id, size: 36, list: id + "-list", autocomplete: "off", spellcheck: "false", placeholder: "expandable_segments:True" });
  const status = element("p", { role: "status" });
  const host = element("div");
  const rows = () => table("Reserved at most, simulated and not validated on hardware", [{ title: "settings" }, { title: "reserved peak", number: true }, { title: "against recorded", number: true }, { title: "out of memory" }, { title: "" }],
    [["as recorded", bytes(d.peak_reserved_bytes), "", "", ""], ...curves.map(w => [element("span", {}, element("i", { class: "curve curve-" + w.number, "aria-hidden": "true" }), w.settings || "the defaults"), withUnit(figure(w, "peak_reserved")), against(w, d), w.out_of_memory.replaceAll("_", " "),
      element("button", { type: "button", "aria-label": "Take away " + (w.settings || "the defaults"), onclick: () => { curves.splice(curves.indexOf(w), 1); refresh(); } }, "Take away")])]);
  const refresh = () => { host.replaceChildren(...[curves.length ? rows() : null].filter(Boolean)); draw(); };

  async function add(e) {
    e.preventDefault();
    status.textContent = "replaying …";
    try {
      const w = await source.replayed(conf.value.trim(), 0, d.moments, 2048);
      const number = [1, 2, 3, 4].find(n => !curves.some(c => c.number === n)) || 1;
      curves.push({ ...w, number, from: 0, to: d.moments, top: [...w.fresh, ...w.kept].reduce((a, b) => Math.max(a, b), 0) });
      if (curves.length > mostCurves) curves.shift();
      status.textContent = `under ${w.settings || "the defaults"}: up to ${withUnit(figure(w, "peak_reserved"))} reserved, recorded ${bytes(d.peak_reserved_bytes)}; simulated, not validated on hardware. Dashed: an allocator that began empty; dotted: one that began with the segments that were there.`;
      refresh();
      tell(null);
    } catch (error) {
      status.textContent = "";
      tell(error);
    }
  }

  return element("div", {}, element("form", { class: "form", onsubmit: add }, element("div", { class: "field" }, element("label", { for: id }, "Other allocator settings"), conf,
    element("datalist", { id: id + "-list" }, tried.map(t => element("option", { value: t }, t || "the defaults")))), element("button", {}, "Replay")), status, host);
}

function against(w, d) {
  const f = figure(w, "peak_reserved");
  if (f.high == null) return "—";
  const by = f.high - d.peak_reserved_bytes;
  return by === 0 ? "equal" : (by > 0 ? "+" : "−") + bytes(Math.abs(by));
}
