// The switch between the light and the dark theme; theme.js applies the choice before the first paint.
import { h, icon } from "./dom.js";
import { remember } from "./remembered.js";

export const dark = () => document.documentElement.dataset.theme === "dark";

export function themeSwitch() {
  const draw = () => {
    const label = dark() ? "Switch to light theme" : "Switch to dark theme";
    knob.replaceChildren(icon(dark() ? "light" : "dark"), h("span", { class: "unseen" }, label));
    knob.title = label;
  };
  const knob = h("button", { type: "button", class: "plain" });
  knob.addEventListener("click", () => {
    const choice = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = choice;
    remember("theme", choice);
    dispatchEvent(new Event("colours"));
    draw();
  });
  draw();
  return knob;
}
