// The test vectors of the wire protocol: `node --test test/`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { blake2b } from "../blake2b.js";
import { checkReceipt, join } from "../client.js";
import { pack, unpack } from "../messagepack.js";
import * as protocol from "../protocol.js";

const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8"));
const bytes = (digits) => Uint8Array.from(Buffer.from(digits, "hex"));
const text = new TextEncoder();

test("blake2b", () => {
  for (const { data, bytes: size, person, digest } of vectors.blake2b) {
    assert.equal(protocol.hex(blake2b(bytes(data), size, person)), digest);
  }
});

test("digests of parts", () => {
  for (const { purpose, parts, digest } of vectors.digest) {
    assert.equal(protocol.hex(protocol.digest(purpose, ...parts.map(bytes))), digest);
  }
});

test("rates and logarithms", () => {
  for (const [epsilon, closeness, held, other, parts] of vectors.rates) {
    assert.deepEqual(protocol.rates(epsilon, closeness, parts), { held, other });
  }
  for (const [numerator, denominator, found] of vectors.logarithms) {
    assert.equal(protocol.logRatio(numerator, denominator), found);
  }
});

for (const known of vectors.sessions) {
  const task = JSON.parse(known.task);
  test(`a session of ${task.name}`, () => {
    const found = protocol.protocolOf(task);
    const { blocks, length, floors, width, inputs, epsilon } = found;
    assert.deepEqual({ blocks, length, floors, width }, known.layout);
    assert.deepEqual([inputs, epsilon], [known.inputs, known.epsilon]);
    assert.equal(protocol.choose(task, found, known.value), known.chosen);
    assert.deepEqual(found.counts(known.chosen, bytes(known.session)), known.counts);
    known.buckets?.forEach((bucket, item) => {
      assert.equal(protocol.bucket(item, bytes(known.session), floors.length), bucket);
    });
    const definition = protocol.digest("veridp task", text.encode(known.task));
    assert.equal(protocol.hex(definition), known.definition);
    const context = [definition, bytes(known.session)];
    const secret = bytes(known.secret);
    const commitment = protocol.commitmentTo(context, known.vector, secret);
    assert.equal(protocol.hex(commitment), known.commitment);
    assert.equal(protocol.hex(pack([1, 2, ...context, commitment])), known.commit);
    assert.deepEqual(protocol.selection(context, bytes(known.nonce), commitment, found), known.selected);
    const values = protocol.openedValues(found, known.vector, known.closed);
    const proof = protocol.proofOf(context, known.vector, secret, known.closed);
    assert.equal(protocol.hex(values), known.values);
    assert.equal(protocol.hex(proof), known.proof);
    assert.equal(protocol.hex(pack([1, 4, ...context, known.closed, values, proof])), known.opening);
    for (const message of ["invitation", "commit", "challenge", "opening", "verdict"]) {
      assert.deepEqual(pack(unpack(bytes(known[message]))), bytes(known[message]));
    }
  });

  test(`own draws for ${task.name} leave exactly the floors open`, () => {
    const found = protocol.protocolOf(task);
    const counts = found.counts(protocol.choose(task, found, known.value), bytes(known.session));
    const vector = protocol.drawVector(counts);
    const selected = Array.from({ length: found.blocks }, () => protocol.below(found.length));
    const closed = new Set(protocol.drawClosed(found, vector, selected));
    for (let block = 0; block < found.blocks; block += 1) {
      const open = Array(found.floors.length).fill(0);
      for (let i = block * found.length; i < (block + 1) * found.length; i += 1) if (!closed.has(i)) open[vector[i]] += 1;
      assert.deepEqual(open, found.floors);
      assert.ok(!closed.has(block * found.length + selected[block]));
    }
  });
}

test("a receipt shows its session and no other", async () => {
  const { receipt, record, definition } = vectors.receipt;
  await checkReceipt(receipt, record, bytes(definition));
  await checkReceipt(vectors.receipt_of_an_older_server.receipt, record, bytes(definition));
  const changes = [
    [{ ...receipt, place: 2 }, record], [receipt, { ...record, opening: "00".repeat(32) }],
    [{ ...receipt, head: { ...receipt.head, time: 1 } }, record], [{ ...receipt, path: receipt.path.slice(1) }, record],
    [{ ...receipt, head: { ...receipt.head, begun: 5 } }, record], [{ ...receipt, head: { ...receipt.head, begun: 8.5 } }, record],
    [{ ...receipt, head: { ...receipt.head, begun: null } }, record], [{ ...receipt, place: "3" }, record], [{ ...receipt, head: { ...receipt.head, challenged: 5 } }, record],
  ];
  for (const [changed, kept] of changes) await assert.rejects(checkReceipt(changed, kept, bytes(definition)), /broken-promise/);
});

test("what is not the one encoding of a message is refused", () => {
  for (const digits of ["cc05", "c101", "9201", "d90161", "910101", "dc000105", "81a0a0", ""]) {
    assert.throws(() => unpack(bytes(digits)), /malformed/);
  }
});

test("calls at once take turns", async () => {
  const [known] = vectors.sessions;
  const asked = [];
  const fetch = async (url) => {
    asked.push(url.split("/").at(-1));
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (url.endsWith("session")) return { ok: false, json: async () => ({ reason: "task-closed", message: "it is closed" }) };
    return { ok: true, text: async () => known.task };
  };
  const storage = { getItem: () => null, setItem: () => {} };
  const call = () => join({ server: "http://x", task: "pets", token: "t", value: known.value, storage, mostEpsilon: 9, fetch });
  const found = await Promise.allSettled([call(), call()]);
  assert.deepEqual(found.map(({ reason }) => reason.reason), ["task-closed", "task-closed"]);
  assert.deepEqual(asked, ["pets", "session", "pets", "session"]);
});
