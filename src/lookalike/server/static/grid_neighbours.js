// Remembers the grid shown last, so that single pictures can link to the previous and the next one.

let grid = null;

export function rememberGrid(shown) {
  grid = shown;
}

/** The item `step` places after this one in that grid; null if unknown. */
export function neighbour(id, step) {
  const next = grid?.item(grid.indexOf(id) + step);
  return next ? (next.item ?? next) : null;
}

/** The arguments of the viewer for a picture: that grid and its index, or the picture alone. */
export function listWith(id) {
  const index = grid?.indexOf(id);
  return index === undefined ? [{ total: 1, id: () => id }, 0] : [grid.list, index];
}
