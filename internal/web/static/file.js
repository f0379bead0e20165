// The one file that --html writes: a record, and of a snapshot its trace, shown by the
// modules of the page. Everything is in the file; it asks nobody.
import { element } from "./dom.js";
import { show } from "./record/show.js";
import { device } from "./trace/device.js";
import { kept } from "./trace/kept.js";

const held = id => JSON.parse(document.getElementById(id).textContent);
const record = held("record"), trace = held("trace"), host = document.getElementById("answer");
const views = (trace?.devices || []).map(d => device(kept(d), d, error => { if (error) throw error; }));
const shown = element("div");
show(shown, record, record.tool.command);
host.append(...views, shown);
