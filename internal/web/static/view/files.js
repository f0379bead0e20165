// Fields that name a file: by its path on the machine of the program, where what was
// used last is suggested, or by choosing one, which is sent to the program alone.
import { element } from "../dom.js";
import { upload } from "../server.js";
import { last, remember } from "./last.js";

export function pathField(id, label) {
  const list = element("datalist", { id: id + "-list" });
  const input = element("input", { id, size: 40, list: id + "-list", autocomplete: "off", spellcheck: "false" });
  const fill = () => list.replaceChildren(...last("files").map(value => element("option", { value })));
  fill();
  return { input, row: element("div", { class: "field" }, element("label", { for: id }, label), input, list), remember: value => { remember("files", value); fill(); } };
}

export function fileField(id, label, use, tell) {
  const input = element("input", { type: "file", id, onchange: async () => {
    try {
      if (input.files[0]) use(await upload(input.files[0]));
    } catch (error) { tell(error); }
  } });
  return element("div", { class: "field" }, element("label", { for: id }, label), input);
}
