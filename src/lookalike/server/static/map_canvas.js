// The canvas of the map: points and thumbnails that can be panned, zoomed and clicked.
import { thumbnail } from "./api.js";
import { h } from "./dom.js";
import { say } from "./notify.js";
import { go, link } from "./router.js";

const TILE = 64; // width of a thumbnail in pixels
const NEAR = 22; // maximum distance in pixels between a click and its point

/** Reserve space for a thumbnail at x, y; false if it would overlap another one. */
function claimSpace(taken, x, y) {
  const [column, line] = [Math.floor(x / TILE), Math.floor(y / TILE)];
  for (let i = column - 1; i <= column + 1; i++) {
    for (let j = line - 1; j <= line + 1; j++) {
      for (const [u, v] of taken.get(`${i},${j}`) ?? [])
        if (Math.abs(u - x) < TILE + 3 && Math.abs(v - y) < TILE * 0.75 + 3) return false;
    }
  }
  const here = `${column},${line}`;
  taken.set(here, [...(taken.get(here) ?? []), [x, y]]);
  return true;
}

/** A canvas with points: {ids, x, y, labels}. */
export class MapCanvas {
  constructor({ ids, x, y, labels }, signal) {
    const [left, right, top, bottom] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
    const unit = (value, low, high) => (high > low ? (value - low) / (high - low) : 0.5);
    this.points = ids.map((id, i) => ({
      id,
      u: unit(x[i], left, right),
      v: unit(y[i], top, bottom),
      labels: [labels[i] ?? []].flat(),
    }));
    Object.assign(this, { signal, images: new Map(), scale: 1, at: [0, 0], chosen: null, lit: "", fingers: new Map() });
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-label": "Map of the pictures. Arrow keys move between pictures, Enter opens one, plus and minus zoom.",
    });
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "map" }, this.canvas, this.tip);
    const sizes = new ResizeObserver(() => this.#size());
    sizes.observe(this.element);
    signal.addEventListener("abort", () => sizes.disconnect());
    addEventListener("colours", () => this.#draw(), { signal });
    this.canvas.addEventListener(
      "wheel",
      (event) => (event.preventDefault(), this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY)),
      { passive: false },
    );
    this.canvas.addEventListener("pointerdown", (event) => this.#down(event));
    this.canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) this.canvas.addEventListener(name, (event) => this.#up(event));
    this.canvas.addEventListener("pointerleave", () => this.#point(null));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  highlight(label) {
    this.lit = label;
    this.#later();
  }

  zoom(by, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(60, Math.max(1, this.scale * by));
    this.at = [x - ((x - this.at[0]) * scale) / this.scale, y - ((y - this.at[1]) * scale) / this.scale];
    this.scale = scale;
    this.#later();
  }

  #size() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const sharp = Math.min(2, devicePixelRatio || 1);
    Object.assign(this, { width, height, sharp });
    Object.assign(this.canvas, { width: width * sharp, height: height * sharp });
    this.#draw();
  }

  #place({ u, v }) {
    const rim = TILE / 2 + 8;
    return [
      this.at[0] + this.scale * (rim + u * (this.width - 2 * rim)),
      this.at[1] + this.scale * (rim + v * (this.height - 2 * rim)),
    ];
  }

  #later() {
    this.drawing ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.drawing = 0;
    if (!this.width) return;
    const pen = this.canvas.getContext("2d");
    const colour = (name) => getComputedStyle(this.element).getPropertyValue(name);
    const [accent, dot] = [colour("--accent"), colour("--dot")];
    pen.setTransform(this.sharp, 0, 0, this.sharp, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const taken = new Map(); // cell of a coarse grid → positions of thumbnails
    const tiles = [];
    for (const point of this.points) {
      const [x, y] = this.#place(point);
      if (x < -TILE || y < -TILE || x > this.width + TILE || y > this.height + TILE) continue;
      const lit = this.lit && point.labels.includes(this.lit);
      pen.globalAlpha = this.lit && !lit ? 0.25 : 0.8;
      pen.fillStyle = lit ? accent : dot;
      pen.beginPath();
      pen.arc(x, y, lit ? 5 : 3.5, 0, 7);
      pen.fill();
      if (this.lit && !lit) continue;
      if (claimSpace(taken, x, y)) tiles.push([point, x, y]);
    }
    pen.globalAlpha = 1;
    for (const [point, x, y] of tiles) this.#tile(pen, point, x, y, TILE);
    if (this.chosen) {
      const [x, y] = this.#place(this.chosen);
      this.#tile(pen, this.chosen, x, y, TILE * 1.5);
      pen.strokeStyle = accent;
      pen.lineWidth = 3;
      pen.beginPath();
      pen.roundRect(x - TILE * 0.75, y - TILE * 0.5625, TILE * 1.5, TILE * 1.125, 7);
      pen.stroke();
    }
  }

  #tile(pen, { id }, x, y, side) {
    let image = this.images.get(id);
    if (!image) {
      image = new Image();
      image.onload = () => this.#later();
      image.src = thumbnail(id, 128);
      this.images.set(id, image);
    }
    if (!image.complete || !image.naturalWidth) return;
    const [width, height] = [side, side * 0.75];
    const scale = Math.max(width / image.naturalWidth, height / image.naturalHeight);
    const [cut, rise] = [width / scale, height / scale];
    pen.save();
    pen.beginPath();
    pen.roundRect(x - width / 2, y - height / 2, width, height, 7);
    pen.clip();
    pen.drawImage(
      image,
      (image.naturalWidth - cut) / 2,
      (image.naturalHeight - rise) / 2,
      cut,
      rise,
      x - width / 2,
      y - height / 2,
      width,
      height,
    );
    pen.restore();
  }

  #nearest(x, y) {
    let best = null;
    let least = NEAR;
    for (const point of this.points) {
      const [u, v] = this.#place(point);
      const far = Math.hypot(u - x, v - y);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  #point(point) {
    if (point === this.chosen) return;
    this.chosen = point;
    this.tip.hidden = !point;
    if (point) this.tip.textContent = point.labels.join(", ") || "no class";
    this.canvas.classList.toggle("aimed", point !== null);
    this.#later();
  }

  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.moved = false;
  }

  #move(event) {
    const now = [event.offsetX, event.offsetY];
    const before = this.fingers.get(event.pointerId);
    if (!before) return this.#point(this.#nearest(...now));
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (!this.moved && Math.hypot(dx, dy) < 4) return undefined;
    this.moved = true;
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other)
      this.zoom(
        Math.hypot(now[0] - other[0], now[1] - other[1]) /
          Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])),
        ...other,
      );
    else this.at = [this.at[0] + dx, this.at[1] + dy];
    this.fingers.set(event.pointerId, now);
    return this.#later();
  }

  #up(event) {
    this.fingers.delete(event.pointerId);
    const point = this.#nearest(event.offsetX, event.offsetY);
    if (!this.moved && point && event.type === "pointerup") go(link("item", point.id));
  }

  #key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in ways) this.#step(...ways[event.key]);
    else if (event.key === "Enter" && this.chosen) go(link("item", this.chosen.id));
    else if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 1.6 : 1 / 1.6);
    else return;
    event.preventDefault();
  }

  /** Move to the nearest picture in this direction. */
  #step(dx, dy) {
    const [x, y] = this.chosen ? this.#place(this.chosen) : [this.width / 2, this.height / 2];
    let best = null;
    let least = Infinity;
    for (const point of this.points) {
      const [u, v] = this.#place(point);
      const ahead = (u - x) * dx + (v - y) * dy;
      const aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
      const far = ahead + 2 * aside;
      if (point !== this.chosen && ahead > 1 && ahead >= aside / 2 && far < least) [best, least] = [point, far];
    }
    if (!best) return;
    this.#point(best);
    const [u, v] = this.#place(best);
    this.at = [
      this.at[0] + Math.min(0, this.width - TILE - u) + Math.max(0, TILE - u),
      this.at[1] + Math.min(0, this.height - TILE - v) + Math.max(0, TILE - v),
    ];
    say(best.labels.join(", ") || "picture without a class");
    this.#later();
  }
}
