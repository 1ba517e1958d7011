// The points of the map as dots, written into the pixels of a canvas: 100,000 paths would be too slow.
import { STEPS } from "./map_data.js";

/** Draw points {x, y} in this order. `kinds` has the number of each point's colour; the last colour has larger dots. */
export function drawDots(canvas, { x, y }, order, kinds, colours, { left, top, across, down }, size) {
  const pen = canvas.getContext("2d");
  const { width, height } = canvas;
  const image = pen.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const inks = colours.map((colour) => parseInt(colour.slice(5, 7) + colour.slice(3, 5) + colour.slice(1, 3), 16)); // BGR
  const alphas = colours.map((colour) => parseInt(colour.slice(7) || "ff", 16));
  const masks = [size, 1.6 * size].map((extent) => {
    const side = Math.ceil(extent);
    const far = (at) => Math.hypot((at % side) + 0.5 - side / 2, Math.floor(at / side) + 0.5 - side / 2);
    return Float32Array.from({ length: side * side }, (_, at) => Math.min(1, Math.max(0, extent / 2 + 0.5 - far(at))));
  });
  const sides = masks.map((mask) => Math.sqrt(mask.length));
  for (const i of order) {
    const kind = kinds[i];
    const large = kind === colours.length - 1 ? 1 : 0;
    const [mask, side] = [masks[large], sides[large]];
    const u = Math.round(left + (x[i] / STEPS) * across - side / 2);
    const v = Math.round(top + (y[i] / STEPS) * down - side / 2);
    if (u < 0 || v < 0 || u + side > width || v + side > height) continue;
    for (let at = 0, row = 0; row < side; row++) {
      for (let place = (v + row) * width + u, end = place + side; place < end; place++, at++) {
        const alpha = mask[at] * alphas[kind];
        if (alpha > pixels[place] >>> 24 || mask[at] === 1) pixels[place] = (alpha << 24) | inks[kind];
      }
    }
  }
  pen.putImageData(image, 0, 0);
}
