// The object of one session tree, or of the memories of one scope. What lists across trees need is written with the rows, into an outbox, and delivered
// to the store's directory: as a rule before the write is answered.

import { ConnectedObject } from "./connected.js";

const retry = 1_000; // milliseconds until an undelivered outbox is tried again

export class TreeObject extends ConnectedObject {
	constructor(ctx, env) {
		super(ctx, env);
		// pending has the items of the outbox that were not delivered, oldest first; delivered the others, which the next write
		// deletes, or else the alarm: so that no answer waits for it. An object that stops delivers them again.
		this.pending = new Map();
		this.delivered = [];
		this.delivery = null;
		if (this.rows.empty) {
			this.store = ctx.getWebSockets()[0]?.deserializeAttachment().store;
		} else {
			this.store = ctx.storage.sql.exec("SELECT store FROM place").one().store;
			for (const { source, version, item } of ctx.storage.sql.exec("SELECT * FROM outbox ORDER BY version")) {
				this.pending.set(source, { version, ...JSON.parse(item) });
			}
		}
	}

	// create also records in which store the object is: an alarm comes without a request.
	create() {
		this.ctx.storage.sql.exec(`
			CREATE TABLE outbox (source TEXT PRIMARY KEY, version INTEGER NOT NULL, item TEXT NOT NULL) WITHOUT ROWID;
			CREATE TABLE place (one INTEGER PRIMARY KEY CHECK (one = 1), store TEXT NOT NULL)`);
		this.ctx.storage.sql.exec("INSERT INTO place VALUES (1, ?)", this.store);
	}

	async write(request, socket) {
		const share = request.share ?? [];
		const answer = this.rows.write(request, (version) => {
			this.forget();
			for (const item of share) {
				this.ctx.storage.sql.exec(
					`INSERT INTO outbox VALUES (?, ?, ?)
					ON CONFLICT (source) DO UPDATE SET version = excluded.version, item = excluded.item`,
					item.source, version, JSON.stringify(item));
			}
		});
		const { version } = answer;
		if (!version) {
			return answer;
		}
		this.delivered = [];
		this.wake(request, socket);
		for (const item of share) {
			this.pending.delete(item.source); // so that it comes last
			this.pending.set(item.source, { version, ...item });
		}
		if (share.length > 0) {
			await this.arm();
			await this.deliver(version);
		}
		return answer;
	}

	// forget deletes what was delivered from the outbox.
	forget() {
		for (const { source, version } of this.delivered) {
			this.ctx.storage.sql.exec("DELETE FROM outbox WHERE source = ? AND version = ?", source, version);
		}
	}

	// arm sets the alarm that delivers the outbox if the object stops before it has done so.
	async arm() {
		if ((await this.ctx.storage.getAlarm()) === null) {
			await this.ctx.storage.setAlarm(Date.now() + retry);
		}
	}

	// deliver delivers the items up to a version, and reports whether it did. One delivery runs at a time.
	async deliver(version) {
		for (;;) {
			const [first] = this.pending.values();
			if (!first || first.version > version) {
				return true;
			}
			this.delivery ??= this.send().finally(() => (this.delivery = null));
			if (!(await this.delivery)) {
				return false;
			}
		}
	}

	async send() {
		const list = [...this.pending.values()].slice(0, 100);
		try {
			await this.env.DIRECTORIES.getByName(this.store).deliver(list);
		} catch {
			return false;
		}
		for (const item of list) {
			if (this.pending.get(item.source) === item) {
				this.pending.delete(item.source);
				this.delivered.push({ source: item.source, version: item.version });
			}
		}
		return true;
	}

	async alarm() {
		if (!(await this.deliver(Number.MAX_SAFE_INTEGER))) {
			await this.ctx.storage.setAlarm(Date.now() + retry);
			return;
		}
		this.forget();
		this.delivered = [];
	}
}
