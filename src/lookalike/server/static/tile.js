// Tiles of grids and lists. Their size is fixed, so that the layout does not shift when pictures load.
import { thumbnail } from "./api.js";
import { button, h, icon } from "./dom.js";
import { title } from "./format.js";
import { drawMark, put } from "./tray.js";

export const MARKS = { yes: "Yes", no: "No", skip: "Skipped" };

/** The image; its alt text is empty because the element around it has a label. */
export function picture(item, side = 256) {
  const img = h("img", {
    src: thumbnail(item.id, side),
    alt: "",
    decoding: "async",
    loading: "lazy",
    draggable: "false",
  });
  img.addEventListener("load", () => img.classList.add("there"));
  img.addEventListener("error", () => img.replaceWith(h("span", { class: "lost" }, "unreadable")));
  return img;
}

/** The button of a picture in a grid that shows it on the full screen, as the key f does. */
export const lookButton = (act) =>
  button("full", "Full screen", act, { quiet: true, class: "look", tabindex: "-1", "aria-hidden": "true" });

const SHAPE = 4 / 3; // aspect ratio of a tile

/** Show the whole picture of a tile with a frame around a part of it; without a box, the tile has no frame. */
export function drawFrame(tile, item, box) {
  const pic = tile.querySelector(".pic");
  pic.querySelector(".found-here")?.remove();
  pic.classList.toggle("whole", Boolean(box));
  if (box) pic.firstElementChild.after(frame(box, item));
}

/** A frame around a part of a picture, for a tile that shows the whole picture, centred. */
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

/** A tile that is a link. On hover, it shows the name of the picture and `words` below it. */
export function linkTile(item, href, { words = "", side = 256 } = {}) {
  const caption = h("span", { class: "caption" }, h("b", {}, title(item)), words && h("i", {}, words));
  const name = words ? `${title(item)}, ${words}` : title(item);
  return h(
    "a",
    { href, class: "pic", tabindex: "-1", dataset: { focus: "", id: item.id }, "aria-label": name },
    picture(item, side),
    caption,
  );
}

/** A link tile that shows whether the picture is in the tray, and on hover buttons that add it, as + and - do. */
export function exampleTile(item, href, props) {
  const add = (drawing, words, side) =>
    button(drawing, `${words}: ${title(item)}`, () => put({ id: item.id }, side), { quiet: true, tabindex: "-1" });
  const tile = h(
    "div",
    { class: "tile", dataset: { example: item.id } },
    linkTile(item, href, props),
    h(
      "div",
      { class: "adds", "aria-hidden": "true" },
      add("plus", "Add as positive example", "with"),
      add("minus", "Add as negative example", "without"),
    ),
  );
  drawMark(tile);
  return tile;
}

/** A badge that shows a mark by shape, word and colour. */
export const badge = (mark) => (mark ? h("span", { class: `badge ${mark}` }, icon(mark), MARKS[mark]) : null);

/** The screen reader label of a tile that can be marked. */
export const spoken = (item, mark) => `${title(item)}, ${mark ? `marked ${MARKS[mark].toLowerCase()}` : "not marked"}`;
