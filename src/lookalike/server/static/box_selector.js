// Selects a part of a picture by dragging or with the arrow keys.
// A box is [left, top, right, bottom], as shares of the width and height.
import { h } from "./dom.js";

const LEAST = 0.03; // a smaller drag counts as a click
const STEP = 0.02;

const clamp = (x, low = 0, high = 1) => Math.min(high, Math.max(low, x));

export class BoxSelector {
  /** @param over the element that the picture fills; @param onchange called with the box, or null */
  constructor(over, onchange, start = null) {
    this.over = over;
    this.onchange = onchange;
    this.frame = h("div", {
      class: "part",
      role: "group",
      tabindex: "0",
      "aria-label": "Selected part. Arrow keys move it, Shift and arrow keys resize it, Escape clears it.",
      onkeydown: (event) => this.#key(event),
    });
    over.append(this.frame);
    over.addEventListener("pointerdown", (event) => this.#press(event));
    this.set(start);
  }

  set(box) {
    this.box = box;
    this.frame.hidden = !box;
    if (box) {
      const [left, top, right, bottom] = box.map((share) => share * 100);
      Object.assign(this.frame.style, {
        left: `${left}%`,
        top: `${top}%`,
        width: `${right - left}%`,
        height: `${bottom - top}%`,
      });
    }
    this.onchange(box);
  }

  /** Start with a box in the middle, for keyboard and touch. */
  start() {
    this.over.classList.add("choosing");
    if (!this.box) this.set([0.3, 0.3, 0.7, 0.7]);
    this.frame.focus();
  }

  #at(event) {
    const place = this.over.getBoundingClientRect();
    return [clamp((event.clientX - place.left) / place.width), clamp((event.clientY - place.top) / place.height)];
  }

  #press(event) {
    const touch = event.pointerType === "touch" && !this.over.classList.contains("choosing"); // touch scrolls the page
    if (touch || event.button !== 0) return;
    event.preventDefault();
    const [x, y] = this.#at(event);
    const old = this.box;
    const inside = old && x > old[0] && x < old[2] && y > old[1] && y < old[3];
    this.over.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const [u, v] = this.#at(moved);
      if (inside) this.#shift(old, u - x, v - y);
      else if (Math.abs(u - x) > LEAST && Math.abs(v - y) > LEAST)
        this.set([Math.min(x, u), Math.min(y, v), Math.max(x, u), Math.max(y, v)]);
    };
    const end = () => {
      this.over.removeEventListener("pointermove", move);
      if (!inside && this.box === old) this.set(null); // a click outside it
    };
    this.over.addEventListener("pointermove", move);
    this.over.addEventListener("pointerup", end, { once: true });
    this.over.addEventListener("pointercancel", end, { once: true });
  }

  #shift([left, top, right, bottom], dx, dy) {
    const across = clamp(dx, -left, 1 - right);
    const down = clamp(dy, -top, 1 - bottom);
    this.set([left + across, top + down, right + across, bottom + down]);
  }

  #key(event) {
    const ways = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
    if (event.key === "Escape") this.set(null);
    else if (!(event.key in ways)) return;
    else if (!event.shiftKey) this.#shift(this.box, ...ways[event.key]);
    else {
      const [left, top, right, bottom] = this.box;
      const [dx, dy] = ways[event.key];
      this.set([left, top, clamp(right + dx, left + LEAST), clamp(bottom + dy, top + LEAST)]);
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
