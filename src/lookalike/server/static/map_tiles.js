// The pictures of the map that are shown as thumbnails, and their images.
import { thumbnail } from "./api.js";

export const LARGEST = 320; // width of a thumbnail in pixels
const CACHED = 600; // images
const PARALLEL = 5; // requests; browsers allow six per server, and the event stream needs one

/**
 * The thumbnails [{i, x, y, width}] of a view. Each cell of a grid on the map, at least `cell` wide, shows its picture
 * with the smallest id: ids are random, so it stays when zooming splits the cell. A picture alone in 2 × 2 or 4 × 4
 * cells gets a larger thumbnail. Thumbnails do not overlap.
 */
export function chooseTiles({ x, y }, shown, { left, top, across, down, width, height }, least, cell) {
  const unit = Math.max(across, (down * 4) / 3);
  const wide = unit / 2 ** Math.floor(Math.log2(unit / cell));
  const high = 0.75 * wide;
  const sides = [wide, high];
  const first = [left, top].map((from, axis) => Math.floor(-from / sides[axis] / 4) * 4 - 4); // of the visible cells
  const columns = Math.ceil(width / wide) + 12;
  const rows = Math.ceil(height / high) + 12;
  const counts = [0, 1, 2].map(() => new Uint32Array(rows * columns)); // of 1, 2 × 2 and 4 × 4 cells
  const chosen = new Uint32Array(rows * columns);
  for (const i of shown) {
    const column = Math.floor((x[i] * across) / wide) - first[0];
    const row = Math.floor((y[i] * down) / high) - first[1];
    if (column < 0 || row < 0 || column >= columns || row >= rows) continue;
    const at = row * columns + column;
    if (!counts[0][at]++) chosen[at] = i;
    counts[1][(row >> 1) * columns + (column >> 1)] += 1;
    counts[2][(row >> 2) * columns + (column >> 2)] += 1;
  }
  const tiles = [];
  for (let at = 0; at < chosen.length; at++) {
    if (!counts[0][at]) continue;
    const place = [at % columns, Math.floor(at / columns)];
    const corner = (level, axis, beyond = 0) => (((place[axis] >> level) + beyond) * 2 ** level + first[axis]) * sides[axis];
    const isFree = (level) =>
      counts[level][(place[1] >> level) * columns + (place[0] >> level)] === 1 &&
      corner(level, 0, 1) <= across &&
      corner(level, 1, 1) <= down;
    const level = [2, 1].find(isFree) ?? 0;
    const available = wide * 2 ** level;
    const isAlone = counts[0][at] === 1;
    const lows = [left + corner(level, 0), top + corner(level, 1)];
    const ends = [left + across + 20, top + down + 20]; // at the edge of the canvas
    const free = Math.max(least / 2, Math.min(ends[0] - lows[0], (ends[1] - lows[1]) / 0.75));
    const size = Math.min(available, free, Math.max(least, isAlone ? Math.min(0.6 * available, LARGEST) : 0));
    const i = chosen[at];
    const [u, v] = [left + x[i] * across, top + y[i] * down].map((value, axis) => {
      const half = (axis ? 0.375 : 0.5) * size;
      return Math.max(lows[axis] + half, Math.min(lows[axis] + available * (axis ? 0.75 : 1) - half, ends[axis] - half, value));
    });
    if (Math.abs(u - width / 2) < (width + size) / 2 && Math.abs(v - height / 2) < (height + size) / 2)
      tiles.push({ i, x: u, y: v, width: size, height: 0.75 * size });
  }
  return tiles;
}

const images = new Map(); // id and side → image, the least recently used first

/** Loads the images of thumbnails while they are wanted, and calls `onload` for each. */
export class Thumbnails {
  constructor(onload) {
    Object.assign(this, { onload, loading: new Map(), failed: new Set(), queue: [] });
  }

  get(key) {
    const image = images.get(key);
    if (image) images.delete(key) && images.set(key, image);
    return image;
  }

  /** Load the images with these keys "id,side", and cancel the requests for others. */
  want(keys) {
    for (const [key, request] of this.loading) if (!keys.has(key)) this.loading.delete(key) && request.abort();
    this.queue = [...keys].filter((key) => !images.has(key) && !this.loading.has(key) && !this.failed.has(key));
    this.#next();
  }

  #next() {
    while (this.loading.size < PARALLEL && this.queue.length) this.#load(this.queue.shift());
  }

  async #load(key) {
    const request = new AbortController();
    this.loading.set(key, request);
    try {
      const response = await fetch(thumbnail(...key.split(",")), request);
      images.set(key, await createImageBitmap(await response.blob()));
      if (images.size > CACHED) images.delete(images.keys().next().value);
      this.onload();
    } catch {
      if (!request.signal.aborted) this.failed.add(key);
    }
    if (this.loading.get(key) === request) this.loading.delete(key);
    this.#next();
  }
}
