// Validates chunks against the schema of the client. Arguments: the major version, and a file with a chunk as JSON on each
// line. Prints what is refused.
import { readFileSync } from "node:fs";
const [major, file] = process.argv.slice(2);
const ai = await import(`ai${major}`);
const schema = ai.asSchema(ai.uiMessageChunkSchema);
for (const line of readFileSync(file, "utf8").split("\n")) {
  if (line === "") continue;
  const verdict = await schema.validate(JSON.parse(line));
  if (!verdict.success) console.log(`${line}: ${verdict.error.message}`);
}
