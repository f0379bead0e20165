// Size: a workload and a card, and at once what each rank needs. Every figure is of a
// record that the program itself made; the command that makes it is shown.
import { element, paragraph } from "../dom.js";
import { answer } from "../server.js";
import { show } from "../record/show.js";
import { fields, command, taken } from "./fields.js";
import { form } from "./form.js";
import { remember } from "./last.js";

export function size(host, tell) {
  const f = form(change);
  const shown = element("div", { class: "answer" });
  const status = element("p", { role: "status", class: "quiet" });
  const spoken = element("p", { role: "status", class: "visually-hidden" }); // the verdict, for who does not see it change
  host.append(f.host, element("div", {}, status, spoken, shown));
  let running, wait, listed = false;

  // What is typed is waited for a little longer than what is moved.
  function change(event) {
    history.replaceState(null, "", "#size?" + new URLSearchParams(f.shared()));
    clearTimeout(wait);
    wait = setTimeout(run, event?.inputType ? 350 : 120);
  }

  // put fills the form anew, with one change or another.
  function put(given) {
    f.fill(given);
    change();
  }

  async function run() {
    running?.abort();
    running = new AbortController();
    const given = f.shared();
    if (given.work === "server" ? !given.command : !given.model) return shown.replaceChildren(paragraph(given.work === "server" ? "Write the command that starts the server: vllm serve, and its flags." : "Name a model: llama-3.1-8b, a folder, or org/name of a hub.", "quiet"));
    shown.setAttribute("aria-busy", "true");
    const long = setTimeout(() => { status.textContent = given.gpu === "all" ? "estimating, for each card …" : "estimating …"; }, 400);
    try {
      const args = command(given), { record } = await answer(args, running.signal);
      tell(null);
      if (record.kind !== "error") remember("models", given.model);
      show(shown, record, args, { apply: setting => put(taken(f.shared(), setting)), choose: gpu => put({ ...f.shared(), gpu }) });
      if (given.gpu !== "all" && record.kind === "estimate") shown.querySelector(".raw").before(most(given));
      spoken.textContent = shown.querySelector(".verdict")?.textContent || "";
    } catch (error) {
      if (error.name === "AbortError") return; // another question is on its way
      tell(error);
    } finally { clearTimeout(long); }
    status.textContent = "";
    shown.removeAttribute("aria-busy");
  }

  // The most of one thing that fits, when somebody asks: each is a search of its own.
  function most(given) {
    const said = element("span", { role: "status" });
    const ask = (name, words, fits) => element("button", { type: "button", onclick: async () => {
      said.replaceChildren("searching …");
      try {
        const { record } = await answer(command({ ...given, [name]: "" }, ["solve", name.replaceAll("-", "_")]));
        const value = record.solution?.value;
        said.replaceChildren(...value == null ? [record.message || record.solution?.limit_reason || "none is known to fit"] : [`${words} that ${fits}: ${value.toLocaleString("en-US")}. `,
          element("button", { type: "button", onclick: () => put({ ...f.shared(), [name]: String(value) }) }, "Take it")]);
        tell(null);
      } catch (error) { tell(error); }
    } }, `${words} that ${fits}?`);
    const questions = !given.gpu || given.work === "server" ? [] : given.work === "training" ? [ask("context", "Longest sequence", "fits"), ask("micro-batch", "Largest micro-batch", "fits")] : [ask("context", "Largest context", "fits"), ask("sequences", "Most sequences", "fit")];
    return element("p", { class: "most" }, questions.flatMap(q => [q, " "]), element("button", { type: "button", onclick: () => put({ ...given, gpu: "all" }) }, "Which cards fit?"), " ", said);
  }

  async function catalogue() {
    listed = true;
    try {
      const { record } = await answer(["gpus"]);
      document.getElementById("cards").append(element("option", { value: "all" }, "every card of the catalogue"), ...record.cards.map(c => element("option", { value: c.id }, c.name)));
    } catch (error) { tell(error); }
  }

  return query => {
    if (![...query].length && listed) return; // the tab alone: what was there stays
    f.fill(Object.fromEntries(fields.map(field => [field.name, query.get(field.name)]).filter(([, v]) => v != null)));
    if (!listed) catalogue();
    return run();
  };
}
