// A picture that can be marked by a click, by its buttons, or by the keys of its list.
import { button, h, icon } from "./dom.js";
import { MARKS, badge, picture, spoken } from "./tile.js";

/**
 * A tile that shows its mark; with `asked`, it also has buttons for yes and no.
 * @param view  has state.marks, mark(id, kind) and why(item)
 * @returns {element, draw}: draw updates the mark
 */
export function markTile(view, item, asked) {
  const mark = (kind) => view.mark(item.id, kind);
  const turn = () => mark(view.state.marks.get(item.id) === "yes" ? "no" : "yes");
  const pic = h(
    "button",
    {
      type: "button",
      class: "pic",
      tabindex: "-1",
      dataset: { focus: "", id: item.id },
      onclick: turn,
      onkeyup: (event) => event.key === " " && event.preventDefault(),
    },
    picture(item, asked ? 384 : 256),
  );
  const about = button("why", `Why is ${item.name} here?`, () => view.why(item), {
    quiet: true,
    class: "about",
    tabindex: "-1",
  });
  const answers =
    asked &&
    ["yes", "no"].map((kind) =>
      h(
        "button",
        {
          type: "button",
          class: kind,
          tabindex: "-1",
          "aria-label": `${MARKS[kind]}: ${item.name}`,
          onclick: () => mark(kind),
        },
        icon(kind),
        MARKS[kind],
      ),
    );
  const element = h("div", { class: "tile" }, pic, about, asked && h("div", { class: "answers" }, answers));
  const draw = () => {
    const current = view.state.marks.get(item.id) ?? null;
    if (element.dataset.mark === (current ?? "none")) return;
    element.dataset.mark = current ?? "none";
    pic.setAttribute("aria-label", spoken(item, current));
    pic.querySelector(".badge")?.remove();
    if (current) pic.append(badge(current));
    for (const one of answers || []) one.setAttribute("aria-pressed", one.classList.contains(current));
  };
  return { element, draw };
}
