// Search results: the pictures that match the words and are most similar to the pictures in the tray.
import { get, post } from "./api.js";
import { collection } from "./collection.js";
import { cutoffChart, cutoffIn, inside } from "./cutoff.js";
import { anchor, choice, h } from "./dom.js";
import { examplesIn, formatWords } from "./examples.js";
import { bar, filter, withFacets } from "./filters.js";
import { many, seconds, SIMILARITIES } from "./format.js";
import { Grid } from "./grid.js";
import * as neighbours from "./grid_neighbours.js";
import { matchingParts } from "./matching_parts.js";
import { addExampleByKey } from "./pictures.js";
import { amend, go, link, read } from "./router.js";
import { exportButton, saveButton } from "./save_search.js";
import { searchBox } from "./search_box.js";
import { exampleTile } from "./tile.js";
import { sizer } from "./tile_size.js";
import { empty, lead, notice } from "./view_parts.js";

const SHOWN = 200; // number of results

export async function show({ query }, signal) {
  const examples = examplesIn(query);
  const { positive, negative, words, withoutWords } = examples;
  const view = (...content) => h("div", { class: "view" }, searchBox(formatWords(examples), signal), ...content);
  if (!positive.length && !words.length)
    return view(
      notice(
        "Search",
        negative.length || withoutWords.length
          ? "A search needs at least one positive word or picture."
          : "Type words, drop or paste a picture anywhere on this page, or choose one from the collection.",
        anchor("pictures", "Show all pictures", link("pictures"), { class: "button main" }),
      ),
    );
  const about = await collection(signal);
  const texts = [...words, ...withoutWords];
  const scored = query.get("scores") === "1";
  const request = {
    examples: positive,
    words,
    without: negative,
    without_words: withoutWords,
    space: (positive.length && query.get("space")) || undefined,
    k: SHOWN,
    filter: filter(query),
  };
  const heading = describe(positive, words, withoutWords);
  let found;
  try {
    found = await post("/search", request, signal);
  } catch (problem) {
    if (problem.status !== 422 || !texts.length) throw problem;
    return view(lead(heading), meanings(await understand(texts, signal), query), empty(problem.message));
  }
  const { results, understood, space, seconds: took } = found;
  const parts =
    !texts.length &&
    results.length > 0 &&
    matchingParts(results, { examples: positive, without: negative, space }, query.get("where") === "1", signal);
  const scores = results.map(({ score }) => score);
  let kept = inside(scores, cutoffIn(query));
  const grid = new Grid({
    label: texts.length ? "Results, best match first" : "Results, most similar first",
    signal,
    fetch: async (offset, limit) => ({ total: kept, items: results.slice(0, kept).slice(offset, offset + limit) }),
    tile: ({ item, score }) => {
      const tile = exampleTile(item, link("item", item.id), { words: item.labels?.join(", ") });
      if (parts) parts.frame(tile, item);
      if (scored) tile.append(h("span", { class: "sure" }, score.toFixed(3)));
      return tile;
    },
    onkey: addExampleByKey,
  });
  await grid.open();
  neighbours.rememberGrid(grid);
  const number = texts.length
    ? many(results.length, "best match", "best matches")
    : many(results.length, "most similar picture");
  return view(
    lead(heading, [`The ${number} (${seconds(took)})`, parts && parts.progress], {
      tools:
        results.length > 0 &&
        h(
          "div",
          { class: "actions" },
          saveButton(request, () => cutoffIn(read().query)),
          exportButton(() => results.slice(0, kept)),
        ),
    }),
    meanings(understood, query),
    h(
      "div",
      { class: "line" },
      bar(query, { signal }),
      parts && parts.element,
      tick("scores", "Show scores", scored, "The distance to the examples, or 1 minus the match with the words"),
      positive.length > 0 && similarity(about.spaces, space),
      sizer(grid),
    ),
    cutoffChart(scores, cutoffIn(query), (n) => {
      kept = n;
      grid.open();
    }),
    await withFacets(
      results.length ? grid.element : empty("No pictures match. Use other words, or clear the filters."),
      query,
      signal,
    ),
  );
}

/** What is searched for, as a heading. */
function describe(positive, words, withoutWords) {
  const similar = positive.length > 1 ? "similar to these pictures" : "similar to this picture";
  const parts = [
    ...words.map((text) => `“${text}”`),
    positive.length > 0 && similar,
    ...withoutWords.map((text) => `not “${text}”`),
  ];
  const text = parts.filter(Boolean).join(", ");
  return text[0].toUpperCase() + text.slice(1);
}

/** What a search understands by texts, for a search that failed. */
async function understand(texts, signal) {
  const answers = texts.map((words) => get("/understand", { words }, signal).catch(() => ({ understood: [] })));
  return (await Promise.all(answers)).flatMap(({ understood }) => understood);
}

/** A line for each word: what it means, or similar words to search for instead. */
function meanings(understood, query) {
  if (!understood.length) return null;
  const line = ({ text, known, summary, suggestions }) => {
    const rest = known ? summary.slice(text.length) : ": unknown.";
    const links = suggestions.map((word) => h("a", { class: "button", href: replaceWord(query, text, word) }, word));
    return h("li", {}, h("span", {}, h("b", {}, text), rest, links.length > 0 && " Similar words:"), links);
  };
  return h("ul", { class: "understood", role: "list", "aria-label": "What was understood" }, understood.map(line));
}

/** The address of the same search with another word. */
function replaceWord(query, word, other) {
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "gu");
  const change = (name) => query.getAll(name).map((text) => text.replace(whole, () => other));
  return amend({ words: change("words"), without_words: change("without_words") });
}

/** The choice of similarity: one option per space of the collection. */
function similarity(spaces, chosen) {
  if (spaces.length < 2) return null;
  const options = spaces.map(({ name, about }) => [name, SIMILARITIES[name] ?? name, about]);
  return choice("Similarity", options, chosen, (space) => go(amend({ space })));
}

/** A check box for an option in the address. */
function tick(name, words, on, title = null) {
  const box = h("input", { type: "checkbox", onchange: () => go(amend({ [name]: on ? null : "1" })) });
  box.checked = on;
  return h("label", { class: "tick", title }, box, h("span", {}, words));
}
