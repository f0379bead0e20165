"use strict";
// Draws one device's trace from the pyramid of levels in #data. A level is a
// run of buckets; each view picks the finest whose buckets are about a pixel.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const palette = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0"];
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];

  function bytes(n) {
    if (n === null) return "—";
    let u = 0, x = n;
    while (Math.abs(x) >= 1024 && u < units.length - 1) { x /= 1024; u++; }
    return (u ? x.toFixed(2) : String(x)) + " " + units[u];
  }

  // About four lines at round numbers of the unit that fits.
  function ticks(top) {
    const unit = 1024 ** Math.max(0, Math.floor(Math.log(top) / Math.log(1024)));
    const rough = top / unit / 4, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) * unit;
    return Array.from({ length: Math.floor(top / step) }, (_, i) => (i + 1) * step);
  }

  // Figures are 64-bit floats in base64: exact for every count of bytes.
  function decode(text) {
    const raw = atob(text), buffer = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) buffer[i] = raw.charCodeAt(i);
    return new Float64Array(buffer.buffer);
  }

  function element(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  }

  function show(device) {
    const levels = device.levels.map(l => ({ buckets: l.buckets, high: decode(l.high), reserved: decode(l.reserved), shares: decode(l.shares) }));
    const view = { from: 0, to: device.events };
    const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": device.label });
    const readout = element("p", { class: "quiet", "aria-live": "polite" });
    const legend = element("ul", { class: "legend" });
    device.categories.forEach((c, i) => legend.append(element("li", {}, element("i", { style: "background:" + palette[i % palette.length] }), c.replaceAll("_", " "))));
    legend.append(element("li", {}, element("i", { style: "background:currentColor;height:2px;vertical-align:3px" }), "reserved"));
    const rows = element("tbody");
    const table = element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("thead", {}, element("tr", {},
      element("th", { class: "n" }, "bytes"), element("th", { class: "n" }, "born"), element("th", { class: "n" }, "freed"), element("th", {}, "category"), element("th", {}, "where"))), rows));
    document.getElementById("devices").append(element("section", {}, element("h2", {}, device.label), canvas, legend, readout, table));

    function level(width) {
      const span = view.to - view.from;
      return levels.find(l => l.buckets * span / device.events >= width) || levels[levels.length - 1];
    }

    function draw() {
      const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
      canvas.width = width * scale;
      canvas.height = height * scale;
      const c = canvas.getContext("2d");
      c.scale(scale, scale);
      if (!levels.length) { return; }
      const l = level(width), k = device.categories.length, top = device.top * 1.05 || 1;
      const first = Math.floor(view.from * l.buckets / device.events), last = Math.min(l.buckets, Math.ceil(view.to * l.buckets / device.events));
      const x = i => (i * device.events / l.buckets - view.from) / (view.to - view.from) * width;
      const y = n => height - n / top * height;
      for (let i = first; i < last; i++) {
        let below = 0;
        // Whole pixels: neighbours that share a fraction of one leave a seam.
        const left = Math.round(x(i)), right = Math.max(Math.round(x(i + 1)), left + 1);
        for (let j = 0; j < k; j++) {
          const n = l.shares[i * k + j];
          c.fillStyle = palette[j % palette.length];
          c.fillRect(left, y(below + n), right - left, y(below) - y(below + n));
          below += n;
        }
      }
      const ink = getComputedStyle(canvas).color;
      c.strokeStyle = c.fillStyle = ink;
      c.font = "12px system-ui, sans-serif";
      for (const step of ticks(top)) {
        c.globalAlpha = 0.25;
        c.fillRect(0, Math.round(y(step)), width, 1);
        c.globalAlpha = 1;
        c.fillText(bytes(step), 4, y(step) - 4);
      }
      c.beginPath();
      for (let i = first; i < last; i++) { c.lineTo(x(i), y(l.reserved[i])); c.lineTo(x(i + 1), y(l.reserved[i])); }
      c.stroke();
    }

    function list(moment) {
      const alive = device.largest.filter(a => a.born <= moment && (a.freed < 0 || a.freed > moment)).slice(0, 100);
      rows.replaceChildren(...alive.map(a => element("tr", {},
        element("td", { class: "n" }, bytes(a.bytes)), element("td", { class: "n" }, a.born < 0 ? "before" : String(a.born)),
        element("td", { class: "n" }, a.freed < 0 ? "alive at the end" : String(a.freed)),
        element("td", {}, device.categories[a.category].replaceAll("_", " ")),
        element("td", { class: "stack" }, a.stack < 0 ? "no stack was recorded" : device.stacks[a.stack].map(f => device.frames[f]).join(" ← ")))));
    }

    function at(moment) {
      if (!levels.length) { readout.textContent = "the trace has no events"; list(-1); return; }
      const l = levels[levels.length - 1], i = Math.min(l.buckets - 1, Math.max(0, Math.floor(moment * l.buckets / device.events)));
      readout.textContent = `about event ${moment} of ${device.events}: up to ${bytes(l.high[i])} requested, ${bytes(l.reserved[i])} reserved; the largest allocations alive then:`;
      list(moment);
    }

    function move(from, span) {
      span = Math.min(device.events, Math.max(8, span));
      view.from = Math.min(Math.max(0, from), device.events - span);
      view.to = view.from + span;
      requestAnimationFrame(draw);
    }

    function zoom(factor, centre) {
      const span = (view.to - view.from) * factor;
      move(centre - (centre - view.from) * factor, span);
    }

    const moment = e => Math.round(view.from + (e.offsetX / canvas.clientWidth) * (view.to - view.from));
    canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, moment(e)); }, { passive: false });
    let drag = null;
    canvas.addEventListener("pointerdown", e => { drag = { x: e.offsetX, from: view.from, moved: false }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", e => {
      if (!drag) return;
      drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) > 3;
      if (drag.moved) move(drag.from - (e.offsetX - drag.x) / canvas.clientWidth * (view.to - view.from), view.to - view.from);
    });
    canvas.addEventListener("pointerup", e => { if (drag && !drag.moved) at(moment(e)); drag = null; });
    canvas.addEventListener("keydown", e => {
      const span = view.to - view.from, centre = view.from + span / 2;
      const keys = {
        ArrowLeft: () => move(view.from - span / 8, span), ArrowRight: () => move(view.from + span / 8, span),
        "+": () => zoom(0.8, centre), "-": () => zoom(1.25, centre), 0: () => move(0, device.events),
        Enter: () => at(Math.round(centre)),
      };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
    new ResizeObserver(draw).observe(canvas);
    at(device.peak);
  }

  data.devices.forEach(show);
})();
