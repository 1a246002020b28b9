// The directory of a store: copies of rows of all its trees, in the orders of the store's lists.

import { ConnectedObject } from "./connected.js";

export class DirectoryObject extends ConnectedObject {
	create() {
		this.ctx.storage.sql.exec(`
			CREATE TABLE source (source TEXT PRIMARY KEY, version INTEGER NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;
			CREATE TABLE entry (
				list TEXT NOT NULL, key TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (list, key)) WITHOUT ROWID;
			CREATE INDEX entry_source ON entry (source);`);
	}

	// deliver takes items of a tree's outbox: the new value of a source with its places in lists, or null if the source is
	// gone. With append, the source is put behind all others of that list, in the order of delivery. An item that is older
	// than what is known changes nothing, so items may come twice. With wake, the watching sockets are woken.
	deliver(items) {
		const { sql } = this.ctx.storage;
		this.rows.transaction(() => {
			for (const { source, version, value, lists, append } of items) {
				const known = sql.exec("SELECT version FROM source WHERE source = ?", source).toArray()[0];
				if (known && known.version >= version) {
					continue;
				}
				const places = lists ?? [];
				if (append) {
					places.push([append, String(this.rows.tick()).padStart(16, "0")]);
				}
				const before = sql.exec("SELECT list, key FROM entry WHERE source = ?", source).toArray();
				const wanted = new Set(places.map((place) => JSON.stringify(place)));
				for (const { list, key } of before) {
					if (!wanted.delete(JSON.stringify([list, key]))) {
						sql.exec("DELETE FROM entry WHERE list = ? AND key = ?", list, key);
					}
				}
				for (const place of wanted) {
					sql.exec("INSERT OR REPLACE INTO entry VALUES (?, ?, ?)", ...JSON.parse(place), source);
				}
				if (value === null) {
					sql.exec("DELETE FROM source WHERE source = ?", source);
				} else {
					sql.exec(
						`INSERT INTO source VALUES (?, ?, ?)
						ON CONFLICT (source) DO UPDATE SET version = excluded.version, value = excluded.value`,
						source, version, value);
				}
			}
		});
		this.wake({ wake: [...new Set(items.map((item) => item.wake).filter(Boolean))] }, null);
	}

	async handle(request, socket) {
		if (request.op === "deliver") {
			this.deliver(request.share);
			return {};
		}
		if (request.op !== "list") {
			return super.handle(request, socket);
		}
		if (this.rows.empty) {
			return { rows: [[]] };
		}
		const { list, from, to, newest, limit } = request;
		const found = this.ctx.storage.sql.exec(
			`SELECT key, value, version, source FROM entry JOIN source USING (source) WHERE list = ? AND key >= ? AND key < ?
			ORDER BY key ${newest ? "DESC" : "ASC"} LIMIT ?`, list, from, to, limit);
		return { rows: [found.toArray().map((row) => [row.key, row.value, row.version, row.source])] };
	}
}
