// The panel of the facets: links that filter by year, camera, place and so on, with numbers of pictures; folders; dates.
import { get } from "./api.js";
import { button, h, icon } from "./dom.js";
import { filter, FILTERS, valueWords } from "./filters.js";
import { folderTree } from "./folder_tree.js";
import { count } from "./format.js";
import { amend, go } from "./router.js";

const SHOWN = 8; // values of a facet at first; see also views.css
const open = new Set(["folder", "year", "camera", "label"]); // the groups that are open, in all views
let known = []; // the last facets, shown until the new ones are loaded
let focused = null; // the value that the user chose last

/** The panel of the facets for the filter in the address. */
export function facets(query, signal) {
  const values = h("div");
  const fill = (found) => {
    const key = values.contains(document.activeElement) && document.activeElement.dataset.key;
    values.replaceChildren(...found.filter((one) => one.values.length).map((one) => group(one, query)));
    focus(key);
  };
  const focus = (key) =>
    key && panel.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  const panel = h(
    "section",
    { class: "facets", "aria-label": "Facets" },
    section("folder", FILTERS.folder, folderTree(query, signal)),
    section("dates", "Dates", date(query, "since"), date(query, "until")),
    values,
  );
  panel.addEventListener("click", ({ target }) => (focused = target.closest("[data-key]")?.dataset.key));
  document.addEventListener("shown", () => focus(focused), { once: true, capture: true, signal });
  fill(known);
  get("/facets", filter(query), signal).then(
    (answer) => fill((known = answer.facets)),
    (problem) => values.replaceChildren(h("p", { class: "quiet" }, problem.message)),
  );
  return panel;
}

function section(name, heading, ...content) {
  const ontoggle = ({ target }) => open[target.open ? "add" : "delete"](name);
  return h("details", { open: open.has(name), ontoggle }, h("summary", {}, heading), content);
}

/** The values of a facet; a click on the chosen one removes the filter. */
function group({ name, values }, query) {
  const chosen = query.get(name);
  if (chosen) open.add(name);
  const line = ({ value, n }) => {
    const here = value === chosen;
    const props = { href: amend({ [name]: here ? null : value }), "aria-current": here, dataset: { key: `${name}=${value}` } };
    return h("li", {}, h("a", props, h("span", {}, valueWords(value)), here ? icon("no") : h("i", {}, count(n))));
  };
  const list = h("ul", { role: "list" }, values.map(line));
  const all = () => {
    list.classList.add("all");
    list.children[SHOWN].firstChild.focus();
    more.remove();
  };
  const more = values.length > SHOWN && button(null, `Show ${values.length - SHOWN} more`, all, { class: "plain" });
  return section(name, FILTERS[name], list, more);
}

function date(query, name) {
  const change = ({ target: { value } }) => value.startsWith("0") || go(amend({ [name]: value || null })); // 0: the year is incomplete
  const field = h("input", { type: "date", value: query.get(name) ?? "", onchange: change });
  return h("label", { class: "choice" }, h("span", {}, FILTERS[name]), field);
}
