// Why this one? The nearest pictures that were called yes and no, how far inside it lies, where it matches.
import { get, thumbnail } from "./api.js";
import { anchor, h } from "./dom.js";
import { title } from "./format.js";
import { dialog } from "./notify.js";
import { link } from "./router.js";
import { frame } from "./tile.js";
import { waiting } from "./view_parts.js";

/** In words, from how far a picture lies on the wanted side: 1 and more is as sure as the examples. */
function verdict(margin) {
  if (margin === null || margin === undefined) return "Too little was said to tell.";
  if (margin >= 1) return "As it stands, this is surely what you mean.";
  if (margin > 0.25) return "As it stands, this is probably what you mean.";
  if (margin > -0.25) return "As it stands, this may or may not be what you mean: your answer helps most here.";
  return "As it stands, this is probably not what you mean.";
}

export async function why(session, item, signal) {
  const content = h("div", { class: "why" }, waiting());
  dialog("Why this one?", content);
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
    const part = box && box.some((share, i) => share !== [0, 0, 1, 1][i]); // the whole picture needs no frame
    const large = h(
      "div",
      { class: "pic whole" },
      h("img", { class: "there", src: thumbnail(item.id, 512), alt: title(item) }),
      part && frame(box, item),
    );
    const reasons = h(
      "div",
      { class: "reasons" },
      h("p", {}, verdict(margin)),
      part && h("p", { class: "quiet" }, "The frame shows what speaks for it most."),
      strip("Of your yes, it is most like", yes),
      strip("Of your no, it is most like", no),
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
