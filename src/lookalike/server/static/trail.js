// The grid a person came from, so that a large picture knows the one before and the one after.

let grid = null;

export function keep(shown) {
  grid = shown;
}

/** The item `step` places after this one in that grid, where it is known. */
export function beside(id, step) {
  if (!grid) return null;
  for (const [page, items] of grid.pages) {
    const at = Array.isArray(items) ? items.findIndex((one) => (one.item ?? one).id === id) : -1;
    if (at < 0) continue;
    const next = grid.item(grid.place(page, at) + step);
    return next ? (next.item ?? next) : null;
  }
  return null;
}
