// Search with a picture that is dropped anywhere on the page, pasted, or picked. It is uploaded, but not added.
import { keptFilters } from "./filters.js";
import { send } from "./api.js";
import { button, h } from "./dom.js";
import { format } from "./examples.js";
import { attempt, note } from "./notify.js";
import { go, link, read } from "./router.js";
import { waiting } from "./view_parts.js";

const MOST = 8; // pictures per search
const LONG_SIDE = 2000; // pixels to which pictures above the upload limit are reduced

let limits = { upload_bytes: Infinity };

export function setLimits(given) {
  limits = given ?? limits;
}

/** Search with these files. */
export async function searchWith(files) {
  const pictures = [...files].filter((file) => file.type.startsWith("image/") || !file.type).slice(0, MOST);
  if (!pictures.length)
    return note("That file is not a picture. Drop or paste a picture file (JPEG, PNG, WebP, …).", { problem: true });
  const cover = h(
    "div",
    { class: "cover" },
    waiting(pictures.length > 1 ? "Uploading your pictures…" : "Uploading your picture…"),
  );
  const late = setTimeout(() => document.body.append(cover), 400);
  await attempt(async () => {
    const sent = [];
    for (const file of pictures) sent.push(await send("/uploads", "file", [await fit(file)]));
    const examples = sent.map(({ upload, item }) => format(item ? { id: item } : { upload }));
    const { view, query } = read();
    const kept = (name) => (view === "search" ? query.getAll(name) : []);
    go(link("search", "", { ...keptFilters(), with: [...new Set([...kept("with"), ...examples])], words: kept("words") }));
  });
  clearTimeout(late);
  cover.remove();
}

/** The file, reduced in size by the browser if it exceeds the upload limit. */
async function fit(file) {
  if (file.size <= limits.upload_bytes) return file;
  const image = await createImageBitmap(file);
  const scale = Math.min(1, LONG_SIDE / Math.max(image.width, image.height));
  const canvas = new OffscreenCanvas(Math.round(image.width * scale), Math.round(image.height * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new File([await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 })], "smaller.jpg", {
    type: "image/jpeg",
  });
}

/** A button that opens the file picker. */
export function picker(words, onfiles, { drawing = "upload", ...props } = {}) {
  const input = h("input", {
    type: "file",
    accept: "image/*",
    multiple: true,
    class: "unseen",
    tabindex: "-1",
    "aria-hidden": "true",
  });
  input.addEventListener("change", () => {
    const files = [...input.files];
    input.value = ""; // allow the same file to be picked again
    if (files.length) onfiles(files);
  });
  return h(
    "span",
    { class: "picker" },
    input,
    button(drawing, words, () => input.click(), props),
  );
}

/** Accept dropped and pasted pictures anywhere on the page. */
export function listen() {
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const shade = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragenter", (event) => carries(event) && shade((depth += 1) > 0));
  addEventListener("dragleave", (event) => carries(event) && shade((depth -= 1) > 0));
  addEventListener("dragover", (event) => carries(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    shade(false);
    searchWith(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) searchWith(files);
  });
}
