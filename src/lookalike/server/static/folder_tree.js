// The folders of the collection as a tree. A level is loaded when its folder is opened.
import { get } from "./api.js";
import { h, icon } from "./dom.js";
import { filter } from "./filters.js";
import { count, many } from "./format.js";
import { amend, go } from "./router.js";

const expanded = new Set(); // the open folders, in all views

/** The tree, with the number of pictures that pass the other filters. A click on a folder filters by it. */
export function folderTree(query, signal) {
  const chosen = query.get("folder");
  for (const { index } of (chosen ?? "").matchAll(/\/|::/g)) expanded.add(chosen.slice(0, index));
  const tree = h("ul", { role: "tree", "aria-label": "Folders" });

  const fill = async (list, parent = null) => {
    const { folders } = await get("/folders", { ...filter(query), parent }, signal).catch(() => ({ folders: [] })); // the facets report errors
    if (!parent && folders.length === 1) expanded.add(folders[0].path);
    list.replaceChildren(...folders.map(node));
    tree.querySelector("li")?.setAttribute("tabindex", 0);
  };
  const node = ({ path, name, n, has_folders: isParent }) => {
    const arrow = h("span", { class: "arrow" }, isParent && icon("up"));
    const click = ({ target }) => (isParent && arrow.contains(target) ? toggle(item) : choose(item));
    const row = h("div", { class: "folder", onclick: click }, arrow, h("span", {}, name), h("i", {}, count(n)));
    const label = `${name}, ${many(n, "picture")}`;
    const props = { role: "treeitem", tabindex: "-1", "aria-label": label, "aria-selected": String(path === chosen) };
    const item = h("li", { ...props, dataset: { path, key: `folder=${path}` } }, row);
    if (isParent) {
      item.append(h("ul", { role: "group" }));
      toggle(item, expanded.has(path));
    }
    return item;
  };
  const toggle = (item, isOpen = item.getAttribute("aria-expanded") !== "true") => {
    const [{ path }, list] = [item.dataset, item.lastChild];
    item.setAttribute("aria-expanded", isOpen);
    list.hidden = !isOpen;
    expanded[isOpen ? "add" : "delete"](path);
    if (isOpen && !list.firstChild) fill(list, path);
  };
  const choose = ({ dataset: { path } }) => go(amend({ folder: path === chosen ? null : path }));
  tree.addEventListener("keydown", (event) => {
    const item = event.target;
    const items = [...tree.querySelectorAll("li")].filter((one) => one.checkVisibility());
    const at = items.indexOf(item);
    const state = item.getAttribute("aria-expanded");
    const action = {
      ArrowDown: () => items[at + 1]?.focus(),
      ArrowUp: () => items[at - 1]?.focus(),
      Home: () => items[0].focus(),
      End: () => items.at(-1).focus(),
      ArrowRight: () => (state === "false" ? toggle(item) : item.querySelector("li")?.focus()),
      ArrowLeft: () => (state === "true" ? toggle(item) : item.parentElement.closest("li")?.focus()),
      Enter: () => choose(item),
      " ": () => choose(item),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  fill(tree);
  return tree;
}
