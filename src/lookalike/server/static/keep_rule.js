// The rule that selects copies for removal: what to keep, and the folders whose pictures stay.
import { post } from "./api.js";
import { button, h } from "./dom.js";
import { bytes, many } from "./format.js";
import { attempt, note } from "./notify.js";

const KEEP = { largest: "the largest", oldest: "the oldest", folder: "those in the folder" };

/** Return {element, select}: the form of the rule, and a function that applies it to all groups or to these ids. */
export function keepRule(marked) {
  const keep = h("select", {}, Object.entries(KEEP).map(([value, words]) => h("option", { value }, words)));
  const folder = h("input", { type: "text", "aria-label": "Folder to keep", hidden: true, required: true, disabled: true });
  const references = h("textarea", { rows: 3 });
  const crops = h("input", { type: "checkbox" });
  keep.onchange = () => (folder.hidden = folder.disabled = keep.value !== "folder");

  async function select(ids) {
    if (!element.reportValidity()) return;
    const rule = {
      keep: folder.disabled ? keep.value : folder.value.trim(),
      references: references.value.split("\n").map((line) => line.trim()).filter(Boolean),
      crops: crops.checked,
    };
    const found = await attempt(() => post("/duplicates/copies", rule));
    if (!found) return;
    const chosen = found.items.filter((id) => !ids || ids.includes(id));
    marked.select(chosen, ids);
    if (!chosen.length) note("No copies to select. Crops and pictures in reference folders stay.");
    else if (!ids) marked.summary.append(` In ${many(found.n_groups, "group")}, ${bytes(found.bytes)}.`);
  }

  const submit = (event) => {
    event.preventDefault();
    select();
  };
  const element = h(
    "form",
    { class: "rule line", onsubmit: submit },
    h("label", { class: "choice" }, h("span", {}, "Keep"), keep),
    folder,
    h("label", { class: "tick" }, crops, h("span", {}, "Select crops too")),
    button("duplicates", "Select all copies", null, { type: "submit", title: "In all groups, including those not shown" }),
    h(
      "details",
      {},
      h("summary", {}, "Reference folders"),
      h("label", { class: "quiet" }, "Pictures in these folders are never selected. One folder per line:", references),
    ),
  );
  return { element, select };
}
