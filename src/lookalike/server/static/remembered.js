// Choices that the browser remembers, if it allows storage.

/** The stored text; null if there is none. */
export function recall(name) {
  try {
    return localStorage.getItem(`lookalike.${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`lookalike.${name}`, value);
  } catch {
    // no storage: the choice applies to this view
  }
}
