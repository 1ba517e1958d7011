// The buttons that save a search and export its results, and the dialog for the name of a saved search.
import { post } from "./api.js";
import { forget, may } from "./collection.js";
import { button, h } from "./dom.js";
import { attempt, dialog } from "./notify.js";
import { go, link, NO_EXAMPLES } from "./router.js";

const CUTOFFS = [
  ["", "the 200 best"],
  ["0.5", "at least 50 % likely"],
  ["0.8", "at least 80 % likely"],
];

/** A button that saves a search, given as the body of its request; null if the user may not. `cutoff()` is the highest score. */
export function saveButton(request, cutoff) {
  if (!may("judge")) return null;
  const limit = h("select", {}, CUTOFFS.map(([value, text]) => h("option", { value }, text)));
  const save = async (name) => {
    const likely = limit.value ? Number(limit.value) : undefined;
    const saved = await post("/saved", { ...request, name, likely, within: cutoff() ?? undefined });
    forget(); // the number of saved searches
    go(link("saved", saved.id, NO_EXAMPLES));
  };
  const choice = h("label", {}, h("span", {}, "Results"), limit);
  const ask = () => {
    limit.options[0].text = cutoff() === null ? CUTOFFS[0][1] : `score up to ${cutoff()}`;
    askName("Save this search", "Save", request.words.join(", "), save, choice);
  };
  return button("save", "Save this search", ask);
}

/** A button that downloads the pictures of `results()`, or a list of them. */
export const exportButton = (results) =>
  button("out", "Export", () =>
    attempt(async () => (await import("./selection_bar.js")).download(new Set(results().map(({ item }) => item.id)))),
  );

/** A dialog that asks for the name of a saved search, and calls `act` with it. */
export function askName(heading, words, value, act, ...content) {
  const field = h("input", { type: "text", required: true, maxlength: 200, autocomplete: "off", value });
  const submit = async (event) => {
    event.preventDefault();
    if (field.value.trim() && (await attempt(async () => (await act(field.value.trim()), true)))) box.close();
  };
  const send = h("p", { class: "actions" }, button(null, words, null, { type: "submit", class: "main" }));
  const box = dialog(heading, h("form", { onsubmit: submit }, h("label", {}, h("span", {}, "Name"), field), content, send));
  field.select();
}
