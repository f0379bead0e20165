// Elements: the few forms that every view is made of.

export function element(name, attributes = {}, ...children) {
  return place(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return place(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function place(e, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(e.style, value); // a style attribute is refused by the page's policy
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.flat().filter(c => c != null && c !== ""));
  return e;
}

export const words = name => String(name ?? "").replaceAll("_", " ");

export const paragraph = (text, kind) => text ? element("p", { class: kind }, text) : null;

export const title = text => drawn("title", {}, text);

// A table. Its first column names the rows; numbers stand right. A row is a list of
// cells, or a text that heads the rows below it. Nothing to show is no table.
export function table(caption, columns, rows) {
  if (!rows.length) return null;
  const cell = (content, i) => element(i ? "td" : "th", { scope: i ? null : "row", class: columns[i].number ? "number" : null, "data-title": columns[i].title }, content);
  const bodies = [];
  for (const row of rows) {
    if (typeof row === "string") bodies.push(element("tbody", {}, element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: columns.length }, row))));
    else {
      if (!bodies.length) bodies.push(element("tbody"));
      bodies.at(-1).append(element("tr", {}, row.map(cell)));
    }
  }
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, columns.map(c => element("th", { scope: "col", class: c.number ? "number" : null }, c.title)))), bodies));
}

// A line to scale: pieces from one count to another, of which each has a kind. What
// it shows is said beside it or by its label.
export function track(least, most, pieces, label) {
  const at = n => Math.max(0, Math.min(100, (n - least) / ((most - least) || 1) * 100));
  return element("span", { class: "track", role: "img", "aria-label": label }, pieces.filter(p => p.to != null && p.from != null).map(p =>
    element("i", { class: p.kind, title: p.title, style: { left: at(Math.min(p.from, p.to)) + "%", width: Math.abs(at(p.to) - at(p.from)) + "%" } })));
}

// The pieces of a figure: solid up to the least, hatched up to the most.
export const pieces = (f, kind = "") => [{ from: 0, to: f.low ?? 0, kind: "sure " + kind }, { from: f.low ?? 0, to: f.high ?? f.low, kind: "may " + kind }];

export const verdictWord = v => ({ fits: "FITS", does_not_fit: "DOES NOT FIT", cannot_tell: "CANNOT TELL", not_runnable: "NOT RUNNABLE" })[v] || words(v);

// A category has one colour everywhere, by its place among all of them; what
// nobody can attribute is grey.
export const colour = (name, place) => name === "unattributed" ? "hsl(215 8% 58%)" : `hsl(${(place * 137.5 + 215) % 360} 52% ${place % 2 ? 45 : 63}%)`;

export const quoted = arg => /^[\w@%+=:,./-]+$/.test(arg) ? arg : "'" + arg.replaceAll("'", "'\\''") + "'";

export const commandLine = args => element("p", { class: "command" }, element("code", {}, "floodmark " + args.map(quoted).join(" ")));
