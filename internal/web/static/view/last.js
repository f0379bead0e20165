// What was used last on this page, newest first. It stays in the browser.
const most = 8;

export function last(kind) {
  try {
    const list = JSON.parse(localStorage.getItem("floodmark-" + kind));
    return Array.isArray(list) ? list.filter(v => typeof v === "string") : [];
  } catch { return []; }
}

export function remember(kind, value) {
  if (!value) return;
  try {
    localStorage.setItem("floodmark-" + kind, JSON.stringify([value, ...last(kind).filter(v => v !== value)].slice(0, most)));
  } catch { /* a browser that keeps nothing suggests nothing */ }
}
