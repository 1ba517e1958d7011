// Helpers to create elements, and the icons. Strings are inserted as text, never parsed as HTML.

/** h("a", {href, class, onclick, dataset}, ...children): children that are null, false or undefined are left out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const PATHS = {
  pictures: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9h.01",
  session: "M20 12a8 8 0 1 1-3-6.200M20 4v4h-4M9 12l2.200 2.200L15.500 10",
  classes: "M3 12.500V4h8.500L21 13.500 13.500 21zM7.500 8.500h.01",
  duplicates: "M8 8h12v12H8zM4 16V4h12",
  map: "M5 19h.01M9 8h.01M12 13h.01M17 6h.01M18 16h.01M7 14h.01M14 18h.01M4 4h.01",
  jobs: "M12 3v4M12 17v4M3 12h4M17 12h4M5.600 5.600l2.900 2.900M15.500 15.500l2.900 2.900M5.600 18.400l2.900-2.900M15.500 8.500l2.900-2.900",
  yes: "M5 12.500l4.500 4.500L19 7.500",
  no: "M6 6l12 12M18 6L6 18",
  skip: "M5 6l7 6-7 6zM17 6v12",
  undo: "M9 6L4 11l5 5M4 11h10a5 5 0 0 1 0 10h-3",
  refresh: "M20 12a8 8 0 1 1-3-6.200M20 4v4h-4",
  history: "M4 12a8 8 0 1 1 2.500 5.800M4 19v-4h4M12 8v4.500l3 2",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  search: "M10.500 4a6.500 6.500 0 1 1 0 13 6.500 6.500 0 0 1 0-13zM15.500 15.500L21 21",
  filter: "M4 5h16l-6 7.500V19l-4-2v-4.500z",
  box: "M4 8V4h4M16 4h4v4M20 16v4h-4M8 20H4v-4",
  full: "M14 4h6v6M20 4l-7 7M10 20H4v-6M4 20l7-7",
  lasso: "M12 4c5 0 9 2.200 9 5s-4 5-9 5-9-2.200-9-5 4-5 9-5M6.500 13.200c-2.500 2-1 4.800 1.500 4.800s2 3-1 3",
  why: "M9.200 9a3 3 0 1 1 4.300 2.700c-1 .5-1.500 1.200-1.500 2.300M12 18h.01",
  info: "M12 4a8 8 0 1 1 0 16 8 8 0 0 1 0-16zM12 11v5M12 8h.01",
  next: "M5 12h14M13 6l6 6-6 6",
  back: "M19 12H5M11 6l-6 6 6 6",
  light:
    "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600L19 19M5 19l1.400-1.400M17.600 6.400L19 5",
  dark: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z",
  out: "M12 4v11M7 10l5 5 5-5M4 20h16",
  up: "M6 15l6-6 6 6",
  split: "M4 4h16v16H4zM14 4v16M14 12h6",
  save: "M6 4h12v16l-6-4.500L6 20z",
  upload: "M12 16V5M7 10l5-5 5 5M4 20h16",
};

/** An icon scaled to the text size. It is hidden from screen readers, so it needs text next to it. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button with an icon and text; with `quiet`, only screen readers and the tooltip show the text. */
export function button(name, words, onclick, props = {}) {
  const { quiet, ...others } = props;
  const text = h("span", { class: quiet ? "unseen" : null }, words);
  return h("button", { type: "button", title: quiet ? words : null, onclick, ...others }, name && icon(name), text);
}

/** A labelled choice among [value, text, tooltip]; `onchoose` is called with the chosen value. */
export function choice(words, options, chosen, onchoose) {
  const option = ([value, text, title]) => h("option", { value, selected: value === chosen, title }, text);
  const props = { "aria-label": words ? null : options[0][1], onchange: (event) => onchoose(event.target.value) };
  return h("label", { class: "choice" }, words && h("span", {}, words), h("select", props, options.map(option)));
}

/** A link that looks like a button. */
export function anchor(name, words, href, props = {}) {
  return h("a", { href, class: "button", ...props }, name && icon(name), h("span", {}, words));
}
