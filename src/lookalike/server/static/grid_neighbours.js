// Remembers the grid shown last, so that the view of a single picture can link to the previous and the next one.

let grid = null;

export function rememberGrid(shown) {
  grid = shown;
}

/** The item `step` places after this one in that grid; null if unknown. */
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
