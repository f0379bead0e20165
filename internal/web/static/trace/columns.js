// Columns of 64-bit integers, as levelColumns writes them: a count of buckets and one
// of categories, then first, low, high and reserved of each bucket, then the shares.
export function columns(buffer) {
  const all = new BigInt64Array(buffer), count = Number(all[0]), categories = Number(all[1]);
  const column = i => Array.from(all.subarray(2 + i * count, 2 + (i + 1) * count), Number);
  return { count, categories, first: column(0), low: column(1), high: column(2), reserved: column(3), shares: Array.from(all.subarray(2 + 4 * count), Number) };
}
