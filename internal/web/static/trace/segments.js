// The segments of a moment as bars of their own length: allocations in their
// category's colour, and what is free between them empty.
import { element, words, table, colour } from "../dom.js";
import { bytes, count } from "../figures.js";

const mostBars = 40, row = 12;

export function map(given, d) {
  if (!given.length) return null;
  const largest = [...given].sort((a, b) => b.bytes - a.bytes).slice(0, mostBars), most = Math.max(1, largest[0].bytes);
  const used = s => s.blocks.reduce((n, b) => n + b.bytes, 0);
  const held = given.reduce((n, s) => n + s.bytes, 0), free = given.reduce((n, s) => n + s.bytes - used(s), 0);
  const canvas = element("canvas", { class: "segments", height: largest.length * row, width: 800, role: "img", "aria-label": `the ${largest.length} largest of ${given.length} segments: ${bytes(held)} reserved, of which ${bytes(free)} are free` });
  draw(canvas, largest, most, d);
  return element("figure", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "segments" }, canvas),
    element("figcaption", {}, `Segments, the largest ${largest.length} of ${given.length}: ${bytes(held)} reserved; filled is in use, empty is free inside a segment, ${bytes(free)} of all`),
    element("details", {}, element("summary", {}, "The segments one by one"),
      table("Segments at this moment", [{ title: "address" }, { title: "bytes", number: true }, { title: "in use", number: true }, { title: "largest gap", number: true }, { title: "blocks", number: true }, { title: "mostly" }],
        largest.map(s => [s.address, bytes(s.bytes), bytes(used(s)), bytes(gap(s)), count(s.blocks.length), mostly(s)]))));
}

function gap(s) {
  let at = 0, largest = 0;
  for (const b of s.blocks) {
    largest = Math.max(largest, b.offset - at);
    at = b.offset + b.bytes;
  }
  return Math.max(largest, s.bytes - at);
}

function mostly(s) {
  const by = {};
  for (const b of s.blocks) by[b.category] = (by[b.category] || 0) + b.bytes;
  const first = Object.entries(by).sort((a, b) => b[1] - a[1])[0];
  return first ? words(first[0]) : "free";
}

function draw(canvas, largest, most, d) {
  const c = canvas.getContext("2d"), scale = 798 / most;
  largest.forEach((s, i) => {
    const y = i * row;
    c.strokeStyle = "#888";
    c.strokeRect(0.5, y + 0.5, Math.max(1, s.bytes * scale), row - 3);
    for (const b of s.blocks) {
      const j = d.categories.indexOf(b.category);
      c.fillStyle = colour(b.category, j < 0 ? 0 : d.places[j]);
      c.fillRect(b.offset * scale, y + 1, Math.max(0.5, b.bytes * scale), row - 4);
    }
  });
}
