// Examples in the address: an item id, or `up~` and an upload id, followed by `@left,top,right,bottom` for a part.

/** "3f9a…@0.1,0.2,0.5,0.6" → {id, box}. */
export function parse(text) {
  const [name, part] = text.split("@");
  const example = name.startsWith("up~") ? { upload: name.slice(3) } : { id: name };
  if (part) example.box = part.split(",").map(Number);
  return example;
}

export function format({ id, upload, box }) {
  return (upload ? `up~${upload}` : id) + (box ? `@${box.map((share) => +share.toFixed(3)).join(",")}` : "");
}

/** The positive and negative examples of a query. */
export const both = (query) => ({
  positive: query.getAll("with").map(parse),
  negative: query.getAll("without").map(parse),
});
