// Completes a turn with an approval over a client that is generated from the server's OpenAPI document, and prints what it
// saw. Arguments: the server's address and a token.
import { createClient } from "@hey-api/openapi-ts";
import { build } from "esbuild";
import { mkdtemp, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [url, token] = process.argv.slice(2);
const dir = await mkdtemp(join(dirname(fileURLToPath(import.meta.url)), "client-"));
await createClient({ input: `${url}/openapi.json`, output: dir, logs: { level: "silent" } });
await writeFile(join(dir, "entry.ts"), `export * from "./sdk.gen"; export { client } from "./client.gen";`);
const bundle = join(dir, "client.mjs");
await build({ entryPoints: [join(dir, "entry.ts")], outfile: bundle, bundle: true, format: "esm", logLevel: "error" });
const api = await import(bundle);
api.client.setConfig({ baseUrl: url, auth: token, throwOnError: true });

// events reads the events of a run to its end.
const events = async (run_id) => {
  const { stream } = await api.getSse({ query: { session_id: "s", run_id } });
  const seen = [];
  for await (const event of stream) seen.push(event);
  return seen;
};

const begun = await api.postStart({ body: { session_id: "s", agent: "bot", input: { text: "pay" } } });
const first = await events(begun.data.run_id);
const { data: status } = await api.getStatus({ query: { session_id: "s" } });
const call = status.calls[0];
const receipt = await api.postSubmitToolResult({
  body: { session_id: "s", type: "approval-response", call_id: call.id, approval_id: call.approval_id, approved: true },
});
const resumed = await api.postResume({ body: { session_id: "s" } });
const second = await events(resumed.data.run_id);
const { data: messages } = await api.getSessionsByIdMessages({ path: { id: "s" } });
const missing = await api.getSessionsById({ path: { id: "t" }, throwOnError: false });
console.log(JSON.stringify({
  suspended: first.at(-1).status,
  session: status.session.status,
  outcome: receipt.data.outcome,
  ended: second.at(-1).status,
  reply: messages.items.at(-1).parts[0].text,
  missing: [missing.response.status, missing.error.code],
}));
process.exit(0);
