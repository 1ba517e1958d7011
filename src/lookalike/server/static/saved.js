// Saved searches: their cards, and the view that runs one and shows what is new.
import { get, post, remove, thumbnail } from "./api.js";
import { collection, forget } from "./collection.js";
import { anchor, button, h, icon } from "./dom.js";
import { format } from "./examples.js";
import { count, many, moment } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { attempt, confirm, note } from "./notify.js";
import { tally } from "./pictures.js";
import { amend, go, link, NO_EXAMPLES } from "./router.js";
import { askName, exportButton } from "./save_search.js";
import { exampleTile } from "./tile.js";
import { empty, lead } from "./view_parts.js";

const again = () => dispatchEvent(new HashChangeEvent("hashchange"));

/** The cards of all saved searches. The numbers of new results are filled in one after the other. */
export function savedSearches(searches, signal) {
  if (!searches.length) return null;
  const cards = searches.map((search) => [search, h("span", {})]);
  const fill = async () => {
    for (const [{ id }, place] of cards) {
      if (signal.aborted) return;
      const { new: n } = await get(`/saved/${id}/new`, {}, signal).catch(() => ({ new: 0 })); // the search tells why
      if (n) place.replaceWith(h("span", { class: "fresh" }, `${count(n)} new`));
    }
  };
  fill();
  const list = h("ul", { class: "cards", role: "list" }, cards.map(card));
  return h("section", {}, h("h2", {}, "Saved searches"), list);
}

function card([{ id, name, summary, author, seen, examples }, place]) {
  const pictures = examples.filter((example) => example.id).slice(0, 4);
  return h(
    "li",
    {},
    h(
      "a",
      { class: "card", href: link("saved", id, NO_EXAMPLES) },
      h(
        "span",
        { class: "card-thumbnails" },
        pictures.length ? pictures.map((one) => h("img", { src: thumbnail(one.id, 128), alt: "" })) : icon("search"),
      ),
      h("b", {}, name),
      place,
      h("span", { class: "quiet" }, summary),
      h("span", { class: "quiet" }, `${author}, seen ${moment(seen)}`),
    ),
  );
}

export async function show({ arg: id, query }, signal) {
  await collection(signal);
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
    label: "Results, best match first",
    signal,
    fetch: async (offset, limit) => ({ total: results.length, items: results.slice(offset, offset + limit) }),
    tile: ({ item }) => tile(item, fresh.has(item.id)),
    onkey: tally,
  });
  await grid.open();
  neighbours.rememberGrid(grid);
  const see = () => attempt(async () => (await post(`/saved/${id}/seen`, { until: newest }), note("Marked as seen."), again()));
  const filter = h("input", { type: "checkbox", onchange: () => go(amend({ new: onlyNew ? null : "1" })) });
  filter.checked = onlyNew;
  const since = `since ${moment(search.seen)}`;
  return h(
    "div",
    { class: "view" },
    header(search, `${search.summary} · ${many(found.results.length, "result")}, ${fresh.size ? many(fresh.size, "new one") : "nothing new"} ${since}`, [
      results.length > 0 && exportButton(results),
    ]),
    notes.map((text) => h("p", { class: "quiet" }, text)),
    fresh.size > 0 &&
      h(
        "div",
        { class: "line" },
        h("label", { class: "tick" }, filter, h("span", {}, `Only the ${many(fresh.size, "new picture")}`)),
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

/** The name and what it searches for, with buttons to open it as a search, rename it and delete it. */
function header(search, text, tools = []) {
  const { id, name } = search;
  const change = async (to) => {
    await post(`/saved/${id}/rename`, { name: to });
    again();
  };
  const forgetIt = () =>
    confirm(`Delete the saved search ${name}?`, "The pictures stay in the collection.", "Delete", async () => {
      await remove(`/saved/${id}`);
      forget();
      note("Saved search deleted.");
      go(link("sessions"));
      return true;
    });
  const own = search.mine && [
    button(null, "Rename", () => askName("Rename the saved search", "Rename", name, change)),
    button("no", "Delete", forgetIt),
  ];
  const open = search.complete && anchor("search", "Open as a search", searchAddress(search));
  return lead(name, text, { up: "sessions", tools: h("div", { class: "actions" }, tools, open, own) });
}

/** The address of the search view with the same examples, words and filters. */
function searchAddress({ examples, without, words, without_words, space, filter }) {
  const query = { with: examples.map(format), words, without: without.map(format), without_words };
  return link("search", "", { ...query, space, ...filter });
}
