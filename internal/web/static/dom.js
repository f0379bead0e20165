// Elements and figures: the words that every view shares.

export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  place(e, attributes, children);
  return e;
}

export function drawn(name, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  place(e, attributes, children);
  return e;
}

function place(e, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.filter(c => c != null));
}

export const words = name => String(name).replaceAll("_", " ");

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

// The unit that suits the largest of some counts of bytes.
export function unitFor(...counts) {
  const most = Math.max(1, ...counts.map(n => Math.abs(n ?? 0)).filter(Number.isFinite));
  return Math.min(units.length - 1, Math.floor(Math.log(most) / Math.log(1024)));
}

export const unitName = u => units[u];

export function fixed(n, u) {
  const places = u ? 100 : 1, x = Math.round(n / 1024 ** u * places) / places || 0; // no -0.00
  return u ? x.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : x.toLocaleString("en-US");
}

export const bytes = n => n == null ? "—" : fixed(n, unitFor(n)) + " " + units[unitFor(n)];

// A figure of a record: exact, an interval, a lower bound, or unknown, which is
// never 0. The fields are name, name_low and name_high before "_bytes".
export function figure(object, name) {
  const exact = object[name + "_bytes"] ?? (name === "" ? object.bytes : undefined);
  if (exact != null) return { low: exact, high: exact };
  const prefix = name ? name + "_" : "";
  return { low: object[prefix + "low_bytes"] ?? null, high: object[prefix + "high_bytes"] ?? null };
}

export function interval({ low, high }, u = unitFor(low, high)) {
  if (low == null && high == null) return "—";
  if (high == null) return "≥ " + fixed(low, u);
  if (low === high || fixed(low, u) === fixed(high, u)) return fixed(low, u);
  return low < 0 ? `${fixed(low, u)} to ${fixed(high, u)}` : `${fixed(low, u)}–${fixed(high, u)}`;
}

export const withUnit = f => f.low == null && f.high == null ? "—" : `${interval(f)} ${unitName(unitFor(f.low, f.high))}`;

// A table whose first row of headings names the columns; numbers stand right.
export function table(caption, columns, rows) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...columns.map(c => element("th", { scope: "col", class: c.number ? "number" : null }, c.title)))),
      element("tbody", {}, ...rows.map(row => element("tr", {}, ...row.map((cell, i) =>
        element("td", { class: columns[i].number ? "number" : null, "data-title": columns[i].title }, cell)))))));
}

export const verdictWord = v => ({ fits: "FITS", does_not_fit: "DOES NOT FIT", cannot_tell: "CANNOT TELL", not_runnable: "NOT RUNNABLE" })[v] || words(v);

// A category has one colour everywhere, by its place among all of them; what
// nobody can attribute is grey.
export const colour = (name, place) => name === "unattributed" ? "hsl(215 8% 58%)" : `hsl(${(place * 137.5 + 215) % 360} 52% ${place % 2 ? 45 : 63}%)`;
