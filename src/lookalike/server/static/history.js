// The history of changes to labels, classes, duplicates and pictures. Most can be undone.
import { get, thumbnail } from "./api.js";
import { anchor, button, h } from "./dom.js";
import { many, moment } from "./format.js";
import { whileDisabled } from "./notify.js";
import { amend, link } from "./router.js";
import { redo, undo } from "./undo.js";
import { empty, lead } from "./view_parts.js";

const SHOWN = 50; // actions per page

export async function show({ query }, signal) {
  const offset = Math.max(0, Number.parseInt(query.get("from"), 10) || 0);
  const { actions, total } = await get("/actions", { offset, limit: SHOWN }, signal);
  const page = (words, from) => anchor(null, words, amend({ from: from || null }));
  return h(
    "div",
    { class: "view narrow" },
    lead("History", total ? `${many(total, "change")} to labels, classes, duplicates and pictures, newest first.` : null),
    actions.length
      ? h("ol", { class: "history", role: "list" }, actions.map(row))
      : empty(total ? "There are no older changes." : "No changes yet."),
    h(
      "nav",
      { class: "actions", "aria-label": "Pages" },
      offset > 0 && page("Newer", Math.max(0, offset - SHOWN)),
      offset + actions.length < total && page("Older", offset + SHOWN),
    ),
  );
}

function row({ id, text, author, at, undoes, can_undo: canUndo, reason, items }) {
  const words = undoes ? "Redo" : "Undo";
  const send = () => (undoes ? redo({ action: undoes }, id) : undo({ action: id }));
  const act = ({ currentTarget }) => whileDisabled(currentTarget, send);
  return h(
    "li",
    {},
    h(
      "div",
      {},
      h("p", {}, text),
      h("p", { class: "quiet" }, `${id} · ${author}, ${moment(at)}`),
      canUndo ? null : h("p", { class: "quiet" }, reason),
    ),
    h(
      "div",
      { class: "examples" },
      items.map((item) =>
        h("a", { href: link("item", item), "aria-hidden": "true", tabindex: "-1" }, h("img", { src: thumbnail(item, 64), alt: "", width: 44, height: 44, loading: "lazy" })),
      ),
    ),
    canUndo && button("undo", words, act, { "aria-label": `${words} ${id}: ${text}` }),
  );
}
