// The size of the pictures in all grids.
import { h, icon } from "./dom.js";
import { recall, remember } from "./remembered.js";

const [LEAST, USUAL, MOST] = [110, 190, 390];

/** The minimum width of a tile, in pixels. */
export const tileSize = () => Math.min(MOST, Math.max(LEAST, Number(recall("tile-size")) || USUAL));

/** A slider that changes the size of the pictures in a grid. */
export function sizer(grid) {
  const resize = ({ target: { value } }) => {
    remember("tile-size", value);
    grid.resize(Number(value));
  };
  const props = { min: LEAST, max: MOST, step: 40, value: tileSize(), "aria-label": "Scale of the pictures" };
  return h("label", { class: "choice sizer" }, icon("pictures"), h("input", { type: "range", ...props, oninput: resize }));
}
