import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

// A client with the official SDK for TypeScript, which calls each tool once and prints the results. It validates
// structured content against the schemas in the list.
const client = new Client({ name: 'visitor', version: '1' }, { versionNegotiation: { mode: process.argv[3] } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]), { requestInit: { headers: { Authorization: 'Bearer ada' } } }));
const { tools } = await client.listTools();
const list = [];
for (const { name, outputSchema } of tools)
	list.push(await client.callTool({ name, arguments: { message: 'go' } }).then(
		({ structuredContent, content, isError }) => ({ name, outputSchema, isError, structuredContent, text: content[0].text }),
		error => ({ name, outputSchema, error: String(error) })));
console.log(JSON.stringify(list));
await client.close();
