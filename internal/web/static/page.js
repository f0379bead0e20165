// The page: three views, of which one is shown, and the address that names it.
import { takeToken } from "./server.js";
import { size } from "./view/size.js";
import { records } from "./view/records.js";
import { trace } from "./view/trace.js";

const problem = document.getElementById("problem");

function tell(error) {
  if (error?.name === "AbortError") return;
  problem.hidden = !error;
  problem.textContent = error ? error.message : "";
}

takeToken();
const views = {
  size: size(document.getElementById("size"), tell),
  records: records(document.getElementById("records"), tell, path => { go("trace", { path }); }),
  trace: trace(document.getElementById("trace"), tell, a => { go("records", { a }); }),
};
const tabs = [...document.querySelectorAll("[role=tab]")];

function go(name, values) {
  location.hash = name + (values ? "?" + new URLSearchParams(values) : "");
}

function route() {
  const [name, query] = location.hash.slice(1).split("?");
  const shown = views[name] ? name : "size";
  for (const tab of tabs) {
    const own = tab.id === "tab-" + shown;
    tab.setAttribute("aria-selected", own);
    tab.tabIndex = own ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !own;
  }
  tell(null);
  views[shown](new URLSearchParams(query || ""));
}

for (const [i, tab] of tabs.entries()) {
  tab.addEventListener("click", () => go(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", e => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });
}
addEventListener("hashchange", route);
route();
