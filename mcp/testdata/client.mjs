import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

// A client with the official SDK for TypeScript, which approves and answers what it is asked, and prints what the agent says.
// The server is at an address, or is a program that it starts, which then writes down what it does in a directory in place of a user.
const [address, user, message, mode] = process.argv.slice(2);
const client = new Client({ name: 'visitor', version: '1' }, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } });
client.setRequestHandler('elicitation/create', async ({ params }) =>
	params.requestedSchema.properties.approve ? { action: 'accept', content: { approve: true } } : { action: 'accept', content: { answer: 7 } });
await client.connect(address.startsWith('http:')
	? new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers: { Authorization: `Bearer ${user}` } } })
	: new StdioClientTransport({ command: address, env: { ...process.env, MCP_TEST: 'clerk', MCP_TEST_DIR: user } }));
const { tools } = await client.listTools();
const result = await client.callTool({ name: tools[0].name, arguments: { message } });
console.log(JSON.stringify({ tools: tools.map(t => t.name), isError: !!result.isError, text: result.structuredContent?.text ?? result.content[0].text }));
await client.close();
