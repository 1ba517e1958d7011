// What is known about a picture: its size, its file, and what the camera wrote into it.
import { h } from "./dom.js";
import { bytes, moment } from "./format.js";

const round = (number) => Number(number.toFixed(1));

/** Focal length, aperture, exposure time and sensitivity: 50 mm, f/5.6, 1/250 s, ISO 200. */
function settings({ exposure_s: time, aperture, iso, focal_length_mm: length }) {
  const exposure = time < 0.4 ? `1/${Math.round(1 / time)} s` : `${round(time ?? 0)} s`;
  const parts = [length && `${round(length)} mm`, aperture && `f/${round(aperture)}`, time && exposure, iso && `ISO ${iso}`];
  return parts.filter(Boolean).join(", ");
}

/** The list of the facts that are known. */
export function facts(item) {
  const exif = item.exif ?? {};
  const rows = [
    ["Size", `${item.width} × ${item.height}`],
    ["File", [item.format, item.bytes ? bytes(item.bytes) : null].filter(Boolean).join(", ")],
    ["Taken", item.taken ? moment(item.taken) : null],
    ["Camera", exif.camera],
    ["Lens", exif.lens],
    ["Settings", settings(exif)],
    ["Place", Number.isFinite(exif.latitude) && `${exif.latitude.toFixed(5)}, ${exif.longitude.toFixed(5)}`],
    [
      item.paths?.length > 1 ? "Paths" : "Path",
      (item.paths?.length ? item.paths : [item.path]).map((path) => h("span", { class: "path" }, path)),
    ],
  ];
  return h(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value?.length)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}
