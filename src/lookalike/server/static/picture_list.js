// A list of a few dozen pictures with one tab stop; arrow keys move the focus by position on the screen.
import { h } from "./dom.js";
import { viewerButton } from "./tile.js";

export class PictureList {
  /** @param onkey (event, tile) → true if it handled the key */
  constructor(label, { signal, onkey = () => false, kind = "" } = {}) {
    this.onkey = onkey;
    this.row = h("div", { role: "row", class: "contents" });
    this.element = h("div", { class: `lane ${kind}`, role: "grid", "aria-label": label }, this.row);
    this.element.addEventListener("keydown", (event) => this.#key(event), { signal });
    this.element.addEventListener("refocus", ({ detail: { id, index } }) => {
      const at = this.targets.findIndex((target) => target.dataset.id === id);
      this.focus(at < 0 ? Math.min(index, this.targets.length - 1) : at);
    });
    this.element.addEventListener(
      "focusin",
      (event) => event.target.matches("[data-focus]") && this.#activate(event.target),
      { signal },
    );
  }

  get targets() {
    return [...this.row.querySelectorAll("[data-focus]")];
  }

  fill(tiles) {
    const cell = (tile, index) => h("div", { role: "gridcell", class: "cell" }, tile, h("div", { class: "over" }, viewerButton(() => this.#view(index))));
    this.row.replaceChildren(...tiles.map(cell));
    this.element.hidden = !tiles.length; // a grid must have cells
    if (tiles.length) this.#activate(this.targets[0]);
  }

  focus(index = 0) {
    this.targets[index]?.focus();
  }

  #activate(target) {
    for (const other of this.targets) other.tabIndex = other === target ? 0 : -1;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const targets = this.targets;
    const here = targets.indexOf(document.activeElement);
    if (here < 0) return; // the focus is on a button inside a tile
    const next =
      { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: targets.length - 1 }[event.key] ??
      this.#neighbour(event.key, targets, here);
    if (event.key === "f") this.#view(here);
    else if (next !== undefined) (targets[next] ?? this.#beyond(event.key))?.focus();
    else if (!this.onkey(event, targets[here])) return;
    event.preventDefault();
  }

  /** Show a picture in full screen. */
  async #view(index) {
    const ids = this.targets.map(({ dataset }) => dataset.id);
    if (ids[index]) (await import("./viewer.js")).openViewer({ total: ids.length, id: (at) => ids[at] }, index);
  }

  /** The list before or after this one; undefined if there is none. */
  #beyond(key) {
    return key === "ArrowDown" || key === "ArrowRight" ? this.after?.targets[0] : this.before?.targets.at(-1);
  }

  /** Let arrow keys move from this list into the next one. */
  follow(next) {
    this.after = next;
    next.before = this;
  }

  /** The index of the nearest tile in the row above or below. */
  #neighbour(key, targets, here) {
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const places = targets.map((target) => target.getBoundingClientRect());
    const { left, top } = places[here];
    const others = places.map((place, index) => ({
      index,
      far: Math.abs(place.top - top),
      aside: Math.abs(place.left - left),
      down: place.top - top,
    }));
    const there = others.filter(({ down }) => (key === "ArrowDown" ? down > 5 : down < -5));
    there.sort((a, b) => a.far - b.far || a.aside - b.aside);
    const row = there.filter(({ far }) => far < there[0].far + 5).sort((a, b) => a.aside - b.aside);
    return row[0]?.index ?? -1;
  }
}
