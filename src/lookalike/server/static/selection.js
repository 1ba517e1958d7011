// The pictures selected in a grid: by check mark, Shift, rectangle, long press or key.
import { h, icon } from "./dom.js";
import { title } from "./format.js";
import { typing } from "./keyboard.js";
import { say } from "./notify.js";
import { NO_EXAMPLES, read } from "./router.js";

const LONG_PRESS_MS = 450;
const STILL = 8; // pixels that the pointer may move in a click or a long press
const EDGE = 60; // pixels from the edges of the window in which a drag scrolls
const selections = new Map(); // ids by address, so that Back restores a selection

/** The address without the examples, which change while the same pictures are shown. */
function address() {
  const { view, arg, query } = read();
  for (const name of Object.keys(NO_EXAMPLES)) query.delete(name);
  return `${view}/${arg}?${query}`;
}

const counting = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

export class Selection {
  /** The selection of a grid; `inClass` is the class whose pictures it shows. A view with a `place` handles the pointer. */
  constructor(grid, { inClass, signal, place = null }) {
    const key = place ?? address();
    if (!selections.has(key)) selections.set(key, new Set());
    Object.assign(this, { grid, inClass, signal, ids: selections.get(key), anchor: null, turn: 0, onchange: null });
    this.base = new Set(this.ids); // to which a range or a rectangle is added
    if (!place) this.#listen(grid.element);
    document.addEventListener("keydown", (event) => this.#key(event), { signal });
  }

  #listen(element) {
    element.setAttribute("aria-multiselectable", "true");
    element.addEventListener("click", (event) => this.#click(event));
    element.addEventListener("dragstart", (event) => event.preventDefault());
    element.addEventListener("contextmenu", (event) => event.pointerType === "touch" && event.preventDefault());
    element.addEventListener("pointerdown", (event) => {
      this.pressed = false;
      if (event.button || event.target.closest("button")) return;
      if (event.pointerType === "mouse") this.#drag(event);
      else this.#press(event);
    });
  }

  #key(event) {
    if (event.defaultPrevented || typing(event) || !this.grid.element.isConnected) return;
    if (event.key === "Escape" && this.ids.size) this.clear();
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) this.all();
    else return;
    event.preventDefault();
  }

  /** Add the picture at this index, or remove it. The next range starts here. */
  toggle(index) {
    const id = this.grid.id(index);
    if (!id) return;
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = index;
    this.base = new Set(this.ids);
    this.#changed();
  }

  /** Select the pictures from the last one that was chosen to this one, instead of the previous range. */
  range(index) {
    this.anchor ??= index;
    return this.#select(counting(Math.min(this.anchor, index), Math.max(this.anchor, index)));
  }

  /** Select the pictures at these indexes; with `keep`, in addition to the others. */
  async select(indexes, keep = false) {
    this.base = new Set(keep ? this.ids : []);
    await this.#select(indexes);
    this.base = new Set(this.ids);
  }

  /** Select the pictures in these rows and columns. */
  rectangle([top, bottom], [left, right]) {
    const cells = (row) => {
      const [from, end] = this.grid.rowCells(row);
      return counting(from + left, Math.min(from + right, end - 1));
    };
    return this.#select(counting(top, bottom).flatMap(cells));
  }

  /** Select all pictures of the view. */
  async all() {
    await this.select(counting(0, this.grid.total - 1));
  }

  clear() {
    this.turn += 1;
    this.ids.clear();
    this.base = new Set();
    this.anchor = null;
    this.#changed();
  }

  check(item) {
    const props = { type: "button", class: "check", tabindex: "-1", "aria-label": `Select ${title(item)}` };
    return h("button", props, icon("yes"));
  }

  /** Show in a cell whether its picture is selected. */
  draw(cell, id) {
    cell.setAttribute("aria-selected", this.ids.has(id));
    cell.querySelector(".check").setAttribute("aria-pressed", this.ids.has(id));
  }

  /** Show the bar with the actions; it sets `onchange`. */
  async showBar() {
    (await import("./selection_bar.js")).show(this);
  }

  async #select(indexes) {
    const turn = ++this.turn;
    let ids = indexes.map((index) => this.grid.id(index));
    if (ids.includes(undefined)) {
      const all = await this.grid.ids();
      if (turn !== this.turn) return; // the user has continued
      ids = indexes.map((index) => all[index]);
    }
    this.ids.clear();
    for (const id of [...this.base, ...ids]) if (id) this.ids.add(id);
    this.#changed();
  }

  #changed() {
    this.grid.drawSelection();
    say(`${this.ids.size} selected`);
    if (this.onchange) this.onchange();
    else if (this.ids.size) this.showBar();
  }

  #click(event) {
    const cell = event.target.closest("[role=gridcell]");
    const link = event.target.closest("[data-focus]");
    const isPlain = event.detail > 0 && !event.ctrlKey && !event.metaKey; // Enter opens the picture
    const isHandled = this.pressed || event.target.closest(".check") || (link && (event.shiftKey || (isPlain && this.ids.size)));
    if (!cell || !isHandled) return;
    event.preventDefault();
    const index = Number(cell.dataset.index);
    if (event.shiftKey) this.range(index);
    else if (!this.pressed) this.toggle(index); // a long press has selected it
    this.pressed = false;
  }

  /** Call `move` until the pointer is released, then `end`. */
  #track(move, end) {
    const tracking = new AbortController();
    const stop = () => {
      tracking.abort();
      end();
    };
    addEventListener("pointermove", (event) => move(event, stop), tracking);
    for (const name of ["pointerup", "pointercancel"]) addEventListener(name, stop, tracking);
  }

  #press(start) {
    const index = start.target.closest("[role=gridcell]")?.dataset.index;
    const timer = setTimeout(() => {
      this.pressed = true;
      this.toggle(Number(index));
    }, LONG_PRESS_MS);
    const far = (event, stop) => Math.hypot(event.x - start.x, event.y - start.y) > STILL && stop();
    this.#track(far, () => clearTimeout(timer));
  }

  /** Dragging draws a rectangle; near the edges of the window it scrolls. */
  #drag(start) {
    const { element } = this.grid;
    const lasso = h("div", { class: "lasso", "aria-hidden": "true" });
    const local = ({ x, y }) => {
      const { left, top } = element.getBoundingClientRect();
      return [x - left, y - top];
    };
    const from = local(start);
    let last = start;
    const draw = () => {
      const [x, y] = local(last).map((to, axis) => [Math.min(from[axis], to), Math.max(from[axis], to)]);
      lasso.style.transform = `translate(${x[0]}px, ${y[0]}px)`;
      lasso.style.width = `${x[1] - x[0]}px`;
      lasso.style.height = `${y[1] - y[0]}px`;
      const { columns, side, gap } = this.grid;
      const column = (to) => Math.max(0, Math.min(columns - 1, Math.floor(to / (side + gap))));
      this.rectangle(
        y.map((to) => this.grid.rowAt(to)),
        x.map(column),
      );
    };
    const scroll = () => {
      if (!lasso.isConnected) return;
      const by = Math.min(0, last.y - EDGE) + Math.max(0, last.y - innerHeight + EDGE);
      if (by) {
        scrollBy({ top: by / 3, behavior: "instant" });
        draw();
      }
      requestAnimationFrame(scroll);
    };
    const move = (event) => {
      last = event;
      if (!lasso.isConnected) {
        if (Math.hypot(event.x - start.x, event.y - start.y) < STILL) return;
        element.setPointerCapture(start.pointerId); // the link must not get the click
        this.base = new Set(start.shiftKey || start.ctrlKey ? this.ids : []);
        element.append(lasso);
        scroll();
      }
      draw();
    };
    this.#track(move, () => {
      lasso.remove();
      this.base = new Set(this.ids);
    });
  }
}
