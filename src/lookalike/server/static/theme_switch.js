// The switch between the light and the dark theme; theme.js applies the choice before the first paint.
import { h, icon } from "./dom.js";
import { remember } from "./remembered.js";

const dark = () => document.documentElement.dataset.theme === "dark";

/** Switch to the other theme, and remember it. */
export function switchTheme() {
  const choice = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = choice;
  remember("theme", choice);
  dispatchEvent(new Event("colours"));
}

/** The button in the header. */
export const themeSwitch = h("button", { type: "button", class: "plain", onclick: switchTheme });

function draw() {
  const label = dark() ? "Switch to light theme" : "Switch to dark theme";
  themeSwitch.replaceChildren(icon(dark() ? "light" : "dark"), h("span", { class: "unseen" }, label));
  themeSwitch.title = label;
}

addEventListener("colours", draw);
draw();
