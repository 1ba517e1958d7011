// The full-screen viewer: one picture with zoom, its details, and the next and previous one of a list.
import { get, image, SCREEN } from "./api.js";
import { button, h } from "./dom.js";
import { facts } from "./facts.js";
import { count, title } from "./format.js";
import { attempt, say } from "./notify.js";
import { link } from "./router.js";
import { pane, Zoom } from "./zoom.js";

let detailed = false; // whether the details are shown

/**
 * Show a picture in full screen. Closing returns the focus to where it was.
 * @param list {total, id: (index) → id, or a promise of it}
 */
export function openViewer(list, index) {
  const done = new AbortController();
  const heading = h("h2", { id: "viewer-title", tabindex: "-1" });
  const place = h("p", { class: "quiet" });
  const open = h("a", { class: "button" }, "Open");
  const panel = h("aside", { "aria-label": "Details" });
  const info = button("info", "Details", () => detail(!detailed), { quiet: true });
  const back = button("back", "Previous picture", () => show(index - 1), { quiet: true, class: "turn back" });
  const next = button("next", "Next picture", () => show(index + 1), { quiet: true, class: "turn next" });
  const shown = h("div", {});
  const stage = h("div", { class: "seen" }, shown, back, next);
  const zoom = new Zoom(stage, (by) => show(index + by));
  const close = button("no", "Close", () => box.close(), { quiet: true });
  const tools = h("div", { class: "actions" }, zoom.tools, info, open, close);
  const header = h("header", {}, h("div", {}, heading, place), tools);
  const box = h("dialog", { class: "viewer", "aria-labelledby": "viewer-title", onkeydown: press }, header, stage, panel);

  function detail(on) {
    detailed = on;
    panel.hidden = !on;
    info.setAttribute("aria-pressed", on);
  }

  async function show(to) {
    if (to < 0 || to >= list.total) return;
    index = to;
    const item = await attempt(async () => get(`/items/${await list.id(to)}`, {}, done.signal));
    if (!item || index !== to) return; // the user has continued
    shown.replaceChildren(pane(item));
    zoom.to(1);
    heading.textContent = title(item);
    place.textContent = list.total > 1 ? `${count(to + 1)} of ${count(list.total)}` : "";
    open.href = link("item", item.id, { box: null });
    panel.replaceChildren(facts(item));
    back.disabled = !to;
    next.disabled = to === list.total - 1;
    if (document.activeElement.disabled) heading.focus();
    say(`${title(item)} ${place.textContent}`);
    for (const near of [to + 1, to - 1]) {
      const id = near >= 0 && near < list.total && (await list.id(near));
      if (id && index === to) new Image().src = image(id, SCREEN); // so that it is there at once
    }
  }

  function press(event) {
    const to = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: list.total - 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (!Object.hasOwn(zoom.keys, event.key) || zoom.keys[event.key]() === false) {
      if (to !== undefined) show(to);
      else if (event.key === "i") detail(!detailed);
      else return;
    }
    event.preventDefault();
  }

  box.addEventListener("close", () => {
    done.abort();
    box.remove();
  });
  addEventListener("hashchange", () => box.close(), done);
  detail(detailed);
  document.body.append(box);
  box.showModal();
  heading.focus();
  return show(index);
}
