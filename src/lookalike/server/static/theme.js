// Light or dark, before the first paint: what was chosen here before, or what the system says, as long as it says so.
// A plain script, not a module: a module would run after the page was drawn once in the wrong colours.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("lookalike.theme");
    } catch {
      // no storage: the system decides
    }
    const known = chosen === "light" || chosen === "dark";
    document.documentElement.dataset.theme = known ? chosen : system.matches ? "dark" : "light";
  };
  apply();
  system.addEventListener("change", () => {
    apply();
    dispatchEvent(new Event("colours"));
  });
})();
