// A grid for any number of pictures. Only visible rows exist in the DOM; pages of the list are fetched as they become
// visible. It has role=grid and a roving tabindex: one tab stop, with arrow keys inside.
import { h } from "./dom.js";
import { many } from "./format.js";
import { Selection } from "./selection.js";
import { viewerButton } from "./tile.js";
import { tileSize } from "./tile_size.js";

const PAGE = 200; // items per request
const KEPT = 30; // pages cached
const OVERSCAN = 2; // rows drawn above and below the visible ones
const REST_MS = 30; // without scrolling, after which missing pages are fetched
const LATER_MS = 150; // after which the pictures above and below are loaded
const GAP = 10;
const HEAD = 48; // height of the heading of a section

/**
 * @param options.label  name of the grid for screen readers
 * @param options.fetch  async (offset, limit) → {total, items}
 * @param options.tile   (item, index) → element with a [data-focus]
 * @param options.small  minimum width of a tile
 * @param options.sections  [{title, n}]: the items in their order, divided by headings
 * @param options.onkey  (event, item, index) → true if it handled the key
 * @param options.ids    async () → the ids of all items, in their order; by default, all pages are fetched
 * @param options.inClass  name of the class whose pictures are shown
 */
export class Grid {
  constructor({ label, fetch, tile, signal, small = tileSize(), sections = null, onkey = () => false, ids = null, inClass = null }) {
    Object.assign(this, {
      fetch,
      tile,
      small,
      sections,
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
    const known = this.sections?.reduce((sum, { n }) => sum + n, 0);
    if (!this.total || known !== this.total) this.sections = null; // the collection has just changed
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

  /** The index of a loaded item in the whole list; undefined if it is not loaded. */
  indexOf(id) {
    for (const [page, items] of this.pages) {
      const at = Array.isArray(items) ? items.findIndex((one) => (one.item ?? one).id === id) : -1;
      if (at >= 0) return page * PAGE + at;
    }
    return undefined;
  }

  item(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    return Array.isArray(page) ? page[index % PAGE] : undefined;
  }

  /** Scroll to a picture and focus it. */
  focus(index = this.active) {
    this.#activate(Math.max(0, Math.min(index, this.total - 1)));
    const row = this.#rowOf(this.active);
    const top = this.element.getBoundingClientRect().top + this.#rowTop(row);
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
    this.focus(this.indexOf(id) ?? index);
  }

  /** Change the minimum width of a tile; the pictures at the top of the window stay. */
  resize(small) {
    const above = -this.element.getBoundingClientRect().top;
    const [index] = this.rowCells(this.rowAt(above));
    this.small = small;
    this.#measure();
    if (above > 0) scrollBy(0, this.#rowTop(this.#rowOf(index)) - above);
  }

  /** Arrange each section in a block of rows below its heading. */
  #arrange() {
    this.blocks = [];
    let [from, row, top] = [0, 0, 0];
    for (const section of this.sections ?? [{ n: this.total }]) {
      const head = section.title ? HEAD : 0;
      this.blocks.push({ ...section, from, row, top, head });
      const rows = Math.ceil(section.n / this.columns);
      from += section.n;
      row += rows;
      top += head + rows * this.pitch;
    }
    this.rowCount = row;
    this.height = Math.max(0, top - this.gap);
  }

  /** The last block whose `by` (from, row or top) is not above this value. */
  block(by, value) {
    return this.blocks.findLast((block) => block[by] <= value) ?? this.blocks[0];
  }

  /** The row at this distance from the top of the grid. */
  rowAt(y) {
    const block = this.block("top", y);
    const last = Math.ceil(block.n / this.columns) - 1;
    return block.row + Math.max(0, Math.min(last, Math.floor((y - block.top - block.head) / this.pitch)));
  }

  /** The indexes of the first item of a row and of the item after its last one. */
  rowCells(row) {
    const block = this.block("row", row);
    const from = block.from + (row - block.row) * this.columns;
    return [from, Math.min(from + this.columns, block.from + block.n)];
  }

  #rowOf(index) {
    const block = this.block("from", index);
    return block.row + Math.floor((index - block.from) / this.columns);
  }

  #rowTop(row) {
    const block = this.block("row", row);
    return block.top + block.head + (row - block.row) * this.pitch;
  }

  /** Show a picture in full screen. */
  async view(index) {
    (await import("./viewer.js")).openViewer(this.list, index);
  }

  #measure() {
    const width = this.element.clientWidth;
    if (!width) return;
    const small = innerWidth < 600 ? this.small / 1.9 : this.small;
    const gap = innerWidth < 600 ? 4 : GAP;
    const columns = Math.max(2, Math.floor((width + gap) / (small + gap)));
    const side = (width - gap * (columns - 1)) / columns;
    if (columns === this.columns && side === this.side && this.drawnTotal === this.total) return;
    Object.assign(this, { columns, side, gap, pitch: Math.round(side * 0.75) + gap, drawnTotal: this.total });
    this.#arrange();
    this.element.style.setProperty("--columns", columns);
    this.element.style.setProperty("--gap", `${gap}px`);
    this.element.style.setProperty("--height", `${this.pitch - gap}px`);
    this.element.style.height = `${this.height}px`;
    this.element.setAttribute("aria-rowcount", this.rowCount);
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
    const count = this.rowCount;
    const seen = [top, top + innerHeight].map((y) => this.rowAt(y));
    const first = Math.max(0, seen[0] - OVERSCAN);
    const last = Math.min(count - 1, seen[1] + OVERSCAN);
    const kept = this.#rowOf(this.active); // keep the focused row
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
      this.#read(...seen);
      this.later = setTimeout(() => {
        this.#fillRows(first, last);
        this.#read(first, last);
      }, LATER_MS);
    }, REST_MS);
  }

  #fillRows(first, last) {
    const kept = this.#rowOf(this.active);
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
    row.style.transform = `translateY(${this.#rowTop(number)}px)`;
    const { title, n, row: firstRow } = this.block("row", number);
    if (title && number === firstRow)
      row.append(h("div", { role: "rowheader", class: "heading" }, h("b", {}, title), h("span", {}, many(n, "picture"))));
    const [from, end] = this.rowCells(number);
    for (let index = from; index < end; index++) {
      const cell = h("div", {
        role: "gridcell",
        class: "cell",
        tabindex: "-1",
        "aria-colindex": index - from + 1,
        dataset: { index },
      });
      row.append(cell);
    }
    const after = [...this.rows.keys()].filter((other) => other > number).sort((a, b) => a - b)[0];
    this.element.insertBefore(row, after === undefined ? null : this.rows.get(after)); // keep the DOM in reading order
    this.rows.set(number, row);
  }

  #fill(cell, item, index) {
    const full = viewerButton(() => this.view(index));
    cell.replaceChildren(this.tile(item, index), this.selection.check(item.item ?? item), full);
    this.selection.draw(cell, (item.item ?? item).id);
    const img = cell.querySelector("img");
    if (img) img.loading = "eager"; // the grid decides what is loaded
    if (img && this.side > 260) img.src = img.src.replace("side=256", "side=512");
    const target = cell.querySelector("[data-focus]");
    target.tabIndex = index === this.active ? 0 : -1;
    if (cell === document.activeElement) target.focus({ preventScroll: true });
    cell.removeAttribute("tabindex");
  }

  #read(first, last) {
    if (last < first) return; // an empty grid
    const [[from], [, to]] = [this.rowCells(first), this.rowCells(last)];
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

  /** The index of the picture this number of rows below the active one, in the same column if the row is long enough. */
  #below(rows) {
    const row = this.#rowOf(this.active);
    if (row + rows < 0) return -1;
    if (row + rows >= this.rowCount) return this.total;
    const [from, end] = this.rowCells(row + rows);
    return Math.min(from + this.active - this.rowCells(row)[0], end - 1);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(innerHeight / this.pitch) - 1);
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -this.total, End: this.total };
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
    const item = this.item(this.active);
    if (event.key in steps || event.key in rows) {
      const next = event.key in rows ? this.#below(rows[event.key]) : this.active + steps[event.key];
      if (event.shiftKey && !this.selection.ids.size) this.selection.anchor = this.active;
      if (next >= 0 || !["ArrowLeft", "ArrowUp"].includes(event.key)) this.focus(next);
      if (event.shiftKey) this.selection.range(this.active);
    } else if (event.key === "x" || event.key === " ") {
      this.selection.toggle(this.active);
    } else if (event.key === "f") {
      this.view(this.active);
    } else if (!item || !this.onkey(event, item, this.active)) return;
    event.preventDefault();
  }
}
