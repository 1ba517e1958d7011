// The points of a map, read from the columns that the server sends; docs/jobs.md describes the format.
import { address, Problem } from "./api.js";

const PREDICTED = 32768;

/** {n, space, classes, x, y, code, id(i), label(i), predicted(i)}: positions from 0 to 1; code 0 means no class. */
export async function readMap(space, signal) {
  const response = await fetch(address("/map/points", { space }), { signal });
  if (!response.ok) throw new Problem("broken", "Cannot read the map. Reload the page.", response.status);
  const data = await response.arrayBuffer();
  const length = new Uint32Array(data, 0, 1)[0];
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  const { n, classes } = head;
  let start = 4 + length;
  const column = (Kind, size) => new Kind(data, (start += size) - size, size / Kind.BYTES_PER_ELEMENT);
  const ids = column(BigInt64Array, 8 * n);
  const [x, y] = [0, 0].map(() => Float32Array.from(column(Uint16Array, 2 * n), (value) => value / 65535));
  const code = column(Uint16Array, 2 * n);
  const texts = [];
  return {
    ...head,
    x,
    y,
    code: code.map((value) => value % PREDICTED),
    id: (i) => (texts[i] ??= ids[i].toString(16).padStart(16, "0")),
    label: (i) => classes[(code[i] % PREDICTED) - 1] ?? null,
    predicted: (i) => code[i] >= PREDICTED,
  };
}
