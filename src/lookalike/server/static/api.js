// The one place that talks to the server. Every failure comes out as a Problem with a sentence for people.

const BASE = "/api/v1";
export const GONE =
  "Lookalike does not answer. It may have been stopped: start it again with “lookalike serve”. This page goes on by itself then.";

export class Problem extends Error {
  constructor(kind, message, status = 0, details = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.details = details;
  }
}

/** The address of a resource, with what is null or empty in `query` left out. */
export function address(path, query = {}) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") text.set(name, value);
  return `${BASE}${path}${text.size ? `?${text}` : ""}`;
}

async function call(method, path, { query, body, signal } = {}) {
  const form = body instanceof FormData;
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Lookalike"] = "1";
  if (body !== undefined && !form) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      signal,
      credentials: "same-origin",
      body: form ? body : body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("gone", GONE);
  }
  return read(answer.status, await answer.text(), answer.statusText);
}

function read(status, text, fallback) {
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null; // not JSON: the status says what there is to say
  }
  if (status >= 200 && status < 300) return data;
  const error = data?.error ?? {};
  throw new Problem(error.kind ?? "broken", error.message ?? `The server answered ${status} ${fallback}.`, status, {
    ...data,
    field: error.field,
  });
}

export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body = {}, signal) => call("POST", path, { body, signal });
export const remove = (path) => call("DELETE", path);

/** Send files; `onprogress(share)` because uploads may take long and fetch does not tell. */
export function send(path, field, files, onprogress = () => {}) {
  const body = new FormData();
  for (const file of files) body.append(field, file, file.name || "pasted.png");
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    request.setRequestHeader("X-Lookalike", "1");
    request.upload.onprogress = (event) => event.lengthComputable && onprogress(event.loaded / event.total);
    request.onerror = () => reject(new Problem("gone", "The picture could not be sent: Lookalike does not answer."));
    request.onload = () => {
      try {
        resolve(read(request.status, request.responseText, request.statusText));
      } catch (problem) {
        reject(problem);
      }
    };
    request.send(body);
  });
}

export const thumbnail = (id, side = 256) => address(`/items/${id}/thumbnail`, { side });
export const image = (id) => address(`/items/${id}/image`);

/** The picture of an example: an item, an upload, or a part of an item. */
export function portrait({ id, upload, box }, side = 128) {
  if (upload) return address(`/uploads/${upload}/thumbnail`, { side });
  return box ? address(`/items/${id}/region`, { box: box.join(","), side }) : thumbnail(id, side);
}

/** Whether somebody answers at all. */
export async function alive() {
  try {
    return (await fetch("/healthz")).ok;
  } catch {
    return false;
  }
}
