// A session that takes no marks: finished, or somebody else's.
import { get } from "./api.js";
import { anchor, h } from "./dom.js";
import { Lane } from "./lane.js";
import { link } from "./router.js";
import { lead } from "./states.js";
import { badge, picture, spoken } from "./tile.js";
import { many } from "./words.js";

/** What it would rank first now, with what was said. */
export async function past(state, mine, signal) {
  const { session } = state;
  const { best } = await get(`/sessions/${session.id}/best`, { k: 60 }, signal);
  const lane = new Lane("Best", { signal, kind: "best" });
  lane.fill(
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
  const text = session.finished
    ? `Finished after ${many(session.rounds, "round")}: ${many(session.relevant.length, "picture")} yes, ${session.irrelevant.length} no.`
    : `This is a session of ${session.author}: you may look.`;
  const more =
    session.finished && name && mine
      ? anchor("classes", `To the class ${name}`, link("class", name), { class: "button main" })
      : null;
  return h(
    "div",
    { class: "view" },
    lead(name || "Session", text, { up: "sessions", tools: more }),
    h("h2", {}, "The most likely now"),
    lane.element,
  );
}
