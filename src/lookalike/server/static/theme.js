// Light or dark, before the first paint: what was chosen here before, or what the system says.
// A plain script, not a module: a module would run after the page was drawn once in the wrong colours.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("lookalike.theme");
  } catch {
    // no storage: the system decides
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
