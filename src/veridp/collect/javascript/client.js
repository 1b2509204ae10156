// A client of veridp collect: it takes part in a task once, and can go on after a crash, a reload or a lost answer.

import { joined, pack, unpack } from "./messagepack.js";
import {
  choose, commitmentTo, digest, drawClosed, drawVector, equal, hex, openedValues, proofOf, protocolOf, selection,
} from "./protocol.js";

const VERSION = 1;
const [INVITATION, COMMIT, CHALLENGE, OPENING, VERDICT] = [1, 2, 3, 4, 5];
const FIELDS = { [INVITATION]: 4, [CHALLENGE]: 3, [VERDICT]: 5 };
const text = new TextEncoder();

/** A refusal of the server or of this client; `reason` is its name. */
export class Refused extends Error {
  constructor(reason, message) {
    super(`${reason}: ${message}`);
    this.reason = reason;
  }
}

/**
 * Takes part in a task; the verdict {accepted, reason, outputs, receipt}, or the one there was.
 *
 * `storage` has `getItem` and `setItem`, as localStorage; what it keeps must outlive the page, and be seen by nobody else:
 * with it a client goes on where it was, and never answers two challenges. Not joined is a task that costs more than
 * `mostEpsilon`, or more than is left of `budget` for all tasks of this storage. Calls take turns, also those of other pages
 * of the same origin where the browser has locks: two at once could answer two challenges, or pay for one report.
 */
export function join(options) {
  return inTurn(() => takePart(options));
}

let last = Promise.resolve();

function inTurn(work) {
  const turn = last.then(() => (globalThis.navigator?.locks ? navigator.locks.request("veridp-collect", work) : work()));
  last = turn.catch(() => {});
  return turn;
}

async function takePart({
  server, task: name, token, value, storage, mostEpsilon = 1, budget = 3, fetch: ask = globalThis.fetch.bind(globalThis),
}) {
  const address = `${server.replace(/\/$/, "")}/tasks/${encodeURIComponent(name)}`;
  const document = await (await checked(await ask(address))).text();
  const task = JSON.parse(document);
  const definition = digest("veridp task", text.encode(document));
  const protocol = protocolOf(task);
  if (task.scheme !== "blake2b") throw new Refused("unavailable", `this client does not know the scheme ${task.scheme}`);
  if (protocol.epsilon > mostEpsilon) {
    throw new Refused("too-costly", `the task costs ε = ${protocol.epsilon}, more than ${mostEpsilon}; not taking part`);
  }
  const key = `veridp-collect ${hex(definition)}`;
  const keep = (record) => (storage.setItem(key, JSON.stringify(record)), record);
  const post = async (step, message) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/msgpack" };
    const answer = await checked(await ask(`${address}/${step}`, { method: "POST", headers, body: message }));
    return new Uint8Array(await answer.arrayBuffer());
  };
  const found = storage.getItem(key);
  let record = found === null ? null : JSON.parse(found);
  if (record?.verdict) return withReceipt(record, definition, address, token, ask, keep);

  choose(task, protocol, value); // an invalid value must not begin a session
  const invitation = record ? bytes(record.invitation) : await post("session", new Uint8Array());
  const [invitedTo, session, promise] = parts(invitation, INVITATION);
  if (!equal(invitedTo, definition)) throw new Refused("wrong-task", "an invitation to another task than the one defined");
  const context = [definition, session];
  if (!record) {
    pay(storage, protocol.epsilon, budget);
    const vector = drawVector(protocol.counts(choose(task, protocol, value), session));
    const secret = crypto.getRandomValues(new Uint8Array(32));
    const commitment = commitmentTo(context, vector, secret);
    record = keep({ invitation: hex(invitation), vector, secret: hex(secret), commitment: hex(commitment) });
  }
  const commitment = bytes(record.commitment);
  const challenge = await post("commit", pack([VERSION, COMMIT, definition, session, commitment]));
  const [ofTask, ofSession, nonce] = parts(challenge, CHALLENGE);
  if (!equal(joined(ofTask, ofSession), joined(...context))) throw new Refused("wrong-session", "another session's challenge");
  if (!equal(digest("veridp promise", ...context, nonce), promise)) {
    throw new Refused("broken-promise", "the nonce is not the one that the server promised");
  }
  if (record.nonce && record.nonce !== hex(nonce)) throw new Refused("second-challenge", "answered to another nonce");
  const selected = selection(context, nonce, commitment, protocol);
  if (!record.nonce) {
    record = keep({ ...record, nonce: hex(nonce), closed: drawClosed(protocol, record.vector, selected) });
  }
  const proof = proofOf(context, record.vector, bytes(record.secret), record.closed);
  const values = openedValues(protocol, record.vector, record.closed);
  const opening = pack([VERSION, OPENING, definition, session, record.closed, values, proof]);
  const verdict = await post("open", opening);
  const [decidedTask, decidedSession, accepted, , outputs] = parts(verdict, VERDICT);
  if (!equal(joined(decidedTask, decidedSession), joined(...context))) {
    throw new Refused("wrong-session", "a verdict on another session");
  }
  const due = selected.map((chosen, block) => record.vector[block * protocol.length + chosen]);
  if (accepted && JSON.stringify(outputs) !== JSON.stringify(due)) {
    throw new Refused("wrong-verdict", "the server claims to have read an entry that was not selected");
  }
  const { invitation: kept } = record;
  record = keep({
    invitation: kept, commitment: hex(commitment), nonce: hex(nonce), verdict: hex(verdict), opening: hex(await sha256(opening)),
  }); // the value is forgotten
  return withReceipt(record, definition, address, token, ask, keep);
}

