// Package memory keeps the memories of agents beyond one session, and searches them.
//
// A [Memory] is a value over a store: [New] needs one that keeps memories (store.MemoryProvider), as all of Cairn's do.
// Memories belong to a [Scope]: a session, a user or a named group. Nothing is shared between scopes, and the cost of a
// scope does not depend on the others.
//
// # Entries
//
// An [Entry] is text of a conversation ([Said]) or a [Fact]. A fact can name the text that it was taken from
// (Entry.About); both are searched together and only one of them is returned. Entries are never overwritten.
// [Memory.Correct], or an entry with Supersedes, adds a newer version; the newest is the one with the latest ValidFrom,
// so a statement about the past does not replace one about the present. [Memory.Redact] empties a version,
// [Memory.Forget] deletes a memory with all its versions.
//
// Text that a tool returned is not trustworthy: an instruction hidden in a web page must not become a memory that later
// turns obey. Such entries are [Quarantined]: searches do not return them unless asked to, and they supersede nothing,
// until [Memory.Promote].
//
// # Search
//
// [Memory.Search] works by the terms that an [Analyzer] makes of texts. It takes the twelve rarest terms of the query and
// the sixty-four entries in which they weigh most, scores these by BM25 (k1 1.2, b 0.3) with a bonus for the part of the
// query that they cover, and adds parts of the scores of the entries before and after each in its session, and of the
// session's best ones. Entries by or about the one name in the query count 1.5 times, questions 0.8 times. An entry
// that was superseded gives its score to the newest version. [Explain] shows each of these figures. With an [Embedder],
// vectors are compared with all entries of the scope, and added by how far they are above the mean, not by rank: so a
// weak embedder does little harm. Recency counts for nothing by default.
//
// All stores rank alike, since they only keep the index: it is written and read here.
//
// # Upkeep
//
// Workers call [Memory.Sweep] for entries that have expired, and [Memory.Embed] for entries without vectors. [Memory.Add]
// keeps a scope below Options.MaxEntries. After a change of the analyzer call [Memory.Reindex].
package memory
