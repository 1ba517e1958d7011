// One picture of a grid or list, in a place of fixed size: the layout does not move when the picture loads.
import { thumbnail } from "./api.js";
import { button, h, icon } from "./dom.js";
import { title } from "./format.js";
import { put } from "./tray.js";

export const MARKS = { yes: "Yes", no: "No", skip: "Skipped" };

/** The picture itself; without words, as what is around it names it. */
export function picture(item, side = 256) {
  const img = h("img", {
    src: thumbnail(item.id, side),
    alt: "",
    decoding: "async",
    loading: "lazy",
    draggable: "false",
  });
  img.addEventListener("load", () => img.classList.add("there"));
  img.addEventListener("error", () => img.replaceWith(h("span", { class: "lost" }, "not readable")));
  return img;
}

const SHAPE = 4 / 3; // of a tile

/** A frame around a part, on a tile that shows the whole picture in its middle. */
export function frame(box, { width, height }) {
  const across = Math.min(1, width / height / SHAPE);
  const down = Math.min(1, SHAPE / (width / height));
  const [left, top, right, bottom] = box;
  const mark = h("span", { class: "found-here" });
  mark.style.left = `${((1 - across) / 2 + left * across) * 100}%`;
  mark.style.top = `${((1 - down) / 2 + top * down) * 100}%`;
  mark.style.width = `${(right - left) * across * 100}%`;
  mark.style.height = `${(bottom - top) * down * 100}%`;
  return mark;
}

/** A tile that leads somewhere. `words` stand under the name when it is pointed at. */
export function linkTile(item, href, { words = "", box = null, side = 256 } = {}) {
  const caption = h("span", { class: "caption" }, h("b", {}, title(item)), words && h("i", {}, words));
  const name = words ? `${title(item)}, ${words}` : title(item);
  return h(
    "a",
    { href, class: box ? "pic whole" : "pic", tabindex: "-1", dataset: { focus: "", id: item.id }, "aria-label": name },
    picture(item, side),
    box && frame(box, item),
    caption,
  );
}

/** The same with + and − for the tray, which show when it is pointed at; keys do the same. */
export function exampleTile(item, href, props) {
  const add = (drawing, words, side) =>
    button(drawing, `${words}: ${title(item)}`, () => put({ id: item.id }, side), { quiet: true, tabindex: "-1" });
  return h(
    "div",
    { class: "tile" },
    linkTile(item, href, props),
    h(
      "div",
      { class: "adds", "aria-hidden": "true" },
      add("plus", "Wanted", "with"),
      add("minus", "Not wanted", "without"),
    ),
  );
}

/** A badge that says a mark by shape and word besides colour. */
export const badge = (mark) => (mark ? h("span", { class: `badge ${mark}` }, icon(mark), MARKS[mark]) : null);

/** What a screen reader says of a tile that can be marked. */
export const spoken = (item, mark) => `${title(item)}, ${mark ? `marked ${MARKS[mark].toLowerCase()}` : "not judged"}`;
