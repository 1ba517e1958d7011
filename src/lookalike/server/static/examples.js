// Examples as the address writes them: an id, or `up~` and an upload, with `@left,top,right,bottom` for a part.

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

/** Both lists of a query: what is wanted and what is not. */
export const both = (query) => ({
  wanted: query.getAll("with").map(parse),
  unwanted: query.getAll("without").map(parse),
});
