// One device of a trace: the picture, and what can be done with it. What it shows it
// asks of a source: levels, allocations, segments, and a replay where one can be had;
// the program that serves the page is one, what a file of --html keeps is another.
import { element, words, table, colour } from "../dom.js";
import { bytes, count } from "../figures.js";
import { picture } from "./picture.js";
import { map } from "./segments.js";
import { whatIf } from "./whatif.js";

export function device(source, d, tell) {
  const view = { from: 0, to: Math.max(1, d.moments), at: d.peak_moment };
  const canvas = element("canvas", { tabindex: "0", role: "application", "aria-describedby": `help-${d.device}`,
    "aria-label": `memory of cuda:${d.device} over ${count(d.moments)} moments, highest ${bytes(d.peak_requested_bytes)} requested at moment ${d.peak_moment}` });
  const readout = element("p", { role: "status" });
  const below = element("div");
  const curves = [];
  let shown, running, waiting;
  const draw = () => picture(canvas, { view, shown, device: d, curves });

  async function load() {
    running?.abort();
    running = new AbortController();
    try {
      const span = { from: view.from, to: view.to };
      shown = { ...await source.levels(span.from, span.to, Math.max(64, Math.min(2048, canvas.clientWidth || 800)), running.signal), ...span };
      draw();
    } catch (error) { tell(error); }
  }

  function move(from, to) {
    const span = Math.max(8, Math.min(d.moments, to - from));
    view.from = Math.max(0, Math.min(d.moments - span, Math.round(from)));
    view.to = Math.min(d.moments, Math.round(view.from + span));
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(load, 30);
  }

  async function read(moment) {
    view.at = Math.max(-1, Math.min(d.moments - 1, Math.floor(moment)));
    draw();
    try {
      const [alive, given, level] = await Promise.all([source.allocations(view.at, 100), source.segments(view.at), source.levels(view.at, view.at + 1, 1)]);
      readout.textContent = said(view.at, d, level, given, alive);
      below.replaceChildren(...[list(alive), given ? map(given, d) : null].filter(Boolean));
    } catch (error) { tell(error); }
  }

  steer(canvas, { view, d, move, read, draw });
  if (d.moments) new ResizeObserver(load).observe(canvas);
  // What is drawn has the colours of its time: dark, light, or of paper.
  for (const media of ["print", "(prefers-color-scheme: dark)"]) matchMedia(media).addEventListener("change", draw);
  read(view.at);
  return element("section", { class: "device" }, element("h3", {}, `cuda:${d.device}`), d.moments ? canvas : null, legend(d),
    d.moments ? element("p", { id: `help-${d.device}`, class: "quiet" }, "Requested bytes by category lie inside what the allocator had reserved, the line. Click a moment, or go there with the arrows and press Enter. + and − or the wheel zoom, Home shows all, p goes to the peak.") : null,
    phaseButtons(d, move), source.replayed && d.moments ? whatIf(source, d, view, curves, draw, tell) : null, readout, below);
}

function said(at, d, level, given, alive) {
  const segments = given ? `, in ${count(given.length)} segments` : "";
  const when = at < 0 ? "before the first moment" : `after moment ${at}${at === d.peak_moment ? ", the peak" : ""}`;
  const high = level.high[0] ?? d.peak_requested_bytes, reserved = level.reserved[0] ?? d.peak_reserved_bytes;
  const about = level.about ? "up to " : "";
  return `${when}: ${about}${bytes(high)} requested inside ${about}${bytes(reserved)} reserved${segments}; the ${count(alive.length)} largest allocations alive:`;
}

const list = alive => table("Allocations alive at this moment", [{ title: "bytes", number: true }, { title: "born", number: true }, { title: "freed", number: true }, { title: "category" }, { title: "stream" }, { title: "where" }],
  alive.map(a => [bytes(a.bytes), a.born < 0 ? "before" : String(a.born), a.freed < 0 ? "not freed" : String(a.freed), words(a.category), a.stream,
    a.stack.length ? element("details", {}, element("summary", {}, a.stack[0]), element("ol", {}, a.stack.slice(1).map(f => element("li", {}, f)))) : "no stack was recorded"]));

function legend(d) {
  const swatch = style => element("i", { class: "swatch", "aria-hidden": "true", style });
  return element("ul", { class: "legend" }, d.categories.map((c, i) => element("li", {}, swatch({ background: colour(c, d.places[i]) }), words(c))),
    d.moments ? element("li", {}, swatch({ background: "currentColor", height: "2px", verticalAlign: "4px" }), "reserved") : null);
}

// Each named part of the trace can be gone to by name, too.
function phaseButtons(d, move) {
  if (!d.phases.length) return null;
  return element("p", { class: "parts" }, "Go to: ", d.phases.slice(0, 40).flatMap(p => [element("button", { type: "button", onclick: () => move(p.first, p.last) }, words(p.name) + (p.step ? " " + p.step : "")), " "]));
}

// Pointer, wheel and keys.
function steer(canvas, { view, d, move, read, draw }) {
  const zoom = (factor, centre) => move(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  const momentAt = x => view.from + x / canvas.clientWidth * (view.to - view.from);
  canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, momentAt(e.offsetX)); }, { passive: false });
  let drag;
  canvas.addEventListener("pointerdown", e => { drag = { x: e.offsetX, from: view.from, to: view.to, moved: false }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", e => {
    if (!drag) return;
    const by = (drag.x - e.offsetX) / canvas.clientWidth * (drag.to - drag.from);
    drag.moved ||= Math.abs(drag.x - e.offsetX) > 3;
    if (drag.moved) move(drag.from + by, drag.to + by);
  });
  canvas.addEventListener("pointerup", e => { if (drag && !drag.moved) read(momentAt(e.offsetX)); drag = null; });
  canvas.addEventListener("keydown", e => {
    const span = view.to - view.from, step = Math.max(1, Math.round(span / 50));
    const keys = { ArrowLeft: () => { view.at -= step; }, ArrowRight: () => { view.at += step; }, "+": () => zoom(0.5, view.at), "-": () => zoom(2, view.at), Home: () => move(0, d.moments), p: () => { view.at = d.peak_moment; read(view.at); }, Enter: () => read(view.at) };
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
    view.at = Math.max(0, Math.min(d.moments - 1, view.at));
    if (view.at < view.from || view.at >= view.to) move(view.at - span / 2, view.at + span / 2);
    draw();
  });
}
