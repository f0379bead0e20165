// What the page asks of the program that serves it. The token comes behind "#" in
// the address, which is sent to nobody, and stays with this tab.
import { columns } from "./trace/columns.js";

const stored = "floodmark-token";

export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("token")) {
    sessionStorage.setItem(stored, given.get("token"));
    history.replaceState(null, "", location.pathname + "#" + (given.get("to") || "size"));
  }
}

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { Authorization: "Bearer " + (sessionStorage.getItem(stored) || ""), ...options.headers } });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(said.message || `the server answered ${response.status}`);
  }
  return response;
}

const json = (path, body, signal) => ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });

// Runs a command as the command line would, for its record. An error is a record, too.
// --json stands before all else, for behind -- it would be another program's.
export async function answer([verb, ...args], signal) {
  const response = await json("/api/answer", { args: [verb, "--json", ...args] }, signal);
  return { record: await response.json(), exit: Number(response.headers.get("X-Exit-Code")) };
}

export async function upload(file) {
  const response = await ask("/api/upload?name=" + encodeURIComponent(file.name), { method: "POST", body: file });
  return (await response.json()).path;
}

// An answer, or the reason why there is none.
async function content(response) {
  const v = await (await response).json();
  if (v.error) throw new Error(v.error);
  return v;
}

export const models = async () => (await content(ask("/api/models"))).models;

export const openTrace = path => content(json("/api/traces", { path }));

const question = values => new URLSearchParams(Object.entries(values).filter(([, v]) => v != null));

export async function levels(id, device, from, to, n, signal) {
  const response = await ask(`/api/traces/${id}/${device}/levels?` + question({ from, to, n }), { signal });
  return columns(await response.arrayBuffer());
}

export const allocations = async (id, device, from, to, n) => (await content(ask(`/api/traces/${id}/${device}/allocations?` + question({ from, to, n })))).allocations;

export const segments = async (id, device, at) => (await content(ask(`/api/traces/${id}/${device}/segments?` + question({ at })))).segments;

export const replayed = (id, device, conf, from, to, n) => content(ask(`/api/traces/${id}/${device}/replay?` + question({ conf, from, to, n })));
