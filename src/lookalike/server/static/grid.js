// A grid for any number of pictures. Only visible rows exist in the DOM; pages of the list are fetched as they become
// visible. It has role=grid and a roving tabindex: one tab stop, with arrow keys inside.
import { h } from "./dom.js";
import { Selection } from "./selection.js";
import { lookButton } from "./tile.js";

const PAGE = 200; // items per request
const KEPT = 30; // pages cached
const OVERSCAN = 2; // rows drawn above and below the visible ones
const REST_MS = 30; // without scrolling, after which missing pages are fetched
const LATER_MS = 150; // after which the pictures above and below are loaded
const GAP = 10;

/**
 * @param options.label  name of the grid for screen readers
 * @param options.fetch  async (offset, limit) → {total, items}
 * @param options.tile   (item, index) → element with a [data-focus]
 * @param options.small  minimum width of a tile
 * @param options.onkey  (event, item, index) → true if it handled the key
 * @param options.ids    async () → the ids of all items, in their order; by default, all pages are fetched
 * @param options.inClass  name of the class whose pictures are shown
 */
export class Grid {
  constructor({ label, fetch, tile, signal, small = 190, onkey = () => false, ids = null, inClass = null }) {
    Object.assign(this, {
      fetch,
      tile,
      small,
      onkey,
      readIds: ids,
      pages: new Map(),
      rows: new Map(),
      total: 0,
      active: 0,
      columns: 1,
      drawing: 0, // the pending animation frame
    });
    this.element = h("div", {
      class: "grid",
      role: "grid",
      "aria-label": label,
      onkeydown: (event) => this.#key(event),
    });
    this.selection = new Selection(this, { inClass, signal });
    this.element.addEventListener("focusin", (event) =>
      this.#activate(Number(event.target.closest("[role=gridcell]")?.dataset.index ?? this.active)),
    );
    this.element.addEventListener("measure", () => this.#measure()); // sent when the grid was just inserted
    this.element.addEventListener("refocus", ({ detail }) => this.#refocus(detail));
    const redraw = () => (this.drawing ||= requestAnimationFrame(() => this.#draw()));
    addEventListener("scroll", redraw, { passive: true, signal });
    const sizes = new ResizeObserver(() => this.#measure());
    sizes.observe(this.element);
    signal?.addEventListener("abort", () => sizes.disconnect());
  }

  /** Read the first page; returns the total number of items. */
  async open() {
    const first = await this.fetch(0, PAGE);
    this.pages = new Map([[0, first.items]]);
    this.total = first.total;
    this.#measure();
    if (this.selection.ids.size) this.selection.showBar();
    return this.total;
  }

  /** The id of the item at an index; undefined while it is not loaded. */
  id(index) {
    const item = this.item(index);
    return item && (item.item ?? item).id;
  }

  /** The ids of all items. */
  async ids() {
    if (this.readIds) return (this.allIds ??= await this.readIds());
    const ids = [];
    while (ids.length < this.total) {
      const { items } = await this.fetch(ids.length, PAGE);
      if (!items.length) break;
      ids.push(...items.map((item) => (item.item ?? item).id));
    }
    return ids;
  }

  /** The list for the viewer. */
  get list() {
    return { total: this.total, id: async (index) => this.id(index) ?? (await this.ids())[index] };
  }

  /** Show which of the visible pictures are selected. */
  drawSelection() {
    this.element.classList.toggle("selecting", this.selection.ids.size > 0);
    for (const cell of this.element.querySelectorAll(".cell:not(:empty)"))
      this.selection.draw(cell, this.id(Number(cell.dataset.index)));
  }

  /** The index in the whole list of an item in a page. */
  place(page, at) {
    return page * PAGE + at;
  }

  item(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    return Array.isArray(page) ? page[index % PAGE] : undefined;
  }

  /** Scroll to a picture and focus it. */
  focus(index = this.active) {
    this.#activate(Math.max(0, Math.min(index, this.total - 1)));
    const row = Math.floor(this.active / this.columns);
    const top = this.element.getBoundingClientRect().top + row * this.pitch;
    const head = (document.getElementById("top")?.offsetHeight ?? 0) + GAP;
    const bar = document.querySelector(".select-bar:not([hidden])") ?? document.getElementById("tray");
    const bottom = bar?.getBoundingClientRect().top || innerHeight; // 0 if it is hidden
    if (top < head) scrollBy({ top: top - head, behavior: "instant" });
    else if (top + this.pitch > bottom) scrollBy({ top: top + this.pitch - bottom + GAP, behavior: "instant" });
    this.#draw();
    const cell = this.element.querySelector(`[data-index="${this.active}"]`);
    const target = cell?.querySelector("[data-focus]") ?? cell; // the cell itself while its item is loading
    target?.focus({ preventScroll: true });
  }

  /** Focus a picture, or the one in its place if it is gone. */
  #refocus({ id, index }) {
    if (!this.total) return;
    for (const [page, items] of this.pages) {
      const at = Array.isArray(items) ? items.findIndex((one) => (one.item ?? one).id === id) : -1;
      if (at >= 0) return this.focus(this.place(page, at));
    }
    this.focus(index);
  }

  /** Show a picture on the full screen. */
  async look(index) {
    (await import("./viewer.js")).look(this.list, index);
  }

  #measure() {
    const width = this.element.clientWidth;
    if (!width) return;
    const small = innerWidth < 600 ? Math.min(this.small, 100) : this.small;
    const gap = innerWidth < 600 ? 4 : GAP;
    const columns = Math.max(2, Math.floor((width + gap) / (small + gap)));
    const side = (width - gap * (columns - 1)) / columns;
    if (columns === this.columns && side === this.side && this.drawnTotal === this.total) return;
    Object.assign(this, { columns, side, gap, pitch: Math.round(side * 0.75) + gap, drawnTotal: this.total });
    const rows = Math.ceil(this.total / columns);
    this.element.style.setProperty("--columns", columns);
    this.element.style.setProperty("--gap", `${gap}px`);
    this.element.style.setProperty("--height", `${this.pitch - gap}px`);
    this.element.style.height = `${Math.max(0, rows * this.pitch - gap)}px`;
    this.element.setAttribute("aria-rowcount", rows);
    this.element.setAttribute("aria-colcount", columns);
    const focused = this.element.contains(document.activeElement);
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.#draw();
    if (focused) this.element.querySelector(`[data-index="${this.active}"] [data-focus]`)?.focus({ preventScroll: true });
  }

  #draw() {
    this.drawing = 0;
    if (!this.pitch || !this.element.isConnected) return;
    const top = -this.element.getBoundingClientRect().top;
    const count = Math.ceil(this.total / this.columns);
    const seen = [top, top + innerHeight].map((y) => Math.floor(y / this.pitch));
    const first = Math.max(0, seen[0] - OVERSCAN);
    const last = Math.min(count - 1, seen[1] + OVERSCAN);
    const kept = Math.floor(this.active / this.columns); // keep the focused row
    for (const [number, row] of this.rows) {
      if ((number < first || number > last) && number !== kept) {
        for (const img of row.querySelectorAll("img:not(.there)")) img.removeAttribute("src"); // cancels the request
        row.remove();
        this.rows.delete(number);
      }
    }
    for (let number = first; number <= last; number++) if (!this.rows.has(number)) this.#addRow(number);
    if (count && !this.rows.has(kept)) this.#addRow(kept);
    const isFast = Math.abs(top - this.top) > innerHeight / 2; // then only the place where it stops is loaded
    this.top = top;
    this.#fillRows(...(isFast ? [kept, kept] : seen));
    clearTimeout(this.resting);
    clearTimeout(this.later);
    this.resting = setTimeout(() => {
      this.#fillRows(...seen);
      this.#read(seen[0] * this.columns, (seen[1] + 1) * this.columns);
      this.later = setTimeout(() => {
        this.#fillRows(first, last);
        this.#read(first * this.columns, (last + 1) * this.columns);
      }, LATER_MS);
    }, REST_MS);
  }

  #fillRows(first, last) {
    const kept = Math.floor(this.active / this.columns);
    for (const [number, row] of this.rows) {
      if ((number < first || number > last) && number !== kept) continue;
      for (const cell of row.querySelectorAll(".cell:empty")) {
        const index = Number(cell.dataset.index);
        const item = this.item(index);
        if (item) this.#fill(cell, item, index);
      }
    }
  }

  #addRow(number) {
    const row = h("div", { role: "row", class: "row", "aria-rowindex": number + 1 });
    row.style.transform = `translateY(${number * this.pitch}px)`;
    for (let column = 0; column < this.columns; column++) {
      const index = number * this.columns + column;
      if (index >= this.total) break;
      const cell = h("div", {
        role: "gridcell",
        class: "cell",
        tabindex: "-1",
        "aria-colindex": column + 1,
        dataset: { index },
      });
      row.append(cell);
    }
    const after = [...this.rows.keys()].filter((other) => other > number).sort((a, b) => a - b)[0];
    this.element.insertBefore(row, after === undefined ? null : this.rows.get(after)); // keep the DOM in reading order
    this.rows.set(number, row);
  }

