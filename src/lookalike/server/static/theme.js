// Set the light or dark theme before the first paint: the stored choice, or else the system's setting.
// This is a plain script because a module would run after the first paint, with the wrong colours.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("lookalike.theme");
    } catch {
      // no storage: use the system's setting
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
