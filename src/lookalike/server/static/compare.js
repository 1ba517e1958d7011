// Two to four pictures side by side, with the same zoom; for two, also their difference.
import { get, image, SCREEN } from "./api.js";
import { anchor, button, h } from "./dom.js";
import { bytes, moment, title } from "./format.js";
import { keys } from "./keyboard.js";
import { attempt } from "./notify.js";
import { link } from "./router.js";
import { lead, notice } from "./view_parts.js";
import { pane, Zoom } from "./zoom.js";

/** The address that compares pictures; `relation` gives the place of the second one in the first one. */
export const comparison = (items, relation = null) =>
  link("compare", "", {
    id: items.map(({ id }) => id),
    box: relation?.box?.join(","),
    mirrored: relation?.mirrored ? 1 : null,
  });

/** The box in the address, or null. */
function boxIn(query) {
  const box = query.get("box")?.split(",").map(Number) ?? [];
  return box.length === 4 && box.every((edge) => Math.abs(edge) < 99) && box[0] < box[2] && box[1] < box[3] ? box : null;
}

export async function show({ query }, signal) {
  const ids = [...new Set(query.getAll("id"))].slice(0, 4);
  if (ids.length < 2)
    return notice("Compare", "Select 2 to 4 pictures in a grid, then choose Compare.", anchor(null, "Show all pictures", link("pictures")));
  const items = await Promise.all(ids.map((id) => get(`/items/${id}`, {}, signal)));
  const box = ids.length === 2 ? boxIn(query) : null;
  const isMirrored = query.has("mirrored");
  const side = h(
    "div",
    { class: "panes", dataset: { pictures: ids.length } },
    items.map((item, place) => figure(pane(item, place && box && !isMirrored ? { box, within: items[0] } : {}), ...caption(item))),
  );
  const stage = h("div", {}, side);
  const zoom = new Zoom(stage);
  let difference = null;
  const flip = async () => {
    difference ??= await attempt(() => differ(items, box, isMirrored));
    if (!difference) return;
    stage.replaceChildren(side.isConnected ? difference : side);
    toggle.setAttribute("aria-pressed", !side.isConnected);
    zoom.to(1);
  };
  const toggle = ids.length === 2 && button("duplicates", "Difference", flip, { "aria-pressed": "false", title: "Key: d" });
  keys({ ...zoom.keys, d: () => toggle && toggle.click() }, signal);
  const tools = h("div", { class: "actions" }, zoom.tools, toggle);
  const view = h("div", { class: "view compare" }, lead("Compare", "Zoom or move one picture: the others follow.", { tools }), stage);
  view.addEventListener("shown", () => zoom.to(1));
  return view;
}

const figure = (face, ...words) => h("figure", {}, face, h("figcaption", {}, words));

function caption(item) {
  const parts = [`${item.width} × ${item.height}`, bytes(item.bytes), item.taken && moment(item.taken), item.exif?.camera];
  return [h("a", { href: link("item", item.id) }, title(item)), h("span", { class: "quiet" }, parts.filter(Boolean).join(" · "))];
}

async function load({ id }) {
  const picture = new Image();
  picture.src = image(id, SCREEN);
  await picture.decode();
  return picture;
}

/** The absolute difference of two pictures, where both show something. */
async function differ([first, second], box, isMirrored) {
  const [under, over] = await Promise.all([load(first), load(second)]);
  const { naturalWidth: width, naturalHeight: height } = under;
  const canvas = h("canvas", { width, height, role: "img", "aria-label": "Difference" });
  const [left, top, right, bottom] = (box ?? [0, 0, 1, 1]).map((share, edge) => share * (edge % 2 ? height : width));
  const pen = canvas.getContext("2d");
  pen.rect(left, top, right - left, bottom - top);
  pen.clip();
  pen.drawImage(under, 0, 0);
  pen.globalCompositeOperation = "difference";
  if (isMirrored) pen.setTransform(-1, 0, 0, 1, left + right, 0);
  pen.drawImage(over, left, top, right - left, bottom - top);
  return figure(pane(first, { face: canvas }), "Black: no difference. Differences are amplified four times.");
}
