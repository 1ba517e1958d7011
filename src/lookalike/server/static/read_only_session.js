// A session that cannot be changed, because it is finished or belongs to another user.
import { get } from "./api.js";
import { anchor, h } from "./dom.js";
import { many } from "./format.js";
import { PictureList } from "./picture_list.js";
import { link } from "./router.js";
import { badge, picture, spoken } from "./tile.js";
import { lead } from "./view_parts.js";

/** Show the current ranking of a session, with its marks. */
export async function showReadOnly(state, mine, signal) {
  const { session } = state;
  const { best } = await get(`/sessions/${session.id}/best`, { k: 60 }, signal);
  const row = new PictureList("Best", { signal, kind: "best" });
  row.fill(
    best.map(({ item }) => {
      const mark = state.marks.get(item.id);
      return h(
        "a",
        {
          class: "pic",
          href: link("item", item.id),
          tabindex: "-1",
          dataset: { focus: "", id: item.id },
          "aria-label": spoken(item, mark),
        },
        picture(item),
        badge(mark),
      );
    }),
  );
  const name = session.label ?? session.name;
  const marks = `${many(session.relevant.length, "picture")} marked yes, ${session.irrelevant.length} marked no`;
  const text = session.finished
    ? `Finished after ${many(session.rounds, "round")}: ${marks}.`
    : `This session belongs to ${session.author}. You can view it, but not change it.`;
  const more =
    session.finished && name && mine
      ? anchor("classes", `Show the class ${name}`, link("class", name), { class: "button main" })
      : null;
  return h(
    "div",
    { class: "view" },
    lead(name || "Session", text, { up: "sessions", tools: more }),
    h("h2", {}, "Most likely pictures"),
    row.element,
  );
}
