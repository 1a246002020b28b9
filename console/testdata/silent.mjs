// Follows a stream that goes silent, with the page's own script and a clock of the test's. Argument: the script. Prints a JSON
// list: the cursors of the requests, then the events that arrived.
import { readFileSync } from "node:fs";
import { mock } from "node:test";

const { follow } = await import("data:text/javascript," + encodeURIComponent(readFileSync(process.argv[2], "utf8")));
mock.timers.enable({ apis: ["setTimeout"] });
const settled = () => new Promise((done) => setImmediate(done));
const events = [], cursors = [], end = new AbortController();
const open = async (cursor, signal) => {
  cursors.push(cursor);
  const n = cursors.length;
  return new Response(new ReadableStream({
    start(c) {
      signal.addEventListener("abort", () => c.error(signal.reason));
      c.enqueue(new TextEncoder().encode(`id: ${n}\ndata: {"n":${n}}\n\n`)); // and nothing more
    },
  }));
};
const followed = follow({ open, cursor: "0", signal: end.signal, on: ({ n }) => events.push(n), state: () => {} });
for (let i = 0; i < 100 && events.length < 2; i++) {
  for (let k = 0; k < 5; k++) await settled();
  mock.timers.tick(1000);
}
end.abort();
mock.timers.tick(10_000);
await followed;
console.log(JSON.stringify([...cursors.slice(0, 2), ...events.slice(0, 2)]));
