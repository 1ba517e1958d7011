// The dialog that splits the labelled pictures into training, validation and test pictures, and downloads them.
import { address, post } from "./api.js";
import { anchor, button, h } from "./dom.js";
import { count } from "./format.js";
import { follow } from "./job_progress.js";
import { attempt, dialog, whileDisabled } from "./notify.js";

const PARTS = { train: "Training", validation: "Validation", test: "Test" };
const PERCENT = { train: 80, validation: 10, test: 10 };

export function openSplit(signal) {
  const field = ([part, words]) =>
    h("label", {}, h("span", {}, `${words}, %`), h("input", { type: "number", min: 0, max: 100, required: true, value: PERCENT[part] }));
  const fields = Object.entries(PARTS).map(field);
  const send = button(null, "Split", null, { type: "submit", class: "main" });
  const place = h("div", { class: "split" });
  const again = () => {
    place.replaceChildren();
    if (place.isConnected) divide(); // the dialog is open
    return false; // the view stays
  };
  const divide = async () => {
    const shares = fields.map(({ lastChild }) => Number(lastChild.value));
    const found = await attempt(() => post("/split", { shares }, signal));
    if (!found) return;
    if (found.job) place.replaceChildren(follow(found.job, "Looking for copies, which stay in one part…", signal, again));
    else place.replaceChildren(table(found.parts), ...found.warnings.map((text) => h("p", { class: "quiet" }, text)));
  };
  const submit = (event) => {
    event.preventDefault();
    whileDisabled(send, divide);
  };
  dialog(
    "Split the labelled pictures",
    h("p", { class: "quiet" }, "A picture stays in its part when others are added. Copies of a photo are in one part."),
    h("form", { class: "shares", onsubmit: submit }, fields, send),
    place,
  );
}

/** The parts, with their numbers of pictures of each class and their downloads. */
function table(parts) {
  const file = ({ selection }, what, query) => address(`/selections/${selection}/${what}`, query);
  const save = (part, words, href, title = words) =>
    anchor(null, words, href, { download: "", title, "aria-label": `${title}: ${PARTS[part.part]}` });
  const downloads = (part) =>
    h("td", {}, part.count > 0 && [
      save(part, "Zip", file(part, "zip", { folders: true }), "Zip with class folders"),
      save(part, "COCO", file(part, "export", { format: "coco" })),
      save(part, "CSV", file(part, "export", { format: "csv" })),
    ]);
  const row = (name, value) => h("tr", {}, h("th", { scope: "row" }, name), parts.map((part) => h("td", {}, count(value(part)))));
  const names = Object.keys(parts[0].classes);
  const head = h("tr", {}, h("td", {}), parts.map(({ part }) => h("th", { scope: "col" }, PARTS[part])));
  const rows = [row("Pictures", (part) => part.count), h("tr", {}, h("th", { scope: "row" }, "Download"), parts.map(downloads))];
  return h("div", { class: "matrix" }, h("table", {}, head, rows, names.map((name) => row(name, (part) => part.classes[name]))));
}