  #fill(cell, item, index) {
    const look = lookButton(() => this.look(index));
    cell.replaceChildren(this.tile(item, index), this.selection.check(item.item ?? item), look);
    this.selection.draw(cell, (item.item ?? item).id);
    const img = cell.querySelector("img");
    if (img) img.loading = "eager"; // the grid decides what is loaded
    const target = cell.querySelector("[data-focus]");
    target.tabIndex = index === this.active ? 0 : -1;
    if (cell === document.activeElement) target.focus({ preventScroll: true });
    cell.removeAttribute("tabindex");
  }

  #read(from, to) {
    for (let page = Math.floor(Math.max(0, from) / PAGE); page * PAGE < Math.min(to, this.total); page++) {
      if (this.pages.has(page)) continue;
      const reading = this.fetch(page * PAGE, PAGE).then(
        ({ items }) => {
          this.pages.set(page, items);
          this.#draw();
        },
        () => this.pages.delete(page), // fetched again when next visible
      );
      this.pages.set(page, reading);
      if (this.pages.size > KEPT)
        this.pages.delete(
          [...this.pages.keys()].find(
            (other) => Math.abs(other - page) > 3 && other !== Math.floor(this.active / PAGE),
          ),
        );
    }
  }

  #activate(index) {
    if (index === this.active) return;
    const old = this.element.querySelector(`[data-index="${this.active}"] [data-focus]`);
    if (old) old.tabIndex = -1;
    this.active = index;
    const now = this.element.querySelector(`[data-index="${index}"] [data-focus]`);
    if (now) now.tabIndex = 0;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(innerHeight / this.pitch) - 1) * this.columns;
    const steps = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.columns,
      ArrowDown: this.columns,
      PageUp: -page,
      PageDown: page,
      Home: -this.total,
      End: this.total,
    };
    const item = this.item(this.active);
    if (event.key in steps) {
      const next = this.active + steps[event.key];
      if (event.shiftKey && !this.selection.ids.size) this.selection.anchor = this.active;
      if (next >= 0 || !["ArrowLeft", "ArrowUp"].includes(event.key)) this.focus(next);
      if (event.shiftKey) this.selection.range(this.active);
    } else if (event.key === "x" || event.key === " ") {
      this.selection.toggle(this.active);
    } else if (event.key === "f") {
      this.look(this.active);
    } else if (!item || !this.onkey(event, item, this.active)) return;
    event.preventDefault();
  }
}
