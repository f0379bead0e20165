// The picture of a trace: categories stacked up to what was requested, for these do
// add up, and around them as lines what was reserved, as recorded and under other
// settings.
import { words, colour } from "../dom.js";
import { bytes } from "../figures.js";

const axis = 16;

export function picture(canvas, { view, shown, device: d, curves }) {
  const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, strip = d.phases.length ? 16 : 0;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const c = canvas.getContext("2d");
  c.scale(scale, scale);
  const top = Math.max(d.peak_requested_bytes, d.peak_reserved_bytes, ...curves.map(w => w.top), 1) * 1.05;
  const x = m => (m - view.from) / (view.to - view.from) * width, y = n => height - axis - n / top * (height - axis - strip);
  const style = getComputedStyle(canvas), ink = style.color;
  c.font = "12px system-ui, sans-serif";
  if (shown) recorded(c, shown, d, x, y, ink);
  for (const w of curves) {
    const colours = style.getPropertyValue("--curve-" + w.number) || ink;
    for (const [curve, dash] of [[w.fresh, [7, 4]], [w.kept, [2, 3]]]) {
      line(c, colours, dash, curve.map((n, i) => [x(w.from + i * (w.to - w.from) / curve.length), x(w.from + (i + 1) * (w.to - w.from) / curve.length), y(n)]));
    }
  }
  c.fillStyle = c.strokeStyle = ink;
  for (const part of [0.25, 0.5, 0.75, 1]) {
    c.globalAlpha = 0.2;
    c.fillRect(0, Math.round(y(top * part / 1.05)), width, 1);
    c.globalAlpha = 1;
    label(c, bytes(Math.round(top * part / 1.05)), 4, y(top * part / 1.05) - 3, width, style);
  }
  phases(c, d, x, width, strip);
  if (view.at >= view.from && view.at <= view.to) line(c, ink, [3, 3], [[x(view.at + 0.5), x(view.at + 0.5), 0], [x(view.at + 0.5), x(view.at + 0.5), height - axis]]);
  label(c, `moment ${view.from}`, 4, height - 3, width);
  label(c, String(view.to), width, height - 3, width);
}

function recorded(c, shown, d, x, y, ink) {
  const k = shown.categories, end = i => i + 1 < shown.count ? shown.first[i + 1] : shown.end ?? shown.to;
  for (let i = 0; i < shown.count; i++) {
    // Whole pixels: neighbours that share a fraction of one leave a seam.
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

function phases(c, d, x, width, strip) {
  d.phases.forEach((p, i) => {
    const left = Math.max(0, x(p.first)), right = Math.min(width, x(p.last));
    if (right <= left) return;
    c.globalAlpha = i % 2 ? 0.1 : 0.22;
    c.fillRect(left, 0, right - left, strip);
    c.globalAlpha = 1;
    if (c.measureText(words(p.name)).width < right - left - 6) c.fillText(words(p.name), left + 3, 12);
  });
}

// A text that stays within the picture; over colours it stands on paper.
function label(c, text, left, base, width, style) {
  const wide = c.measureText(text).width, at = Math.max(2, Math.min(left, width - wide - 4));
  if (style) {
    const ink = c.fillStyle;
    c.fillStyle = style.getPropertyValue("--paper") || "#fff";
    c.globalAlpha = 0.75;
    c.fillRect(at - 2, base - 11, wide + 4, 14);
    c.globalAlpha = 1;
    c.fillStyle = ink;
  }
  c.fillText(text, at, base);
}

function line(c, style, dash, pieces) {
  c.strokeStyle = style;
  c.setLineDash(dash);
  c.beginPath();
  for (const [left, right, y] of pieces) { c.lineTo(left, y); c.lineTo(right, y); }
  c.stroke();
  c.setLineDash([]);
}
