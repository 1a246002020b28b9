// The stream of a session's events, which is resumed for as long as it is wanted. It imports nothing, so that a test runs it
// without a page.

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

// opening is how long its response may take, in milliseconds.
const opening = 10_000;

// noting calls arrived for each piece.
async function* noting(pieces, arrived) {
  for await (const piece of pieces) {
    arrived();
    yield piece;
  }
}

// place is the sequence of the event that a cursor is behind.
export const place = (cursor) => Number(String(cursor).slice(String(cursor).lastIndexOf(".") + 1));

// follow calls on for each event behind a cursor, over as many connections as it takes, until the signal is aborted. open
// requests the stream behind a cursor and returns the response. follow returns the response with which the server ends it:
// an error, or 204. A connection that is silent for too long is given up: its other end may be gone. state is called with
// "connected", and with "lost" and the time of the next try; the function that it gets with it tries at once.
export async function follow({ open, cursor, signal, on, state }) {
  let trying = null; // aborts the try that has no response yet
  for (let wait = 250; !signal.aborted; ) {
    const dead = (trying = new AbortController());
    let timer = setTimeout(() => dead.abort(), opening);
    const arrived = () => {
      clearTimeout(timer);
      timer = setTimeout(() => dead.abort(), silence);
    };
    try {
      const res = await open(cursor, AbortSignal.any([signal, dead.signal]));
      if (res.status === 204) return res;
      if (!res.ok) {
        if (![429, 502, 503, 504].includes(res.status)) return res;
        throw new Error("busy");
      }
      trying = null;
      arrived();
      state("connected");
      for await (const { id, event } of frames(noting(res.body.pipeThrough(new TextDecoderStream()), arrived))) {
        cursor = id || cursor;
        wait = 250;
        on(event, cursor);
      }
    } catch {
      if (signal.aborted) return null;
    } finally {
      clearTimeout(timer);
    }
    if (signal.aborted) return null;
    const pause = wait * (0.75 + Math.random() / 2); // so that the clients of a server that restarts do not come at once
    await new Promise((done) => {
      const again = setTimeout(done, pause);
      state("lost", Date.now() + pause, () => {
        clearTimeout(again);
        wait = 250;
        trying?.abort();
        done();
      });
    });
    wait = Math.min(wait * 2, 5000);
  }
  return null;
}
