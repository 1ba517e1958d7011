// The dialog that explains a picture of a session: its margin, the most similar marked pictures, the matching part.
import { get, thumbnail } from "./api.js";
import { anchor, h } from "./dom.js";
import { title } from "./format.js";
import { dialog } from "./notify.js";
import { link } from "./router.js";
import { frame } from "./tile.js";
import { waiting } from "./view_parts.js";

/** The margin in words. It is positive on the relevant side; 1 is the margin of the examples. */
function explanation(margin) {
  if (margin === null || margin === undefined) return "There are too few answers to tell.";
  if (margin >= 1) return "I'm confident that this is what you are looking for.";
  if (margin > 0.25) return "This is probably what you are looking for.";
  if (margin > -0.25) return "I'm unsure about this one, so your answer helps most.";
  return "This is probably not what you are looking for.";
}

export async function why(session, item, signal) {
  const content = h("div", { class: "why" }, waiting());
  dialog("Why is this picture here?", content);
  try {
    const {
      margin,
      nearest_relevant: yes,
      nearest_irrelevant: no,
      box,
    } = await get(`/sessions/${session}/why/${item.id}`, {}, signal);
    const strip = (heading, list) =>
      list?.length
        ? h(
            "section",
            {},
            h("h3", {}, heading),
            h(
              "div",
              { class: "thumbs" },
              list
                .filter(({ item: near }) => near)
                .slice(0, 4)
                .map(({ item: near }) =>
                  h("a", { href: link("item", near.id) }, h("img", { src: thumbnail(near.id, 128), alt: title(near) })),
                ),
            ),
          )
        : null;
    const part = box && box.some((share, i) => share !== [0, 0, 1, 1][i]); // no frame around the whole picture
    const large = h(
      "div",
      { class: "pic whole" },
      h("img", { class: "there", src: thumbnail(item.id, 512), alt: title(item) }),
      part && frame(box, item),
    );
    const reasons = h(
      "div",
      { class: "reasons" },
      h("p", {}, explanation(margin)),
      part && h("p", { class: "quiet" }, "The frame shows the part that matches best."),
      strip("Most similar pictures you marked yes", yes),
      strip("Most similar pictures you marked no", no),
    );
    content.replaceChildren(
      large,
      reasons,
      h("p", { class: "actions" }, anchor("pictures", "Open the picture", link("item", item.id))),
    );
  } catch (problem) {
    content.replaceChildren(h("p", {}, problem.message));
  }
}
