// Examples in the address: pictures in `with` and `without`, words in `words` and `without_words`.
// A picture is an item id, or `up~` and an upload id, followed by `@left,top,right,bottom` for a part.

/** "3f9a…@0.1,0.2,0.5,0.6" → {id, box}. */
function parse(text) {
  const [name, part] = text.split("@");
  const example = name.startsWith("up~") ? { upload: name.slice(3) } : { id: name };
  if (part) example.box = part.split(",").map(Number);
  return example;
}

export function format({ id, upload, box }) {
  return (upload ? `up~${upload}` : id) + (box ? `@${box.map((share) => +share.toFixed(3)).join(",")}` : "");
}

/** The positive and negative pictures and words of a query. */
export const examplesIn = (query) => ({
  positive: query.getAll("with").map(parse),
  negative: query.getAll("without").map(parse),
  words: query.getAll("words"),
  withoutWords: query.getAll("without_words"),
});

/** The words of the search box, for the address: "dog not red car -cat" → words "dog", without_words "red car", "cat". */
export function parseWords(text) {
  const [words, ...without] = text.split(/(?:^|\s)(?:not\s|-(?=\S))/i).map((part) => part.trim());
  return { words, without_words: without.filter(Boolean) };
}

/** Words as text for the search box; the inverse of parseWords. */
export const formatWords = ({ words, withoutWords }) =>
  [words.join(", "), ...withoutWords.map((one) => `not ${one}`)].filter(Boolean).join(" ");
