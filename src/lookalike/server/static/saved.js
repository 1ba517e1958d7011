// Saved searches: their cards, and the view that runs one and shows what is new.
import { get, post, remove } from "./api.js";
import { forget } from "./collection.js";
import { anchor, button, h } from "./dom.js";
import { format } from "./examples.js";
import { count, many, moment } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { askName, attempt, confirm, note } from "./notify.js";
import { addExampleByKey } from "./pictures.js";
import { amend, go, link, NO_EXAMPLES, reload } from "./router.js";
import { exportButton } from "./save_search.js";
import { exampleTile } from "./tile.js";
import { empty, lead } from "./view_parts.js";

/** The cards of all saved searches. The numbers of new results are filled in one after the other. */
export function savedSearches(searches, signal) {
  if (!searches.length) return null;
  const cards = searches.map((search) => [search, h("span", {})]);
  const fill = async () => {
    for (const [{ id }, place] of cards) {
      if (signal.aborted) return;
      const { n_new: n } = await get(`/saved/${id}/new`, {}, signal).catch(() => ({ n_new: 0 }));
      if (n) place.replaceWith(h("span", { class: "fresh" }, `${count(n)} new`));
    }
  };
  fill();
  return h("section", {}, h("h2", {}, "Saved searches"), h("ul", { class: "cards searches", role: "list" }, cards.map(card)));
}

function card([{ id, name, summary, author, seen }, place]) {
  const lines = [summary, `${author}, seen ${moment(seen)}`].map((text) => h("span", { class: "quiet" }, text));
  const href = link("saved", id, NO_EXAMPLES);
  return h("li", {}, h("a", { class: "card", href }, h("span", {}, h("b", {}, name), " ", place), lines));
}

export async function show({ arg: id, query }, signal) {
  let found;
  try {
    found = await get(`/saved/${id}/results`, {}, signal);
  } catch (problem) {
    if (problem.status !== 422) throw problem;
    const search = await get(`/saved/${id}`, {}, signal); // it can still be changed and deleted
    return h("div", { class: "view" }, header(search, search.summary), empty(problem.message));
  }
  const { search, newest, notes } = found;
  const fresh = new Set(found.new);
  const onlyNew = query.get("new") === "1" && fresh.size > 0;
  const results = onlyNew ? found.results.filter(({ item }) => fresh.has(item.id)) : found.results;
  const grid = new Grid({
    label: "Results",
    signal,
    fetch: async (offset, limit) => ({ total: results.length, items: results.slice(offset, offset + limit) }),
    tile: ({ item }) => tile(item, fresh.has(item.id)),
    onkey: addExampleByKey,
  });
  await grid.open();
  neighbours.rememberGrid(grid);
  const see = () => attempt(async () => (await post(`/saved/${id}/seen`, { until: newest }), reload()));
  const filter = h("input", { type: "checkbox", onchange: () => go(amend({ new: onlyNew ? null : "1" })) });
  filter.checked = onlyNew;
  const number = many(found.results.length, "result");
  const summary = `${search.summary} · ${number}, ${fresh.size || "none"} new since ${moment(search.seen)}`;
  return h(
    "div",
    { class: "view" },
    header(search, summary, [results.length > 0 && exportButton(() => results)]),
    notes.map((text) => h("p", { class: "quiet" }, text)),
    fresh.size > 0 &&
      h(
        "div",
        { class: "line" },
        h("label", { class: "tick" }, filter, h("span", {}, `Only new results (${count(fresh.size)})`)),
        search.mine && button("yes", "Mark as seen", see),
      ),
    results.length ? grid.element : empty("No pictures match any more."),
  );
}

function tile(item, isNew) {
  const words = [isNew && "new", item.labels?.join(", ")].filter(Boolean).join(", ");
  const made = exampleTile(item, link("item", item.id), { words });
  if (isNew) made.querySelector(".pic").append(h("span", { class: "sure", "aria-hidden": "true" }, "New"));
  return made;
}

/** The heading, with buttons to open, rename and delete the search. */
function header(search, text, tools = []) {
  const { id, name } = search;
  const change = async (to) => (await post(`/saved/${id}/rename`, { name: to }), reload());
  const erase = async () => {
    await remove(`/saved/${id}`);
    forget();
    note("Saved search deleted.");
    go(link("sessions"));
    return true;
  };
  const ask = () => confirm(`Delete the saved search ${name}?`, "This cannot be undone. The pictures stay in the collection.", "Delete", erase);
  const own = search.mine && [
    button(null, "Rename", () => askName("Rename the saved search", "Rename", change, { value: name })),
    button("no", "Delete", ask),
  ];
  const open = search.complete && anchor("search", "Open as a search", searchAddress(search));
  return lead(name, text, { up: "sessions", tools: h("div", { class: "actions" }, tools, open, own) });
}

function searchAddress({ examples, without, words, without_words, space, within, filter }) {
  for (const name of ["since", "until"]) if (name in filter) filter[name] = new Date(filter[name] * 1000).toISOString().slice(0, 10);
  return link("search", "", { with: examples.map(format), words, without: without.map(format), without_words, space, within, ...filter });
}
