// The sentence that says why a session waits, what it does, or why it stopped, from its situation.

import { at, brief, dollars, left, many, safe, short, span } from "./format.js";

// exact is the time of a moment of the next minutes.
const exact = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// tones of the kinds of situations, see Status.
const tones = {
  approval: "paused", answer: "paused", client_tool: "paused", account: "paused", effect: "paused", budget: "paused", child: "paused", worker: "paused", queue: "paused",
  running: "active", model: "active", writing: "active", tool: "active", retry: "active", takeover: "active", stopping: "active",
  new: "idle", done: "completed", stopped: "interrupted", failed: "failed",
};

export const statusOf = (s, row) => (s?.kind === "child" && row?.status === "active" ? "active" : tones[s?.kind] || row?.status || "idle");

const people = (call) => (call.reviewers?.length ? call.reviewers.map(safe).join(", ") : "a reviewer");

// asked is what a call asks for, in a few words.
export function asked(call) {
  if (!call) return "";
  if (call.kind === "budget") return call.budget || call.payload ? budget(call.budget || call.payload) : "";
  const words = call.prompt || (call.tool + " " + brief(call.input)).trim();
  return /[.?!]$/.test(words) ? safe(words) : safe(words) + ".";
}

function budget(b) {
  const amount = (n) => (b.unit === "usd" ? dollars(n) : (n || 0).toLocaleString("en") + " " + b.unit);
  return amount(b.spent) + " of " + amount(b.limit) + " for this " + safe(b.per) + ".";
}

function wait(s, me) {
  const c = s.call || {}, since = " since " + at(s.since) + ".", mine = c.reviewers?.includes(me);
  switch (s.kind) {
    case "approval": {
      if (!s.call) return ["Waits for an approval" + since, ""];
      const voted = c.quorum && c.voted?.length ? c.voted.map(safe).join(", ") + (c.voted.length > 1 ? " have" : " has") + " approved. " : "";
      const more = voted ? "1 more approval" : "an approval";
      return [mine ? "Waits for your approval" + since : "Waits for " + more + " by " + people(c) + since, voted + asked(c)];
    }
    case "answer":
      return ["Waits for the answer of " + (c.reviewers?.length ? people(c) : safe(c.user_id || "the user")) + since, c.prompt ? "“" + safe(c.prompt) + "”" : asked(c)];
    case "client_tool":
      return ["Waits for " + safe(c.user_id ? c.user_id + "’s" : "a") + " client to run " + safe(c.tool) + since, ""];
    case "account":
      return ["Waits for " + safe(c.user_id || "the user") + " to connect an account" + since, asked(c)];
    case "effect":
      return [safe(c.tool) + " was running when its process ended.", "It may have happened: check before you settle it."];
    case "budget":
      return ["Budget used up at " + at(s.since) + ": " + asked(c).replace(/\.$/, "") + ".", "Raise it or end the turn."];
    case "child":
      return ["Waits for its sub-agent " + safe(s.agent || "") + since, c.tool || c.prompt ? "It waits for " + people(c) + ": " + asked(c) : ""];
    case "worker":
      return ["Waits for a worker" + since, s.workers === 0 ? "None serves this assistant." : ""];
    case "queue":
      return ["Waits behind " + many(s.queued || 1, "queued turn") + ".", ""];
  }
  return null;
}

// by names who stopped a run. A stop without a name and a reason is the application's.
const by = (s) => (s.stopped_by ? " by " + safe(s.stopped_by) : s.kind === "stopped" && s.reason === "interrupted" ? " by the application" : "");

function work(s) {
  const since = " since " + at(s.since) + ".", on = s.owner ? ", on " + safe(short(s.owner)) : "";
  const step = s.step ? "Step " + s.step + (s.max_steps ? " of at most " + s.max_steps : "") + on + "." : "";
  switch (s.kind) {
    case "writing": return ["Writes an answer" + since, step];
    case "model": return ["Waits for the model" + since, step];
    case "running": return ["Works" + since, step];
    case "tool": return ["Runs " + safe(s.tool) + since, step];
    case "child": return ["Consults " + safe(s.agent || "a sub-agent") + since, step];
    case "retry": {
      const why = s.error?.code ? " (" + safe(s.error.code.replaceAll("_", " ")) + ")" : "";
      return ["Attempt " + Math.max(1, (s.attempt || 2) - 1) + (s.step ? " at step " + s.step : "") + " failed" + why + (s.until ? "; next attempt at " + exact(s.until) : "") + ".", step];
    }
    case "takeover": return ["Is being taken over" + (s.owner ? ": " + safe(short(s.owner)) + " was last seen at " + at(s.seen_at) : "") + ".", ""];
    case "stopping": return ["Is being stopped" + by(s) + since, s.reason ? safe(s.reason) : ""];
  }
  return null;
}

