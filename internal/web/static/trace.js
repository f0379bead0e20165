// Trace: allocated by category and reserved over the moments of a snapshot, drawn
// from levels of detail that the server makes, with single allocations, segments,
// and other settings beside what was recorded.
import { element, words, bytes, table, colour } from "./dom.js";
import { openTrace, levels, allocations, segments, replayed, upload } from "./server.js";

export function trace(host, tell) {
  const path = element("input", { id: "trace-path", size: 40, autocomplete: "off", spellcheck: "false" });
  const chosen = element("input", { type: "file", id: "trace-file", onchange: async () => {
    try {
      if (chosen.files[0]) location.hash = "trace?" + new URLSearchParams({ path: await upload(chosen.files[0]) });
    } catch (error) { tell(error); }
  } });
  const views = element("div");
  host.append(element("form", { class: "form", onsubmit: e => { e.preventDefault(); location.hash = "trace?" + new URLSearchParams({ path: path.value.trim() }); } },
    element("div", { class: "field" }, element("label", { for: "trace-path" }, "Memory snapshot"), path),
    element("div", { class: "field" }, element("label", { for: "trace-file" }, "or choose one"), chosen),
    element("button", {}, "Open")), views);
  let opened = "";
  return async query => {
    const wanted = query.get("path") || "";
    path.value = wanted || path.value;
    if (!wanted) return views.replaceChildren(element("p", { class: "quiet" }, "A file of torch.cuda.memory._dump_snapshot. Nothing in it is executed."));
    if (wanted === opened) return;
    views.replaceChildren(element("p", { class: "quiet" }, "reading …"));
    try {
      const t = await openTrace(wanted);
      opened = wanted;
      views.replaceChildren(element("h2", {}, t.name), ...t.devices.map((d, i) => device(t.id, i, d, tell)));
    } catch (error) {
      views.replaceChildren();
      tell(error);
    }
  };
}

