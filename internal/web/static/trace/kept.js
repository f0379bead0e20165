// A trace as a file of --html keeps it: levels of detail, the largest allocations, and
// the segments of the peak. It is a source for a device's view, as the server is.
import { columns } from "./columns.js";

export function kept(d) {
  const levels = d.levels.map(text => columns(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer));
  const allocations = d.largest.map(a => ({ ...a, category: d.categories[a.category] || "unattributed", stack: a.stack < 0 ? [] : d.stacks[a.stack].map(f => d.frames[f]) }));
  return {
    // The coarsest level whose buckets are about as many as were asked for.
    levels: async (from, to, n) => {
      const share = (to - from) / Math.max(1, d.moments), l = levels.find(l => l.count * share >= n) || levels.at(-1);
      return l ? within(l, from, to, d.moments, n) : { count: 0, categories: 0, first: [], low: [], high: [], reserved: [], shares: [] };
    },
    allocations: async (at, n) => allocations.filter(a => a.born <= at && (a.freed < 0 || a.freed > at)).slice(0, n),
    segments: async at => at === d.peak_moment ? d.segments : null,
    replayed: null,
  };
}

// The buckets that lie in a run of moments; about says that one is wider than that.
function within(l, from, to, moments, n) {
  let first = 0, last = l.count;
  while (first + 1 < l.count && l.first[first + 1] <= from) first++;
  while (last - 1 > first && l.first[last - 1] >= to) last--;
  const cut = list => list.slice(first, last), end = last < l.count ? l.first[last] : moments;
  return { count: last - first, categories: l.categories, first: cut(l.first), low: cut(l.low), high: cut(l.high), reserved: cut(l.reserved), shares: l.shares.slice(first * l.categories, last * l.categories), end, about: n === 1 && end - l.first[first] > to - from };
}
