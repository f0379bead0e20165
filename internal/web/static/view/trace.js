// Trace: a snapshot held open by the server, drawn from levels of detail that it makes.
import { element, paragraph } from "../dom.js";
import { openTrace, levels, allocations, segments, replayed } from "../server.js";
import { device } from "../trace/device.js";
import { pathField, fileField } from "./files.js";

export function trace(host, tell, inWords) {
  const path = pathField("trace-path", "Memory snapshot: its path on this machine");
  const go = value => { location.hash = "trace?" + new URLSearchParams({ path: value }); };
  const views = element("div");
  host.append(element("form", { class: "form", onsubmit: e => { e.preventDefault(); go(path.input.value.trim()); } },
    path.row, fileField("trace-file", "or choose a file", go, tell), element("button", {}, "Open")), views);
  let opened = "";
  return async query => {
    const wanted = query.get("path") || "";
    path.input.value = wanted || path.input.value;
    if (!wanted && opened) return; // the tab alone: what was there stays
    if (!wanted) return views.replaceChildren(paragraph("A file of torch.cuda.memory._dump_snapshot. Nothing in it is executed, and it does not leave this machine.", "quiet"));
    if (wanted === opened) return;
    views.replaceChildren(element("p", { class: "quiet", role: "status" }, "reading …"));
    try {
      const t = await openTrace(wanted);
      opened = wanted;
      path.remember(wanted);
      views.replaceChildren(element("h2", {}, t.name), element("button", { type: "button", onclick: () => inWords(wanted) }, "The peak in words"), ...t.devices.map((d, i) => device(served(t.id, i), d, tell)));
    } catch (error) {
      opened = "";
      views.replaceChildren();
      tell(error);
    }
  };
}

// The program as the source of a device's view.
const served = (id, i) => ({
  levels: (from, to, n, signal) => levels(id, i, from, to, n, signal),
  allocations: (at, n) => allocations(id, i, at, at + 1, n),
  segments: at => segments(id, i, at),
  replayed: (conf, from, to, n) => replayed(id, i, conf, from, to, n),
});
