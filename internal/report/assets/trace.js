"use strict";
// Draws each device's trace from the pyramid of levels in #data. A level is a
// run of buckets; each view picks the coarsest whose buckets are about a pixel.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];

  // A category has one colour on every page, by its place among all of them; what
  // nobody can attribute is grey.
  const colour = c => c.name === "unattributed" ? "hsl(215 8% 58%)" : `hsl(${(c.place * 137.5 + 215) % 360} 52% ${c.place % 2 ? 45 : 63}%)`;
  const words = name => name.replaceAll("_", " ");

  function bytes(n) {
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

  // The last bucket that begins at or before an entry.
  function bucketAt(first, entry) {
    let low = 0, high = first.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (first[middle] <= entry) low = middle; else high = middle - 1;
    }
    return low;
  }

  function show(device) {
    const levels = device.levels.map(l => ({ first: decode(l.first), high: decode(l.high), reserved: decode(l.reserved), shares: decode(l.shares) }));
    const finest = levels[levels.length - 1];
    const view = { from: 0, to: Math.max(1, device.entries) };
    const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": device.label });
    const readout = element("p", { class: "quiet", "aria-live": "polite" });
    const legend = element("ul", { class: "legend" });
    for (const c of device.categories) legend.append(element("li", {}, element("i", { style: "background:" + colour(c) }), words(c.name)));
    if (finest) legend.append(element("li", {}, element("i", { style: "background:currentColor;height:2px;vertical-align:3px" }), "reserved"));
    const rows = element("tbody");
    const table = element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("thead", {}, element("tr", {},
      element("th", { class: "n" }, "bytes"), element("th", { class: "n" }, "born at"), element("th", { class: "n" }, "freed at"), element("th", {}, "category"), element("th", {}, "where"))), rows));
    document.getElementById("devices").append(element("section", {}, element("h2", {}, device.label), ...(finest ? [canvas] : []), legend, readout, table));

    function draw() {
      const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, strip = device.phases.length ? 16 : 0, axis = 16;
      canvas.width = width * scale;
      canvas.height = height * scale;
      const c = canvas.getContext("2d");
      c.scale(scale, scale);
      const span = view.to - view.from, k = device.categories.length, top = device.top * 1.05 || 1, floor = height - axis;
      const l = levels.find(l => l.first.length * span / device.entries >= width) || finest;
      const x = entry => (entry - view.from) / span * width;
      const y = n => floor - n / top * (floor - strip);
      const end = i => i + 1 < l.first.length ? l.first[i + 1] : device.entries;
      const first = bucketAt(l.first, view.from), last = bucketAt(l.first, view.to);
      for (let i = first; i <= last; i++) {
        // Whole pixels: neighbours that share a fraction of one leave a seam.
        const left = Math.round(x(l.first[i])), right = Math.max(Math.round(x(end(i))), left + 1);
        let below = 0;
        for (let j = 0; j < k; j++) {
          const n = l.shares[i * k + j];
          c.fillStyle = colour(device.categories[j]);
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
      for (let i = first; i <= last; i++) { c.lineTo(x(l.first[i]), y(l.reserved[i])); c.lineTo(x(end(i)), y(l.reserved[i])); }
      c.stroke();
      phases(c, x, width, strip);
      c.setLineDash([3, 3]);
      c.beginPath();
      c.moveTo(x(device.peak), strip);
      c.lineTo(x(device.peak), floor);
      c.stroke();
      c.setLineDash([]);
      label(c, "peak " + bytes(device.peak_bytes), x(device.peak) + 4, strip + 12, width);
      label(c, "entry " + Math.round(view.from), 4, height - 4, width);
      label(c, String(Math.round(view.to)), width, height - 4, width);
    }

    // A text that stays within the picture.
    function label(c, text, left, base, width) {
      c.fillText(text, Math.max(2, Math.min(left, width - c.measureText(text).width - 4)), base);
    }

    function phases(c, x, width, strip) {
      device.phases.forEach((p, i) => {
        const left = Math.max(0, x(p.first)), right = Math.min(width, x(p.last));
        if (right <= left) return;
        c.globalAlpha = i % 2 ? 0.08 : 0.18;
        c.fillRect(left, 0, right - left, strip);
        c.globalAlpha = 1;
        const text = words(p.name);
        if (c.measureText(text).width < right - left - 6) c.fillText(text, left + 3, 12);
      });
    }

    function list(entry) {
      const alive = device.largest.filter(a => a.born <= entry && (a.freed < 0 || a.freed > entry)).slice(0, 100);
      rows.replaceChildren(...alive.map(a => element("tr", {},
        element("td", { class: "n" }, bytes(a.bytes)),
        element("td", { class: "n", "data-label": "born at" }, a.born < 0 ? "before" : String(a.born)),
        element("td", { class: "n", "data-label": "freed at" }, a.freed < 0 ? "alive at the end" : String(a.freed)),
        element("td", {}, words(device.categories[a.category]?.name || "unattributed")),
        element("td", { class: "stack" }, a.stack < 0 ? "no stack was recorded" : device.stacks[a.stack].map(f => device.frames[f]).join(" ← ")))));
    }

    function at(entry) {
      list(entry);
      if (!finest) {
        readout.textContent = device.largest.length ? "no history was recorded; the largest allocations alive at the dump:" : "nothing is allocated, and nothing was recorded";
        return;
      }
      const i = bucketAt(finest.first, entry);
      const where = entry < 0 ? "before the first entry" : entry === device.peak ? `after entry ${entry} of ${device.entries}, the peak` : `about entry ${entry} of ${device.entries}`;
      const level = entry === device.peak ? `${bytes(device.peak_bytes)} requested` : `up to ${bytes(finest.high[i])} requested, ${bytes(finest.reserved[i])} reserved`;
      readout.textContent = `${where}: ${level}; the largest allocations alive then:`;
    }

    function move(from, span) {
      span = Math.min(device.entries, Math.max(8, span));
      view.from = Math.min(Math.max(0, from), device.entries - span);
      view.to = view.from + span;
      requestAnimationFrame(draw);
    }

    function zoom(factor, centre) {
      move(centre - (centre - view.from) * factor, (view.to - view.from) * factor);
    }

    const entryAt = e => Math.round(view.from + (e.offsetX / canvas.clientWidth) * (view.to - view.from));
    let drag = null;
    canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, entryAt(e)); }, { passive: false });
    canvas.addEventListener("pointerdown", e => { drag = { x: e.offsetX, from: view.from, moved: false }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", e => {
      if (!drag) return;
      drag.moved = drag.moved || Math.abs(e.offsetX - drag.x) > 3;
      if (drag.moved) move(drag.from - (e.offsetX - drag.x) / canvas.clientWidth * (view.to - view.from), view.to - view.from);
    });
    canvas.addEventListener("pointerup", e => { if (drag && !drag.moved) at(entryAt(e)); drag = null; });
    canvas.addEventListener("keydown", e => {
      const span = view.to - view.from, centre = view.from + span / 2;
      const keys = {
        ArrowLeft: () => move(view.from - span / 8, span), ArrowRight: () => move(view.from + span / 8, span),
        "+": () => zoom(0.8, centre), "-": () => zoom(1.25, centre), 0: () => move(0, device.entries),
        Enter: () => at(Math.round(centre)),
      };
      if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
    });
    if (finest) new ResizeObserver(draw).observe(canvas);
    at(finest ? device.peak : 0);
  }

  data.devices.forEach(show);
})();
