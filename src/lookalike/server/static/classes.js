// All classes at a glance.
import { get, post } from "./api.js";
import { cardThumbnails } from "./card_thumbnails.js";
import { quality, sizes } from "./class_quality.js";
import { collection, forget, may } from "./collection.js";
import { anchor, button, h } from "./dom.js";
import { exporter } from "./filters.js";
import { count, many } from "./format.js";
import { askName } from "./notify.js";
import { go, link } from "./router.js";
import { noteUndo } from "./undo.js";
import { empty, lead } from "./view_parts.js";

export async function show(_route, signal) {
  const [classes] = await Promise.all([get("/classes", {}, signal), collection(signal)]);
  const makeThumbnails = cardThumbnails(signal);
  const card = ({ name, pictures, predicted, parents }) => {
    const thumbnails = makeThumbnails(async () => {
      const { items } = await get("/items", { label: name, limit: 4 }, signal);
      return items.map(({ id }) => id);
    });
    return h(
      "li",
      {},
      h(
        "a",
        { class: "card", href: link("class", name) },
        thumbnails,
        h("b", {}, name),
        h(
          "span",
          { class: "quiet" },
          `${many(pictures, "picture")}${predicted ? ` · ${count(predicted)} to confirm` : ""}`,
        ),
        parents?.length ? h("span", { class: "quiet" }, `a kind of ${parents.join(", ")}`) : null,
      ),
    );
  };
  return h(
    "div",
    { class: "view" },
    lead("Classes", classes.length ? many(classes.length, "class", "classes") : "Named groups of pictures.", {
      tools: h(
        "div",
        { class: "actions" },
        may("judge") && create(),
        classes.some(({ pictures }) => pictures) && button("split", "Split", () => split(signal)),
        classes.length > 0 && exporter("/export"),
      ),
    }),
    classes.length
      ? h("ul", { class: "cards", role: "list" }, classes.map(card))
      : empty(
          "No classes yet. Start a session with a picture, then save the result as a class. Or select pictures and label them.",
          anchor("pictures", "Show all pictures", link("pictures"), { class: "button main" }),
        ),
    classes.length > 1 && sizes(classes),
    classes.length > 1 && (await quality(signal)),
  );
}

async function split(signal) {
  (await import("./split.js")).openSplit(signal);
}

/** The button that creates an empty class. */
function create() {
  const add = async (name) => {
    const made = await post("/classes/add", { name });
    forget();
    const to = link("class", made.name);
    noteUndo(made.action ? `Created the class ${made.name}.` : `The class ${made.name} exists already.`, made.action, { from: link("classes"), to });
    go(to); // closes the dialog
  };
  return button("plus", "New class", () => askName("New class", "Create", add, { label: "Class name" }));
}
