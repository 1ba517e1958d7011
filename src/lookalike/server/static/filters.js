// The filter bar: words of a path or a label, the minimum size, the order. All are stored in the address.
import { address, get } from "./api.js";
import { h, icon } from "./dom.js";
import { amend, go } from "./router.js";

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
  ["taken", "by date taken"],
];
const FORMATS = { csv: "Table (CSV)", json: "JSON", paths: "List of paths", coco: "COCO" };

/** The filter in the address, in the API's form. A word without wildcards matches anywhere in the path. */
export function filter(query) {
  const path = query.get("path");
  return {
    label: query.get("label"),
    path: path && (/[*?[]/.test(path) ? path : `*${path}*`),
    min_side: query.get("min_side"),
  };
}

/** The filter without unset values. */
export const body = (query) => {
  const set = Object.fromEntries(Object.entries(filter(query)).filter(([, value]) => value));
  return set.min_side ? { ...set, min_side: Number(set.min_side) } : set;
};

export const filtered = (query) => ["label", "path", "min_side"].some((name) => query.get(name));

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
  const choose = (name, caption, choices) => {
    const options = choices.map(([value, text]) =>
      h("option", { value, selected: (query.get(name) ?? "") === value }, text),
    );
    return h(
      "label",
      { class: "choice" },
      h("span", {}, caption),
      h("select", { onchange: (event) => go(amend({ [name]: event.target.value || null })) }, options),
    );
  };
  return h(
    "form",
    { class: "filters", "aria-label": "Filters", onsubmit: submit },
    h("label", { class: "choice filter" }, h("span", {}, "Filter"), icon("filter"), field, names),
    choose("min_side", "Size", SIZES),
    order && choose("order", "Order", ORDERS),
    filtered(query) &&
      h("a", { class: "button plain", href: amend({ label: null, path: null, min_side: null }) }, "Clear filters"),
  );
}

/** The export menu: one download link per format, with `what` as the query. */
export function exporter(path, what = {}, formats = ["csv", "json", "paths", "coco"]) {
  const links = formats.map((format) =>
    h("li", {}, h("a", { href: address(path, { ...what, format }), download: "" }, FORMATS[format])),
  );
  return h(
    "details",
    { class: "menu" },
    h("summary", { class: "button" }, icon("out"), h("span", {}, "Export")),
    h("ul", {}, links),
  );
}
