// Figures: byte counts and intervals in words. Unknown is —, and never 0.

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

// The unit that suits the largest of some counts of bytes.
export function unitFor(...counts) {
  const most = Math.max(1, ...counts.map(n => Math.abs(n ?? 0)).filter(Number.isFinite));
  return Math.min(units.length - 1, Math.floor(Math.log(most) / Math.log(1024)));
}

export const unitName = u => units[u];

function fixed(n, u) {
  // Halves go away from zero, as on the command line; what rounds to nothing has no sign.
  const places = u ? 100 : 1, x = Math.sign(n) * Math.round(Math.abs(n) / 1024 ** u * places) / places || 0;
  return u ? x.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : x.toLocaleString("en-US");
}

export const bytes = n => n == null ? "—" : fixed(n, unitFor(n)) + " " + units[unitFor(n)];

export const count = n => n == null ? "—" : n.toLocaleString("en-US");

// A figure of a record: exact, an interval, a lower bound, or unknown. The fields
// are name, name_low and name_high before "_bytes".
export function figure(object, name) {
  const exact = object[name + "_bytes"] ?? (name === "" ? object.bytes : undefined);
  if (exact != null) return { low: exact, high: exact };
  const prefix = name ? name + "_" : "";
  return { low: object[prefix + "low_bytes"] ?? null, high: object[prefix + "high_bytes"] ?? null };
}

export const exactly = n => ({ low: n ?? null, high: n ?? null });

export function interval({ low, high }, u = unitFor(low, high)) {
  if (low == null && high == null) return "—";
  if (high == null) return "≥ " + fixed(low, u);
  if (low == null) return "≤ " + fixed(high, u);
  if (low === high || fixed(low, u) === fixed(high, u)) return fixed(low, u);
  return low < 0 ? `${fixed(low, u)} to ${fixed(high, u)}` : `${fixed(low, u)}–${fixed(high, u)}`;
}

export const withUnit = f => f.low == null && f.high == null ? "—" : `${interval(f)} ${unitName(unitFor(f.low, f.high))}`;

// A difference has its sign, unless it rounds to nothing.
export function signed(f, u) {
  const text = interval(f, u);
  return (f.low ?? f.high) > 0 && /[1-9]/.test(text) ? "+" + text.replace("–", " to +") : text;
}

// A duration in a unit of its size.
export function duration(ns) {
  if (ns == null || ns === 0) return "—";
  if (ns < 1e9) return Math.round(ns / 1e6) + " ms";
  return ns < 6e10 ? (ns / 1e9).toFixed(1) + " s" : `${Math.floor(ns / 6e10)} min ${Math.round(ns / 1e9 % 60)} s`;
}
