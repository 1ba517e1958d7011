// Charts of the classes: their sizes, and which of them are confused, with the pictures.
import { get, post, thumbnail } from "./api.js";
import { may } from "./collection.js";
import { bars } from "./charts.js";
import { button, h } from "./dom.js";
import { many, moment, percent } from "./format.js";
import { follow } from "./job_progress.js";
import { attempt, dialog } from "./notify.js";
import { link } from "./router.js";

const LARGEST = 20; // classes in the chart

/** The sizes of the largest classes: labelled pictures, and suggestions. */
export function sizes(classes) {
  const rows = [...classes].sort((a, b) => b.pictures - a.pictures).slice(0, LARGEST);
  const row = ({ name, pictures, predicted }) => ({
    name,
    href: link("class", name),
    value: pictures,
    more: predicted ?? 0,
    text: `${many(pictures, "picture")}${predicted ? ` + ${predicted} suggested` : ""}`,
  });
  return h(
    "section",
    { class: "charts" },
    h("h2", {}, rows.length < classes.length ? `The ${LARGEST} largest classes` : "Sizes"),
    bars("Pictures per class", rows.map(row)),
  );
}

/** The last evaluation of the classes, and a button for a new one. */
export async function quality(signal) {
  const { jobs } = await get("/jobs", {}, signal);
  const last = jobs.find(({ kind, state }) => kind === "evaluate" && state === "done");
  const place = h("div", { class: "charts" });
  const start = () =>
    attempt(async () => {
      const job = await post("/jobs", { kind: "evaluate" });
      place.replaceChildren(follow(job, "Predicting every labelled picture from the others…", signal));
    });
  place.append(
    h("p", {}, last ? `${last.message} (${moment(last.ended)})` : "How well do the labels predict each other?"),
    last ? matrix(last.result) : "",
    may("judge") ? button("classes", last ? "Evaluate again" : "Evaluate the classes", start) : "",
  );
  return h("section", { class: "charts" }, h("h2", {}, "Confused classes"), place);
}

/** A table of the most confused classes: a row per class, a column per predicted class. */
function matrix({ confused, by_class: figures, own_none: none, pictures }) {
  const unknown = Math.round(none * pictures); // labelled pictures that are predicted as no class
  const others = unknown ? ` For ${many(unknown, "picture")}, no class is predicted.` : "";
  if (!confused.length) return h("p", { class: "quiet" }, `No classes are confused.${others}`);
  const names = (key) => [...new Set(confused.map((pair) => pair[key]))];
  const columns = names("predicted");
  const right = new Map(figures.map((figure) => [figure.name, figure.right]));
  const cell = (label, predicted) => {
    const pair = confused.find((one) => one.label === label && one.predicted === predicted);
    if (!pair) return h("td", {}, label === predicted ? h("span", { class: "quiet" }, percent(right.get(label))) : "");
    const words = `${many(pair.pictures, "picture")} of ${label} predicted as ${predicted}`;
    const image = h("img", { src: thumbnail(pair.ids[0], 128), alt: "", width: 56, height: 56 });
    const open = () => dialog(words, gallery(pair.ids));
    return h("td", {}, h("button", { type: "button", "aria-label": words, onclick: open }, image, h("b", {}, pair.pictures)));
  };
  const row = (label) =>
    h("tr", {}, h("th", { scope: "row" }, label), columns.map((predicted) => cell(label, predicted)));
  const head = h("tr", {}, h("td", {}), columns.map((name) => h("th", { scope: "col" }, name)));
  const table = h("table", {}, h("caption", { class: "quiet" }, "Rows: label. Columns: predicted class."), head, names("label").map(row));
  return h("div", { class: "matrix", tabindex: 0, role: "region", "aria-label": "Confused classes" }, table);
}

/** Pictures of a confusion, each a link, where its label can be corrected. */
function gallery(ids) {
  const picture = (id, i) =>
    h("a", { href: link("item", id) }, h("img", { src: thumbnail(id), alt: `Picture ${i + 1}`, width: 128, height: 128 }));
  return h("div", { class: "gallery" }, ids.map(picture));
}
