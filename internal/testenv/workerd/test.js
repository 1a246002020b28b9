// The worker of tests: the worker of Cairn, with a directory that tests can make fail, a server at a given address in place
// of a container, and workflows with short pauses and few requests.

import main, { DirectoryObject as Directory, RunWorkflow as Workflow, ServerObject as Server } from "./index.js";

export { TreeObject } from "./index.js";

let broken = false;

export class DirectoryObject extends Directory {
	deliver(items) {
		if (broken) {
			throw new Error("the directory is away");
		}
		return super.deliver(items);
	}
}

export class RunWorkflow extends Workflow {
	second = 10; // milliseconds
	most = 4;

	// run also replays what it did, as happens to an instance that was unloaded, and reports to the server if the replay
	// differs.
	async run(event, step) {
		const kept = new Map();
		const keep = (name, value) => kept.set(name, value) && value;
		const result = await super.run(event, {
			do: async (name, config, call) => keep(name, await step.do(name, config, call)),
			sleep: async (name, duration) => keep(name, await step.sleep(name, duration)),
		});
		const names = [];
		const again = async (name) => names.push(name) && kept.get(name);
		const replayed = await super.run(event, { do: again, sleep: again }).catch(String);
		const [was, is] = [[...kept.keys(), result], [...names, replayed]].map((list) => JSON.stringify(list));
		if (was !== is) {
			await fetch("http://server/test/replay", { method: "POST", body: `${was} is replayed as ${is}` });
		}
		return result;
	}
}

export class ServerObject extends Server {
	pause = 20; // milliseconds

	fetch(request) {
		this.patience = Number(request.headers.get("patience")) || 60_000; // of a machine that is busy
		return super.fetch(request);
	}

	reach(request) {
		return fetch(request);
	}
}

export default {
	fetch(request, env) {
		const { pathname } = new URL(request.url);
		if (pathname.startsWith("/test/")) {
			broken = pathname === "/test/break";
			return new Response();
		}
		return main.fetch(request, env);
	},
};