/** The cost of a session, paid once from the budget of all tasks of this storage. */
function pay(storage, epsilon, budget) {
  const spent = Number(storage.getItem("veridp-collect spent") ?? 0) + epsilon;
  if (spent > budget) {
    throw new Refused("budget-spent", `the task costs ε = ${epsilon}, and ${budget - spent + epsilon} is left; not taking part`);
  }
  storage.setItem("veridp-collect spent", String(spent));
}

// ---------------------------------------------------------------------------------------------------------------- receipts

async function withReceipt(record, definition, address, token, ask, keep) {
  let { receipt } = record;
  if (!receipt) {
    const answer = await checked(await ask(`${address}/receipt`, { headers: { Authorization: `Bearer ${token}` } }));
    receipt = await answer.json();
    await checkReceipt(receipt, record, definition);
    keep({ ...record, receipt });
  }
  const [, , accepted, reason, outputs] = parts(bytes(record.verdict), VERDICT);
  return { accepted, reason, outputs, receipt };
}

/** Refuses a receipt that does not show the session of the record under a head that its key has signed. */
export async function checkReceipt(receipt, record, definition) {
  const { head } = receipt;
  const [, session, promise] = parts(bytes(record.invitation), INVITATION);
  const entry = pack([
    session, promise, bytes(record.nonce), bytes(record.commitment), bytes(record.opening), bytes(record.verdict),
  ]);
  const counted = head.begun !== undefined; // heads of older servers have no counts
  const numbers = counted ? [head.size, head.time, head.begun, head.challenged] : [head.size, head.time];
  if (![receipt.place, ...numbers].every((number) => Number.isSafeInteger(number) && number >= 0)) {
    throw new Refused("broken-promise", "the receipt has a number that is not whole; show it to the auditors");
  }
  const leaf = await sha256(joined([0], entry));
  const root = await rootByInclusion(leaf, receipt.place, head.size, receipt.path.map(bytes));
  const packed = new DataView(new ArrayBuffer(8 * numbers.length));
  numbers.forEach((number, index) => packed.setBigUint64(8 * index, BigInt(number)));
  const purpose = text.encode(`veridp tree head ${counted ? 2 : 1}\0`);
  const content = joined(purpose, definition, new Uint8Array(packed.buffer), root);
  const key = await crypto.subtle.importKey("raw", bytes(head.key), { name: "Ed25519" }, false, ["verify"]);
  if (!(await crypto.subtle.verify({ name: "Ed25519" }, key, bytes(head.signature), content))) {
    throw new Refused("broken-promise", "the receipt is not one for this session; show it to the auditors");
  }
}

async function rootByInclusion(leaf, place, size, path) {
  if (size === 1 && !path.length) return leaf;
  const last = path.at(-1);
  if (!last || place >= size) throw new Refused("broken-promise", "the path of the receipt is not one");
  let half = 1;
  while (2 * half < size) half *= 2;
  const below = path.slice(0, -1);
  return place < half
    ? sha256(joined([1], await rootByInclusion(leaf, place, half, below), last))
    : sha256(joined([1], last, await rootByInclusion(leaf, place - half, size - half, below)));
}

// ------------------------------------------------------------------------------------------------------------------- parts

async function sha256(data) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

function bytes(digits) {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** The fields of a message of this kind. */
function parts(message, kind) {
  const [version, found, ...fields] = unpack(message);
  if (version !== VERSION || found !== kind || fields.length !== FIELDS[kind]) {
    throw new Refused("malformed", `not a message of version ${VERSION} and kind ${kind}`);
  }
  return fields;
}

async function checked(answer) {
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({ reason: "unavailable", message: `status ${answer.status}` }));
  throw new Refused(found.reason, found.message);
}
