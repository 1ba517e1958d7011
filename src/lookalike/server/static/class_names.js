// The names of the classes, as suggestions of a text field.
import { get } from "./api.js";
import { h } from "./dom.js";

/** A list of the class names except `excluded`; the attribute `list` of the field is its id. */
export function classNames(id, excluded = null) {
  const list = h("datalist", { id });
  const fill = (classes) =>
    list.append(...classes.filter(({ name }) => name !== excluded).map(({ name }) => h("option", { value: name })));
  get("/classes").then(fill, () => {}); // suggestions only
  return list;
}
