// The grid that was shown last: the view of one picture finds the previous and the next one in it.

let grid = null;

export function rememberGrid(shown) {
  grid = shown;
}

/** The item `step` places after this one in that grid; null if it is not known. */
export function neighbour(id, step) {
  if (!grid) return null;
  for (const [page, items] of grid.pages) {
    const at = Array.isArray(items) ? items.findIndex((one) => (one.item ?? one).id === id) : -1;
    if (at < 0) continue;
    const next = grid.item(grid.place(page, at) + step);
    return next ? (next.item ?? next) : null;
  }
  return null;
}
