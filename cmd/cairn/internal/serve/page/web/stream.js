// Requests to the server, and the stream of a session's events, which is resumed for as long as it is wanted.

// Problem is an answer that is an error.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || "the server has answered with " + status);
    this.status = status;
    this.code = body.code || "";
  }
}

let token = "";
try { token = sessionStorage.getItem("token") || ""; } catch { /* a page may not be allowed to keep anything */ }

// setToken has all requests carry a token; an empty one forgets it.
export function setToken(text) {
  token = text;
  try { text ? sessionStorage.setItem("token", text) : sessionStorage.removeItem("token"); } catch { /* for this page only, then */ }
}

export const hasToken = () => token !== "";

function request(method, path, body, signal) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store" });
}

// ask makes a request and returns what its answer has.
export async function ask(method, path, body) {
  const res = await request(method, path, body);
  const text = await res.text();
  let value = {};
  try { value = text ? JSON.parse(text) : {}; } catch { value = { detail: text.trim() }; }
  if (!res.ok) throw new Problem(res.status, value);
  return value;
}

// read returns a file of the server's as a "data:" URL.
export async function read(path) {
  const res = await request("GET", path);
  if (!res.ok) throw new Problem(res.status, {});
  const bytes = await res.blob();
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(bytes);
  });
}

// frames yields the events of a stream, which comes in pieces cut anywhere.
export async function* frames(pieces) {
  let rest = "";
  for await (const piece of pieces) {
    const parts = (rest + piece).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      let id = "", data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("id: ")) id = line.slice(4);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) yield { id, event: JSON.parse(data) };
    }
  }
}

// silence is how long a stream may be silent, in milliseconds. The server sends a comment every 15 seconds.
const silence = 45_000;

// noting calls arrived for each piece.
async function* noting(pieces, arrived) {
  for await (const piece of pieces) {
    arrived();
    yield piece;
  }
}

// follow calls on for each event behind a cursor, over as many connections as it takes, until the signal is aborted. It returns
// the problem for which the server will not go on. A connection that is silent for too long is given up: its other end may be gone.
export async function follow(session, cursor, signal, on, state) {
  for (let wait = 250; !signal.aborted; ) {
    const dead = new AbortController();
    let timer;
    const arrived = () => {
      clearTimeout(timer);
      timer = setTimeout(() => dead.abort(), silence);
    };
    arrived();
    try {
      const res = await request("GET", "/sse?session_id=" + encodeURIComponent(session) + "&after=" + encodeURIComponent(cursor), undefined, AbortSignal.any([signal, dead.signal]));
      if (!res.ok) {
        const problem = new Problem(res.status, await res.json().catch(() => ({})));
        if (![429, 502, 503, 504].includes(res.status)) return problem;
        throw problem;
      }
      state("connected");
      for await (const { id, event } of frames(noting(res.body.pipeThrough(new TextDecoderStream()), arrived))) {
        cursor = id || cursor;
        wait = 250;
        on(event, cursor);
      }
    } catch (err) {
      if (signal.aborted) return null;
    } finally {
      clearTimeout(timer);
    }
    state("reconnecting");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 5000);
  }
  return null;
}
