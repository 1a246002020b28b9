import { McpServer, inputRequired, acceptedContent, fromJsonSchema } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { appendFileSync } from 'node:fs';

// A server with the official SDK for TypeScript: an echo, its process id, and a tool that asks for a name.
const note = (file, line) => appendFileSync(`${process.argv[2]}/${file}`, line + '\n');
const said = text => ({ content: [{ type: 'text', text }] });
const object = properties => fromJsonSchema({ type: 'object', properties, required: Object.keys(properties) });
serveStdio(() => {
	const server = new McpServer({ name: 'shop', version: '1' });
	server.registerTool('echo', { description: 'Says it again.', inputSchema: object({ text: { type: 'string' } }) }, async ({ text }) => said(`you said ${text}`));
	server.registerTool('pid', { inputSchema: object({}) }, async () => said(String(process.pid)));
	server.registerTool('greet', { inputSchema: object({}) }, async (_, ctx) => {
		const answer = acceptedContent(ctx.mcpReq.inputResponses, 'who');
		if (!answer) {
			note('asked', 'once');
			return inputRequired({
				inputRequests: { who: inputRequired.elicit({ message: 'Who is it?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] } }) },
				requestState: 'at the door',
			});
		}
		note('greeted', answer.name);
		return said(`hello ${answer.name}, ${ctx.mcpReq.requestState()}`);
	});
	return server;
});