function device(id, index, d, tell) {
  const view = { from: 0, to: Math.max(1, d.moments), at: d.peak_moment };
  const canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": `memory of cuda:${d.device} over ${d.moments} moments; arrows move, plus and minus zoom, Enter reads the moment` });
  const readout = element("p", { "aria-live": "polite" });
  const legend = element("ul", { class: "legend" }, ...d.categories.map((c, i) => element("li", {}, swatch(colour(c, d.places[i])), words(c))), element("li", {}, swatch("currentColor"), "reserved"));
  const below = element("div");
  const conf = element("input", { id: `conf-${index}`, size: 36, autocomplete: "off", spellcheck: "false", placeholder: "expandable_segments:True" });
  const curveText = element("p", { "aria-live": "polite" });
  let shown, what, running, waiting;

  const load = async () => {
    running?.abort();
    running = new AbortController();
    try {
      shown = await levels(id, index, view.from, view.to, Math.max(64, Math.min(2048, canvas.clientWidth || 800)), running.signal);
      shown.from = view.from;
      shown.to = view.to;
      draw();
    } catch (error) { tell(error); }
  };
  const later = () => { draw(); clearTimeout(waiting); waiting = setTimeout(load, 30); };

  function move(from, to) {
    const span = Math.max(8, Math.min(d.moments, to - from));
    view.from = Math.max(0, Math.min(d.moments - span, Math.round(from)));
    view.to = Math.min(d.moments, Math.round(view.from + span));
    later();
  }

  const zoom = (factor, centre) => move(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  const momentAt = x => view.from + x / canvas.clientWidth * (view.to - view.from);

  function draw() {
    const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, strip = d.phases.length ? 16 : 0;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    const top = Math.max(d.peak_requested_bytes, d.peak_reserved_bytes, ...(what ? what.fresh.concat(what.kept) : []), 1) * 1.05;
    const x = m => (m - view.from) / (view.to - view.from) * width, y = n => height - 16 - n / top * (height - 16 - strip);
    const ink = getComputedStyle(canvas).color;
    if (shown) {
      const k = shown.categories, end = i => i + 1 < shown.count ? shown.first[i + 1] : shown.to;
      for (let i = 0; i < shown.count; i++) {
        const left = Math.round(x(shown.first[i])), w = Math.max(1, Math.round(x(end(i))) - left);
        let under = 0;
        for (let j = 0; j < k; j++) {
          const n = shown.shares[i * k + j];
          if (!n) continue;
          c.fillStyle = colour(d.categories[j], d.places[j]);
          c.fillRect(left, y(under + n), w, y(under) - y(under + n));
          under += n;
        }
      }
      line(c, ink, [], shown.reserved.map((n, i) => [x(shown.first[i]), x(end(i)), y(n)]));
    }
    if (what) for (const [curve, dash] of [[what.fresh, [6, 4]], [what.kept, [2, 3]]]) {
      line(c, "#b3261e", dash, curve.map((n, i) => [x(what.from + i * (what.to - what.from) / curve.length), x(what.from + (i + 1) * (what.to - what.from) / curve.length), y(n)]));
    }
    c.fillStyle = ink;
    c.font = "12px system-ui, sans-serif";
    for (const part of [0.25, 0.5, 0.75, 1]) {
      c.globalAlpha = 0.2;
      c.fillRect(0, Math.round(y(top * part / 1.05)), width, 1);
      c.globalAlpha = 1;
      c.fillText(bytes(Math.round(top * part / 1.05)), 4, y(top * part / 1.05) - 3);
    }
    d.phases.forEach((p, i) => {
      const left = Math.max(0, x(p.first)), right = Math.min(width, x(p.last));
      if (right <= left) return;
      c.globalAlpha = i % 2 ? 0.1 : 0.22;
      c.fillRect(left, 0, right - left, strip);
      c.globalAlpha = 1;
      if (c.measureText(words(p.name)).width < right - left - 6) c.fillText(words(p.name), left + 3, 12);
    });
    if (view.at >= view.from && view.at <= view.to) {
      c.setLineDash([3, 3]);
      c.strokeStyle = ink;
      c.beginPath();
      c.moveTo(x(view.at + 0.5), 0);
      c.lineTo(x(view.at + 0.5), height - 16);
      c.stroke();
      c.setLineDash([]);
    }
    c.fillText(`moment ${view.from}`, 4, height - 3);
    const last = `${view.to}`;
    c.fillText(last, width - c.measureText(last).width - 4, height - 3);
  }

  async function read(moment) {
    view.at = Math.max(-1, Math.min(d.moments - 1, Math.floor(moment)));
    draw();
    try {
      const [alive, given, level] = await Promise.all([allocations(id, index, view.at, view.at + 1, 100), segments(id, index, view.at), levels(id, index, view.at, view.at + 1, 1)]);
      const at = view.at === d.peak_moment ? ", the peak" : "";
      readout.textContent = `after moment ${view.at}${at}: ${bytes(level.high[0])} requested inside ${bytes(level.reserved[0])} reserved, in ${given.length} segments; the ${alive.length} largest allocations alive:`;
      below.replaceChildren(list(alive), map(given, d));
    } catch (error) { tell(error); }
  }

  const list = alive => table("Allocations alive at this moment", [{ title: "bytes", number: true }, { title: "born", number: true }, { title: "freed", number: true }, { title: "category" }, { title: "where" }],
    alive.map(a => [bytes(a.bytes), a.born < 0 ? "before" : String(a.born), a.freed < 0 ? "not freed" : String(a.freed), words(a.category),
      a.stack.length ? element("details", {}, element("summary", {}, a.stack[0]), element("ol", {}, ...a.stack.slice(1).map(f => element("li", {}, f)))) : "no stack was recorded"]));

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
    const keys = { ArrowLeft: () => { view.at -= step; }, ArrowRight: () => { view.at += step; }, "+": () => zoom(0.5, view.at), "-": () => zoom(2, view.at), Home: () => move(0, d.moments), Enter: () => read(view.at) };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
    view.at = Math.max(0, Math.min(d.moments - 1, view.at));
    if (view.at < view.from || view.at >= view.to) move(view.at - span / 2, view.at + span / 2);
    draw();
  });
  new ResizeObserver(load).observe(canvas);

  async function tryConf(e) {
    e.preventDefault();
    try {
      what = { ...await replayed(id, index, conf.value.trim(), view.from, view.to, 512), from: view.from, to: view.to };
      const peak = what.peak_reserved_bytes ?? what.peak_reserved_high_bytes;
      curveText.textContent = `under ${what.settings || "the defaults"}: up to ${bytes(peak)} reserved (recorded ${bytes(d.peak_reserved_bytes)}); simulated, not validated on hardware`;
      draw();
    } catch (error) { tell(error); }
  }

  read(view.at);
  return element("section", { class: "device" }, element("h3", {}, `cuda:${d.device}`), canvas, legend,
    element("form", { class: "form", onsubmit: tryConf }, element("div", { class: "field" }, element("label", { for: `conf-${index}` }, "Other allocator settings"), conf), element("button", {}, "Replay")), curveText,
    readout, below);
}

function line(c, style, dash, pieces) {
  c.strokeStyle = style;
  c.setLineDash(dash);
  c.beginPath();
  for (const [left, right, y] of pieces) { c.lineTo(left, y); c.lineTo(right, y); }
  c.stroke();
  c.setLineDash([]);
}

function swatch(style) {
  const c = element("canvas", { width: 12, height: 12, class: "swatch", "aria-hidden": "true" });
  const g = c.getContext("2d");
  g.fillStyle = style === "currentColor" ? "#888" : style;
  g.fillRect(0, style === "currentColor" ? 5 : 0, 12, style === "currentColor" ? 2 : 12);
  return c;
}

// The segments of a moment as bars of their own length: allocations in their
// category's colour, and what is free between them empty.
function map(given, d) {
  const most = Math.max(1, ...given.map(s => s.bytes));
  const largest = [...given].sort((a, b) => b.bytes - a.bytes).slice(0, 40);
  const canvas = element("canvas", { class: "segments", height: largest.length * 10, width: 800, role: "img", "aria-label": `the ${largest.length} largest of ${given.length} segments` });
  const c = canvas.getContext("2d");
  largest.forEach((s, row) => {
    const y = row * 10, scale = 798 / most;
    c.strokeStyle = "#888";
    c.strokeRect(0.5, y + 0.5, Math.max(1, s.bytes * scale), 8);
    for (const b of s.blocks) {
      const i = d.categories.indexOf(b.category);
      c.fillStyle = colour(b.category, i < 0 ? 0 : d.places[i]);
      c.fillRect(b.offset * scale, y + 1, Math.max(0.5, b.bytes * scale), 7);
    }
  });
  return element("figure", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "segments" }, canvas), element("figcaption", {}, `Segments, the largest ${largest.length} of ${given.length}: filled is in use, empty is free inside a segment`));
}
