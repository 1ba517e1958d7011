// The canvas of the map: dots and thumbnails that can be panned, zoomed, selected and opened.
import { get, thumbnail } from "./api.js";
import { h } from "./dom.js";
import { title } from "./format.js";
import { Dots } from "./map_dots.js";
import { chooseTiles, LARGEST, Thumbnails } from "./map_tiles.js";
import { say } from "./notify.js";
import { go, link } from "./router.js";
import { Selection } from "./selection.js";

export const OTHER = 9; // number of the colour of small classes; 0: no class, 1 to 8: named classes
export const ZOOM = 1.6;
const [DIM, SELECTED] = [10, 20]; // added to the number of a hidden class; instead of the number
const DEEPEST = 400; // the largest scale
const NEAR = 16; // maximum distance in pixels between the pointer and its point
const STILL = 4; // pixels that the pointer may move in a click
const MARGIN = 24; // pixels around the map at scale 1
const MANY = 20_000; // points that are drawn small
const SIDES = [128, 256, 512]; // of the images of thumbnails
const HOVER_MS = 120;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const views = new Map(); // space → {scale, at}, so that Back restores a view

/** A canvas with the points from readMap. It is the "grid" of its selection. */
export class MapCanvas {
  constructor(points, signal) {
    const view = views.get(points.space) ?? { scale: 1, at: [0, 0] }; // `at` is the corner of the map, in sizes of the canvas
    Object.assign(this, { points, signal, view, chosen: -1, pointers: new Map(), tiles: [], path: null, lasso: false });
    this.dotCanvas = h("canvas", { "aria-hidden": "true" });
    this.dots = new Dots(this.dotCanvas);
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-label":
        "Map. Arrow keys move between pictures, Enter opens one, x selects it, plus and minus zoom, 0 shows everything.",
    });
    this.card = h("a", { class: "map-card", hidden: true });
    this.element = h("div", { class: "map" }, this.dotCanvas, this.canvas, this.card);
    this.thumbnails = new Thumbnails(() => this.#later());
    this.selection = new Selection(this, { signal, place: `map/${points.space}` });
    const sizes = new ResizeObserver(() => this.#measure());
    sizes.observe(this.element);
    signal.addEventListener("abort", () => {
      sizes.disconnect();
      this.thumbnails.want(new Set()); // cancels their requests
    });
    addEventListener("colours", () => this.#measure(), { signal });
    const listen = (name, act) => this.canvas.addEventListener(name, (event) => act.call(this, event));
    listen("wheel", this.#wheel);
    listen("pointerdown", this.#down);
    listen("pointermove", this.#move);
    listen("pointerup", this.#up);
    listen("pointercancel", this.#up);
    listen("pointerleave", ({ pointerType }) => pointerType === "mouse" && this.#choose(-1));
    listen("keydown", this.#key);
    if (this.selection.ids.size) this.selection.showBar();
  }

  /** Colour the classes `named` 1 to 8; if there are numbers in `lit`, show only these. New points keep the view. */
  paint(named, lit, points = this.points) {
    const chosen = this.chosen >= 0 && this.points.id(this.chosen);
    Object.assign(this, { named, lit, points, total: points.n, numbers: new Uint8Array(points.n) });
    this.chosen = -1;
    const all = Uint32Array.from(this.numbers, (_, i) => i);
    const known = points.classes.map((name) => named.indexOf(name) + 1 || OTHER);
    for (const i of all) {
      const number = points.code[i] && known[points.code[i] - 1];
      this.numbers[i] = !lit.size || lit.has(number) ? number : number + DIM;
      if (chosen && points.id(i) === chosen) this.chosen = i;
    }
    this.shown = all.filter((i) => this.numbers[i] < DIM);
    this.order = new Uint32Array([...all.filter((i) => this.numbers[i] >= DIM), ...this.shown]);
    this.drawSelection();
  }

  /** Zoom around a position, but not past the pictures, and never to an empty place. */
  zoom(by, x = this.width / 2, y = this.height / 2) {
    if (by > 1 && this.tiles.length && this.tiles.every(({ width }) => width >= LARGEST)) return;
    const near = this.#hit(x, y, Infinity);
    const scale = clamp(this.view.scale * by, 1, DEEPEST);
    const share = [x / this.width, y / this.height];
    const at = this.view.at.map((from, axis) => share[axis] - ((share[axis] - from) * scale) / this.view.scale);
    this.view = { scale, at };
    if (near >= 0 && scale > 1) this.#reveal(near);
    this.#moved();
  }

  reset() {
    this.view = { scale: 1, at: [0, 0] };
    this.#moved();
  }

  // What the selection needs of a grid.
  total = 0;
  id = (i) => this.points.id(i);
  focus = () => this.canvas.focus();

  drawSelection() {
    const { ids } = this.selection;
    this.kinds = ids.size ? this.numbers.map((number, i) => (ids.has(this.points.id(i)) ? SELECTED : number)) : this.numbers;
    this.dots.set(this.points, this.order, this.kinds);
    this.#later();
  }

  /** Select the pictures inside a path, by default those in view, by their thumbnail or else their dot. */
  selectInside(path, keep = false) {
    const { width, height } = this;
    const corners = path ?? [[0, 0], [width, 0], [width, height], [0, height]];
    const tiles = new Map(this.tiles.map((tile) => [tile.i, [tile.x, tile.y]]));
    const [us, vs] = [0, 1].map((axis) => corners.map((corner) => corner[axis]));
    const isInside = ([x, y]) => {
      let inside = false;
      for (let a = 0, b = us.length - 1; a < us.length; b = a++)
        if (vs[a] > y !== vs[b] > y && x < us[a] + ((y - vs[a]) * (us[b] - us[a])) / (vs[b] - vs[a])) inside = !inside;
      return inside;
    };
    this.selection.select([...this.shown].filter((i) => isInside(tiles.get(i) ?? this.#place(i))), keep);
  }

  #measure() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width) return;
    const sharp = Math.min(2, devicePixelRatio || 1);
    Object.assign(this, { width, height, sharp });
    for (const canvas of [this.canvas, this.dotCanvas]) Object.assign(canvas, { width: width * sharp, height: height * sharp });
    const style = getComputedStyle(this.element);
    const colour = (name) => style.getPropertyValue(name).trim();
    const classColours = Array.from({ length: DIM }, (_, number) => colour(`--class-${number}`));
    this.colours = [...classColours, ...classColours.map((one) => `${one}20`), colour("--accent")];
    this.empty = colour("--sunken");
    this.#draw();
  }

  /** The place and size of the map, in pixels or, with a factor, other units. */
  #area(factor = 1) {
    const [width, height] = [this.width * factor, this.height * factor];
    const { scale, at } = this.view;
    const margin = MARGIN * factor * scale;
    const [across, down] = [scale * width - 2 * margin, scale * height - 2 * margin];
    return { left: at[0] * width + margin, top: at[1] * height + margin, across, down, width, height };
  }

  #place(i) {
    const { left, top, across, down } = this.#area();
    return [left + this.points.x[i] * across, top + this.points.y[i] * down];
  }

  #later() {
    this.drawing ||= requestAnimationFrame(() => this.#draw());
  }

  #moved() {
    const { scale, at } = this.view;
    this.view.at = at.map((from) => clamp(from, 0.5 - scale, 0.5)); // the middle of the canvas is on the map
    views.set(this.points.space, this.view);
    this.card.hidden = true;
    this.#later();
  }

  #draw() {
    this.drawing = 0;
    if (!this.width || !this.kinds || this.signal.aborted) return;
    const { pen = (this.pen = this.canvas.getContext("2d")), sharp, points } = this;
    const depth = Math.log2(this.view.scale);
    const size = (points.n > MANY ? 2.5 : this.width < 600 ? 4.5 : 6) + 0.9 * depth;
    this.dots.draw(this.#area(sharp), this.colours, size * sharp);
    const least = (this.width < 600 ? 30 : 40) * Math.min(3, 2 ** (0.45 * depth));
    this.tiles = chooseTiles(points, this.shown, this.#area(), least, least * Math.max(1.05, 2.2 - 0.4 * depth));
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.thumbnails.want(new Set(this.tiles.map((tile) => this.#drawTile(tile))));
    pen.strokeStyle = pen.fillStyle = this.colours.at(-1);
    pen.lineWidth = 3;
    pen.beginPath();
    if (this.chosen >= 0) {
      const { x, y, width, height } = this.#tile(this.chosen);
      pen.rect(x - width / 2, y - height / 2, width, height);
    }
    for (const point of this.path ?? []) pen.lineTo(...point);
    if (this.path) pen.closePath();
    pen.stroke();
    pen.globalAlpha = this.path ? 0.15 : 0;
    pen.fill();
    pen.globalAlpha = 1;
  }

  /** Draw a thumbnail; returns the key of the image that it needs. */
  #drawTile({ i, x, y, width, height }) {
    const { pen } = this;
    const id = this.points.id(i);
    const keys = SIDES.map((side) => `${id},${side}`);
    const best = keys[SIDES.findIndex((side) => side >= 0.8 * width * this.sharp)] ?? keys.at(-1);
    const image = [best, ...keys].map((key) => this.thumbnails.get(key)).find(Boolean); // another one while it loads
    const edge = this.kinds[i] === SELECTED ? 4 : 2;
    const inner = [x - width / 2 + edge, y - height / 2 + edge, width - 2 * edge, height - 2 * edge];
    pen.fillStyle = this.colours[this.kinds[i]];
    pen.fillRect(x - width / 2, y - height / 2, width, height);
    pen.fillStyle = this.empty;
    if (!image) pen.fillRect(...inner);
    else {
      const part = Math.min(image.width / inner[2], image.height / inner[3]); // it covers the thumbnail
      const [w, h] = [inner[2] * part, inner[3] * part];
      pen.drawImage(image, (image.width - w) / 2, (image.height - h) / 2, w, h, ...inner);
    }
    return best;
  }

  /** The thumbnail of a picture, or its dot. */
  #tile(i) {
    const [x, y] = this.#place(i);
    return this.tiles.find((tile) => tile.i === i) ?? { i, x, y, width: 14, height: 14 };
  }

  /** The picture at a position, or the nearest one that is close; -1 if there is none. */
  #hit(x, y, close = NEAR) {
    const tile = this.tiles.find((one) => 2 * Math.abs(one.x - x) <= one.width && 2 * Math.abs(one.y - y) <= one.height);
    if (tile) return tile.i;
    const { left, top, across, down } = this.#area();
    let [best, least] = [-1, close ** 2];
    for (const i of this.shown) {
      const far = (left + this.points.x[i] * across - x) ** 2 + (top + this.points.y[i] * down - y) ** 2;
      if (far < least) [best, least] = [i, far];
    }
    return best;
  }

  /** Frame a picture and show its card; -1: none. */
  async #choose(i, announce = false) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.canvas.classList.toggle("aimed", i >= 0);
    this.card.hidden = true;
    this.#later();
    if (i < 0) return;
    await new Promise((resolve) => setTimeout(resolve, HOVER_MS));
    const id = this.points.id(i);
    const item = this.chosen === i && (await get(`/items/${id}`, {}, this.signal).catch(() => null));
    if (!item || this.chosen !== i) return;
    const label = this.points.label(i) ?? "no class";
    const words = this.points.predicted(i) ? `prediction: ${label}` : label;
    const image = h("img", { src: thumbnail(id), alt: "", width: 198, height: 148 });
    this.card.replaceChildren(image, h("b", {}, title(item)), h("span", {}, words));
    this.card.href = link("item", id);
    const { x, y, width } = this.#tile(i);
    this.card.style.left = `clamp(6px, ${x + width / 2 + 8}px, 100% - 218px)`;
    this.card.style.top = `clamp(6px, ${y - 100}px, 100% - 216px)`;
    this.card.hidden = false;
    if (announce) say(`${title(item)}, ${words}`);
  }

  #open = (i) => go(link("item", this.points.id(i)));

  #wheel(event) {
    event.preventDefault();
    this.#choose(-1);
    this.zoom(Math.exp((event.deltaMode ? -0.08 : -0.0025) * event.deltaY), event.offsetX, event.offsetY);
  }

  #down(event) {
    if (event.button) return;
    this.canvas.setPointerCapture(event.pointerId);
    const at = [event.offsetX, event.offsetY];
    this.pointers.set(event.pointerId, at);
    this.still = this.pointers.size === 1;
    this.path = this.still && (this.lasso || event.shiftKey) ? [at] : null; // two fingers zoom
  }

  #move(event) {
    const now = [event.offsetX, event.offsetY];
    const before = this.pointers.get(event.pointerId);
    if (!before) return event.pointerType === "mouse" && this.#choose(this.#hit(...now));
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
    if (this.still && Math.hypot(dx, dy) < STILL) return undefined;
    this.still = false;
    this.pointers.set(event.pointerId, now);
    this.#choose(-1);
    if (this.path) return this.path.push(now) && this.#later();
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    const far = ([x, y]) => Math.max(1, Math.hypot(x - other[0], y - other[1]));
    return other ? this.zoom(far(now) / far(before), ...other) : this.#pan(dx, dy);
  }

  #up(event) {
    if (!this.pointers.delete(event.pointerId) || this.pointers.size) return undefined;
    const { path, still } = this;
    this.path = null;
    this.#later();
    if (event.type === "pointercancel") return undefined;
    const adds = event.shiftKey || event.ctrlKey || event.metaKey;
    if (!still) return path && this.selectInside(path, adds);
    const i = this.#hit(event.offsetX, event.offsetY);
    if (i >= 0 && (adds || this.selection.ids.size)) return this.selection.toggle(i);
    if (i >= 0 && (event.pointerType === "mouse" || i === this.chosen)) return this.#open(i);
    return this.#choose(i); // a second tap opens it
  }

  #key(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key in DIRECTIONS) this.#step(...DIRECTIONS[key]);
    else if (key === "Enter" && this.chosen >= 0) this.#open(this.chosen);
    else if ((key === "x" || key === " ") && this.chosen >= 0) this.selection.toggle(this.chosen);
    else if (key === "+" || key === "-") this.zoom(key === "+" ? ZOOM : 1 / ZOOM);
    else if (key === "0") this.reset();
    else return;
    event.preventDefault();
  }

  /** Choose the next thumbnail in this direction; without one, pan. The first key chooses the one in the middle. */
  #step(dx, dy) {
    if (this.chosen < 0 && this.tiles.length) return this.#choose(this.#hit(this.width / 2, this.height / 2, Infinity), true);
    const here = this.#tile(this.chosen);
    let [best, least] = [null, Infinity];
    for (const tile of this.tiles) {
      const ahead = (tile.x - here.x) * dx + (tile.y - here.y) * dy;
      const aside = Math.abs((tile.x - here.x) * dy) + Math.abs((tile.y - here.y) * dx);
      const far = ahead + 2 * aside;
      if (tile.i !== this.chosen && ahead > 1 && ahead >= aside / 2 && far < least) [best, least] = [tile.i, far];
    }
    if (best === null) return this.#pan((-dx * this.width) / 4, (-dy * this.height) / 4);
    this.#reveal(best);
    this.#moved();
    return this.#choose(best, true);
  }

  #pan(dx, dy) {
    this.view.at = [this.view.at[0] + dx / this.width, this.view.at[1] + dy / this.height];
    this.#moved();
  }

  /** Pan until a picture is in view, and not at its edge. */
  #reveal(i) {
    const sizes = [this.width, this.height];
    const shares = this.#place(i).map((value, axis) => value / sizes[axis]);
    this.view.at = this.view.at.map((from, axis) => from + clamp(shares[axis], 0.15, 0.85) - shares[axis]);
  }
}