const failures = {
  max_steps: "used all steps without an answer", crash_loop: "crashed its process again and again", budget_exceeded: "the budget is used up", timeout: "it took too long",
  authentication: "the provider refused the key of the model", overloaded: "the model is overloaded", rate_limited: "the limit of requests to the model is reached",
  context_too_long: "the conversation is too long for the model", aborted: "it was aborted on request", agent_lost: "the remote agent no longer answers",
};

function end(s) {
  switch (s.kind) {
    case "done": {
      const took = s.started_at && s.ended_at ? " in " + span((Date.parse(s.ended_at) - Date.parse(s.started_at)) / 1000) : "";
      return ["Done at " + at(s.since) + took + ".", ""];
    }
    case "stopped":
      return ["Stopped" + by(s) + " at " + at(s.since) + (s.step ? " after " + many(s.step, "step") : "") + ".", (s.reason && s.reason !== "interrupted" ? safe(s.reason).replace(/[^.?!]$/, "$&.") + " " : "") + "What was said is kept."];
    case "failed": {
      if (s.stopped_by) return ["Aborted" + by(s) + " at " + at(s.since) + ".", s.reason && s.reason !== "aborted" ? safe(s.reason) : ""];
      const code = s.error?.code || "", message = safe(s.error?.message || "");
      const words = failures[code] || message.replace(/\.$/, "") || code || "unknown error";
      const rest = failures[code] && message && !message.includes(failures[code]) ? message : "";
      return ["Failed at " + at(s.since) + (s.step ? " in step " + (s.step + 1) : "") + ": " + words + ".", rest || "Retry repeats the last step only."];
    }
    case "new":
      return ["New.", "No turn has begun yet."];
  }
  return ["", ""];
}

// sentence returns { bold, rest, until } of a situation.
export function sentence(s, me) {
  if (!s) return { bold: "", rest: "" };
  const working = s.kind === "child" && !s.call && s.owner;
  const [bold, rest] = (!working && wait(s, me)) || work(s) || end(s);
  const due = s.kind === "retry" ? null : left(s.until);
  return { bold, rest, until: due ? (due.s > 0 ? "Expires in " + due.words + "." : "Its time is over.") : "" };
}

// line is the sentence for a list, without the verb and the time.
export function line(s, row) {
  if (!s) return "";
  const c = s.call;
  switch (s.kind) {
    case "approval": return c ? "Approval by " + people(c) + ": " + asked(c).replace(/\.$/, "") : row?.open_calls > 1 ? many(row.open_calls, "open call") : "Approval";
    case "answer": return c?.prompt ? "Question: " + safe(c.prompt) : "Answer to a question";
    case "client_tool": return "Client runs " + safe(c?.tool || "a tool");
    case "budget": return "Budget used up: " + asked(c).replace(/\.$/, "");
    case "effect": return safe(c?.tool || "A tool") + " may have happened";
    case "child": return "Sub-agent " + safe(s.agent || "") + (c ? ": " + asked(c).replace(/\.$/, "") : "");
    case "done": return s.started_at && s.ended_at ? "Answered in " + span((Date.parse(s.ended_at) - Date.parse(s.started_at)) / 1000) : row?.turn ? many(row.turn, "turn") : "";
    case "stopped": return "Stopped" + by(s) + (s.step ? " after " + many(s.step, "step") : "") + ". What was said is kept";
    case "failed": {
      if (!s.error) return "The last turn failed";
      const f = end(s)[0];
      const why = f.slice(s.stopped_by ? 0 : f.indexOf(": ") + 2).replace(/\.$/, "");
      return why.charAt(0).toUpperCase() + why.slice(1);
    }
    case "new": return "";
  }
  const { bold } = sentence(s);
  return bold.replace(/ since [^.]*\.$/, "").replace(/\.$/, "");
}
