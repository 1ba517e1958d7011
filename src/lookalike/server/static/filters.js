// The filters, which are stored in the address: the filter bar, the active filters, and the button for the facets.
import { address, get } from "./api.js";
import { button, choice, h, icon } from "./dom.js";
import { dialog } from "./notify.js";
import { recall, remember } from "./remembered.js";
import { amend, go, read } from "./router.js";
import { menu } from "./view_parts.js";

const SIZES = [
  ["", "any size"],
  ["300", "at least 300 px"],
  ["800", "at least 800 px"],
  ["2000", "at least 2,000 px"],
];
const ORDERS = [
  ["", "by path"],
  ["id", "shuffled"],
  ["added", "by date added"],
  ["taken", "timeline"],
];
const FORMATS = { csv: "Table (CSV)", json: "JSON", paths: "List of paths", coco: "COCO" };

const DAY_S = 86_400;

/** The names of all filters, with the words that introduce their values. */
export const FILTERS = {
  label: "Class",
  path: "Name",
  folder: "Folder",
  since: "From",
  until: "Until",
  year: "Year",
  camera: "Camera",
  lens: "Lens",
  place: "Place",
  orientation: "Orientation",
  file_format: "Format",
  labelled: "Labelled",
  suggested: "Suggested class",
  min_side: "Pixels, at least",
};

const day = (text) => Date.parse(text) / 1000;
const VALUES = {
  path: (text) => (/[*?[]/.test(text) ? text : `*${text}*`), // a word without wildcards matches anywhere
  since: day,
  until: (text) => day(text) + DAY_S - 1e-6,
  year: Number,
  labelled: (text) => text === "true",
  min_side: Number,
};

/** The value of a filter in words. */
export const valueWords = (value) => ({ true: "yes", false: "no" })[value] ?? value;

const active = (query) => Object.keys(FILTERS).filter((name) => query.get(name));

/** The filter in the address, in the API's form. */
export const filter = (query) =>
  Object.fromEntries(active(query).map((name) => [name, (VALUES[name] ?? String)(query.get(name))]));

export const filtered = (query) => active(query).length > 0;

/** The filters in the address as a query, to keep them in another view. */
export function keptFilters() {
  const { view, query } = read();
  const names = ["pictures", "search", "session"].includes(view) ? active(query) : [];
  return Object.fromEntries(names.map((name) => [name, query.get(name)]));
}

/** The active filters, as links that remove them. */
function chips(query) {
  const chip = (name) => {
    const words = `${FILTERS[name]}: ${valueWords(query.get(name))}`;
    const props = { href: amend({ [name]: null }), "aria-label": `Remove the filter ${words}` };
    return h("li", {}, h("a", props, words, icon("no")));
  };
  const none = Object.fromEntries(active(query).map((name) => [name, null]));
  const clear = h("li", { class: "quiet" }, h("a", { class: "button plain", href: amend(none) }, "Clear filters"));
  return h("ul", { class: "chips", role: "list", "aria-label": "Active filters" }, active(query).map(chip), clear);
}

const WIDE = matchMedia("(min-width: 1001px)"); // the facets have space next to the pictures
const isOpen = () => WIDE.matches && recall("facets") === "1";

/** Show or hide the facets: next to the pictures, or as a dialog. */
async function toggle(query, opener, signal) {
  const { facets } = await import("./facets.js");
  const place = WIDE.matches && document.querySelector("main .browse");
  if (!place) return dialog("Filters", facets(query, signal));
  const shown = place.querySelector(".facets");
  opener.setAttribute("aria-expanded", !shown);
  remember("facets", shown ? "" : "1");
  return shown ? shown.remove() : place.prepend(facets(query, signal));
}

/** Pictures, with the facets next to them if the user has opened them. */
export async function withFacets(content, query, signal) {
  return h("div", { class: "browse" }, isOpen() && (await import("./facets.js")).facets(query, signal), content);
}

/** The filter bar, with a choice of order if `order` is set. Class names are offered once they are loaded. */
export function bar(query, { order = false, signal } = {}) {
  const names = h("datalist", { id: "labels" });
  const field = h("input", {
    type: "text",
    name: "filter",
    placeholder: "Folder, file name or class",
    "aria-label": "Filter by folder, file name or class",
    list: "labels",
    autocomplete: "off",
    value: query.get("label") ?? query.get("path") ?? "",
  });
  let known = [];
  get("/classes", {}, signal).then(
    (classes) => {
      known = classes.map(({ name }) => name);
      names.append(...known.map((name) => h("option", { value: name })));
    },
    () => {},
  ); // suggestions only
  const submit = (event) => {
    event?.preventDefault();
    const text = field.value.trim();
    const label = known.find((name) => name.toLowerCase() === text.toLowerCase());
    go(amend({ label: label ?? null, path: label ? null : text || null }));
  };
  field.addEventListener("change", () => (field.value.trim() === "" || known.includes(field.value)) && submit());
  const choose = (name, words, options) =>
    choice(words, options, query.get(name) ?? "", (value) => go(amend({ [name]: value || null })));
  const opener = button("filter", "Filters", () => toggle(query, opener, signal), { "aria-expanded": String(isOpen()) });
  return h(
    "form",
    { class: "filters", "aria-label": "Filters", onsubmit: submit },
    h("label", { class: "choice filter" }, icon("filter"), field, names),
    opener,
    choose("min_side", "Size", SIZES),
    order && choose("order", "Order", ORDERS),
    filtered(query) && chips(query),
  );
}

/** The export menu: one download link per format, with `what` as the query. */
export function exporter(path, what = {}, formats = ["csv", "json", "paths", "coco"]) {
  const links = formats.map((format) =>
    h("a", { href: address(path, { ...what, format }), download: "" }, FORMATS[format]),
  );
  return menu([icon("out"), h("span", {}, "Export")], links);
}
