// Frames around the matching parts of results. They arrive in batches, those of visible pictures first.
import { post } from "./api.js";
import { h } from "./dom.js";
import { amend } from "./router.js";
import { drawFrame } from "./tile.js";

const BATCH = 4; // pictures per request

/**
 * A tick box that shows and hides the frames of a search; the address stores it as `where`.
 * @param request  the examples, negative examples and space of the search
 * @returns the tick box, its progress as text, and `frame(tile, item)`, which draws a frame that is shown and known
 */
export function matchingParts(results, request, shown, signal) {
  const boxes = new Map(); // by id; null for a picture that cannot be read
  const items = new Map(results.map(({ item }) => [item.id, item]));
  const tick = h("input", { type: "checkbox", onchange: toggle });
  const progress = h("span");
  let stop;

  const frame = (tile, item) => drawFrame(tile, item, tick.checked ? boxes.get(item.id) : null);
  const tiles = () => [...(tick.closest(".view")?.querySelectorAll("[role=grid] [data-example]") ?? [])];
  const id = (tile) => tile.dataset.example;

  /** The next pictures without a box: visible ones first, then in the order of the results. */
  function next() {
    const visible = tiles().filter((tile) => {
      const { top, bottom } = tile.getBoundingClientRect();
      return bottom > 0 && top < innerHeight;
    });
    const ids = new Set([...visible.map(id), ...items.keys()]);
    return [...ids].filter((one) => !boxes.has(one)).slice(0, BATCH);
  }

  async function find() {
    stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    try {
      for (let batch; ; ) {
        progress.textContent = `; framed ${boxes.size} of ${items.size}`;
        if (!(batch = next()).length) return;
        const found = await post("/search/boxes", { ...request, items: batch }, either);
        for (const { item, box } of found.boxes) boxes.set(item, box);
        for (const tile of tiles()) if (batch.includes(id(tile))) frame(tile, items.get(id(tile)));
        either.throwIfAborted();
      }
    } catch (problem) {
      if (problem.name !== "AbortError") progress.textContent = `; no frames: ${problem.message}`;
    }
  }

  function toggle() {
    history.replaceState(history.state, "", amend({ where: tick.checked ? "1" : null }));
    for (const tile of tiles()) frame(tile, items.get(id(tile)));
    if (tick.checked) return find();
    stop.abort();
    progress.textContent = "";
  }

  tick.checked = shown;
  if (shown) find();
  return { element: h("label", { class: "tick" }, tick, h("span", {}, "Show matching part")), progress, frame };
}
