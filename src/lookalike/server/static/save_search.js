// The buttons that save a search and export its results.
import { post } from "./api.js";
import { forget, may } from "./collection.js";
import { button, h } from "./dom.js";
import { askName, attempt } from "./notify.js";
import { go, link, NO_EXAMPLES } from "./router.js";

const CUTOFFS = [
  ["", "the 200 best"],
  ["0.5", "at least 50 % likely"],
  ["0.8", "at least 80 % likely"],
];

/** A button that saves the search of a request; null if the user may not. `cutoff()` returns the highest score. */
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
    askName("Save this search", "Save", save, { value: request.words.join(", "), after: choice });
  };
  return button("save", "Save this search", ask);
}

/** A button that downloads the pictures of `results()`, or a list of them. */
export const exportButton = (results) =>
  button("out", "Export", () =>
    attempt(async () => (await import("./selection_bar.js")).download(new Set(results().map(({ item }) => item.id)))),
  );
