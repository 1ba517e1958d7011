// Zoom and pan by mouse, touch, buttons and keys. All pictures on a stage move together.
import { image, SCREEN } from "./api.js";
import { button, h } from "./dom.js";
import { percent, title } from "./format.js";

const STEP = 1.5;
const MOST = 8; // times 100 %, or times the size that fits
const SWIPE = 60; // pixels

/** A picture that fits into its pane; with a box, it covers this part of `within`, which fits. */
export function pane(item, { face = photo(item), box = [0, 0, 1, 1], within = item } = {}) {
  const frame = h("div", { class: "frame", dataset: { width: within.width } }, face);
  frame.style.setProperty("--shape", within.width / within.height);
  const [left, top, right, bottom] = box.map((share) => 100 * share);
  const place = { left, top, width: right - left, height: bottom - top };
  for (const [name, share] of Object.entries(place)) face.style[name] = `${share}%`;
  return h("div", { class: "pane" }, frame);
}

function photo(item) {
  const original = Math.max(item.width, item.height) > SCREEN ? image(item.id) : null;
  return h("img", { src: image(item.id, SCREEN), alt: title(item), draggable: "false", dataset: original && { original } });
}

export class Zoom {
  /** @param onswipe called with 1 or -1 after a swipe on pictures that fit */
  constructor(stage, onswipe = () => {}) {
    Object.assign(this, { stage, onswipe, scale: 1, x: 0, y: 0 });
    const push = (dx, dy) => () => this.scale > 1 && this.pan(dx, dy); // false: the key has no meaning
    this.keys = {
      "+": () => this.by(STEP),
      "=": () => this.by(STEP),
      "-": () => this.by(1 / STEP),
      0: () => this.to(1),
      1: () => this.to(this.full),
      ArrowLeft: push(80, 0),
      ArrowRight: push(-80, 0),
      ArrowUp: push(0, 80),
      ArrowDown: push(0, -80),
    };
    this.level = h("output", { class: "level", "aria-label": "Zoom" });
    this.tools = [
      this.level,
      button(null, "Fit", this.keys[0]),
      button(null, "100 %", this.keys[1]),
    ];
    this.#listen();
  }

  /** The first visible pane. */
  get #seen() {
    return [...this.stage.querySelectorAll(".pane")].find((one) => one.clientWidth);
  }

  /** The scale at which a pixel of the first picture is a pixel of the screen. At scale 1, it fits. */
  get full() {
    const frame = this.#seen?.firstChild;
    return frame ? frame.dataset.width / frame.clientWidth / devicePixelRatio : 1;
  }

  to(scale, x = 0, y = 0) {
    this.by(scale / this.scale, x, y);
  }

  /** Zoom by a factor; the point (x, y), relative to the middle of the pane, stays in place. */
  by(factor, x = 0, y = 0) {
    const { scale, full } = this;
    this.scale = Math.min(Math.max(scale * factor, Math.min(1, full)), MOST * Math.max(1, full));
    const change = this.scale / scale - 1;
    this.pan((this.x - x) * change, (this.y - y) * change);
  }

  pan(dx, dy) {
    const { stage, scale, full } = this;
    const limit = (to, side = 0) => Math.sign(to) * Math.min(Math.abs(to), Math.max(0, (side * (scale - 1)) / 2));
    this.x = limit(this.x + dx, this.#seen?.clientWidth);
    this.y = limit(this.y + dy, this.#seen?.clientHeight);
    const style = { "--scale": scale, "--x": `${this.x}px`, "--y": `${this.y}px` };
    for (const [name, value] of Object.entries(style)) stage.style.setProperty(name, value);
    stage.classList.toggle("pixels", scale > 2 * full);
    this.level.textContent = percent(scale / full);
    for (const img of stage.querySelectorAll("[data-original]"))
      if (Math.max(img.clientWidth, img.clientHeight) * scale * devicePixelRatio > SCREEN) loadOriginal(img);
  }

  #listen() {
    const down = new Map(); // pointers, and their places
    let start = null; // of a possible swipe
    const at = ({ target, clientX, clientY }) => {
      const { left, top, width, height } = target.closest(".pane").getBoundingClientRect();
      return [clientX - left - width / 2, clientY - top - height / 2];
    };
    const middle = () => {
      const [one, other = one] = [...down.values()];
      return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2, Math.hypot(one[0] - other[0], one[1] - other[1])];
    };
    const handlers = {
      wheel: (event) => {
        event.preventDefault();
        this.by(2 ** (-event.deltaY / (event.deltaMode ? 6 : 300)), ...at(event));
      },
      dblclick: (event) => this.to(this.scale > 1 ? 1 : Math.max(2, this.full), ...at(event)),
      pointerdown: (event) => {
        if (event.button) return;
        event.target.closest(".pane").setPointerCapture(event.pointerId);
        down.set(event.pointerId, at(event));
        start = down.size === 1 && this.scale <= 1 && event.pointerType !== "mouse" ? at(event) : null;
      },
      pointermove: (event) => {
        if (!down.has(event.pointerId)) return;
        const [x, y, far] = middle();
        down.set(event.pointerId, at(event));
        const [toX, toY, toFar] = middle();
        if (far && toFar) this.by(toFar / far, toX, toY);
        this.pan(toX - x, toY - y);
      },
      pointerup: (event) => {
        if (!down.delete(event.pointerId) || !start) return;
        const [dx, dy] = at(event).map((to, axis) => to - start[axis]);
        if (Math.abs(dx) > Math.max(SWIPE, 2 * Math.abs(dy))) this.onswipe(dx < 0 ? 1 : -1);
      },
      pointercancel: (event) => down.delete(event.pointerId),
    };
    for (const [name, handle] of Object.entries(handlers))
      this.stage.addEventListener(name, (event) => event.target.closest(".pane") && handle(event), { passive: false });
  }
}

/** Replace the screen-sized copy by the original, when it is loaded. */
function loadOriginal(img) {
  const full = new Image();
  full.src = img.dataset.original;
  delete img.dataset.original;
  full.decode().then(
    () => (img.src = full.src),
    () => {}, // the copy stays
  );
}
