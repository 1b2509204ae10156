// What client and server agree upon: digests, rates, layouts, commitments, selections. All of it follows from the text of
// the task and from docs/wire.md; test/vectors.json has values to compare with.

import { blake2b } from "./blake2b.js";
import { joined } from "./messagepack.js";

const text = new TextEncoder();
const SEED = 16;
const MOST_COPIES = 10000;
const PRIME = 2147483647n;

/** The number as so many bytes, big-endian. */
export function big(number, size = 8) {
  const found = new Uint8Array(size);
  for (let i = size - 1, left = BigInt(number); i >= 0; i -= 1, left >>= 8n) found[i] = Number(left & 255n);
  return found;
}

/** The digest of parts, each with its length before it, for a purpose. */
export function digest(purpose, ...parts) {
  return blake2b(joined(...parts.flatMap((part) => [big(part.length), part])), 32, purpose);
}

export function equal(one, other) {
  return one.length === other.length && one.every((byte, i) => byte === other[i]);
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// ------------------------------------------------------------------------------------------------------------- randomness

/** A uniform whole number below the limit, from the system's secure generator. */
export function below(limit) {
  const word = new Uint32Array(1);
  const most = 4294967296 - (4294967296 % limit);
  do crypto.getRandomValues(word); while (word[0] >= most);
  return word[0] % limit;
}

/** A uniform number from 0 to 1, of 53 bits. */
function unit() {
  return (below(67108864) * 134217728 + below(134217728)) / 9007199254740992;
}

function shuffle(entries) {
  for (let i = entries.length - 1; i > 0; i -= 1) {
    const j = below(i + 1);
    [entries[i], entries[j]] = [entries[j], entries[i]];
  }
  return entries;
}

// ------------------------------------------------------------------------------------------------------------------ rates

const BITS = 256n;

/** ln(numerator / denominator), correctly rounded. */
export function logRatio(numerator, denominator) {
  let [a, b, halvings] = [BigInt(numerator), BigInt(denominator), 0n];
  while (a > 2n * b) [b, halvings] = [2n * b, halvings + 1n];
  const found = halvings * logarithm(2n, 1n) + logarithm(a, b);
  const places = found.toString(2).length;
  const spare = BigInt(Math.max(places - 64, 0)); // 64 bits, the last of which says whether anything follows
  const short = (found >> spare) | (found & ((1n << spare) - 1n) ? 1n : 0n);
  return Number(short) * 2 ** (Number(spare) - Number(BITS));
}

/** ln(a / b) in units of 2^-256, for b <= a <= 2b: twice the artanh of (a - b) / (a + b). */
function logarithm(a, b) {
  let term = ((a - b) << BITS) / (a + b);
  const square = (term * term) >> BITS;
  let sum = 0n;
  for (let odd = 1n; term; odd += 2n) {
    sum += term / odd;
    term = (term * square) >> BITS;
  }
  return 2n * sum;
}

/** What a report of so many parts costs: ln of (held / other) to their number. */
function costOf(held, other, parts) {
  return logRatio(BigInt(held) ** BigInt(parts), BigInt(other) ** BigInt(parts));
}

/** The fewest copies with closeness · ε <= parts · ln(held / other) <= ε. */
export function rates(epsilon, closeness, parts = 1) {
  const fewest = Math.floor(Math.min(1 / Math.expm1(epsilon / parts), MOST_COPIES));
  for (let other = Math.max(fewest, 1); other < MOST_COPIES; other += 1) {
    let held = Math.floor(other * Math.exp(epsilon / parts)) + 1;
    if (parts * Math.log(held / other) < closeness * epsilon - 1e-9) continue;
    while (costOf(held, other, parts) > epsilon) held -= 1;
    if (held > other && costOf(held, other, parts) >= closeness * epsilon) return { held, other };
  }
  throw new Error(`no whole numbers of copies for ε = ${epsilon}`);
}

// -------------------------------------------------------------------------------------------------------------- protocols

/** A whole number, halves to the even one. */
function rounded(numerator, denominator) {
  const low = Math.floor(numerator / denominator);
  const twice = 2 * (numerator - low * denominator);
  return twice > denominator || (twice === denominator && low % 2 === 1) ? low + 1 : low;
}

function raised(size, place, held, other) {
  return Array.from({ length: size }, (_, i) => (i === place ? held : other));
}

/** The bucket of an item by the hash of the session. */
export function bucket(item, session, buckets) {
  const drawn = digest("veridp hash", session);
  const [high, low] = [drawn.slice(0, 16), drawn.slice(16)].map((part) => BigInt(`0x${hex(part)}`));
  const inverse = power(BigInt(item + 1), PRIME - 2n);
  return Number((((1n + (high % (PRIME - 1n))) * inverse + (low % PRIME)) % PRIME) % BigInt(buckets));
}

function power(base, exponent) {
  let found = 1n;
  for (let square = base % PRIME; exponent; exponent >>= 1n, square = (square * square) % PRIME) {
    if (exponent & 1n) found = (found * square) % PRIME;
  }
  return found;
}

/** The place of the attribute that a session of sr-smp is about. */
export function attribute(session, size) {
  return Number(BigInt(`0x${hex(digest("veridp attribute", session).slice(0, 16))}`) % BigInt(size));
}

/** The protocol of a task: its layout, how many inputs, and the counts of an honest vector for one of them. */
export function protocolOf(task) {
  const size = task.items.length;
  const parts = task.mechanism === "sr-spl" ? size : 1;
  const { held, other } = rates(task.epsilon, task.closeness, parts);
  const direct = (values) => ({
    blocks: 1, length: held + (values - 1) * other, floors: Array(values).fill(other),
    inputs: values, counts: (chosen) => [raised(values, chosen, held, other)],
  });
  const end = (chosen, place) => (Math.floor(chosen / 2 ** place) % 2 ? [other, held] : [held, other]);
  const ends = { length: held + other, floors: [other, other], inputs: 2 ** size };
  const made = {
    vgrr: () => direct(size),
    voue: () => {
      const both = held + other;
      const times = both % 2 ? 2 : 1;
      const length = times * both;
      const floors = [length / 2, times * other];
      const [unset, set] = [[length - floors[1], floors[1]], [floors[0], length - floors[0]]];
      const counts = (chosen) => Array.from({ length: size }, (_, i) => (i === chosen ? set : unset));
      return { blocks: size, length, floors, inputs: size, counts };
    },
    volh: () => {
      const buckets = rounded(held, other) + 1;
      const few = direct(buckets);
      return { ...few, inputs: size, counts: (chosen, session) => few.counts(bucket(chosen, session, buckets)) };
    },
    "grr-ho": () => direct(task.resolution || 16),
    "sr-ho": () => {
      const times = task.resolution || 1;
      const [length, floor] = [(held + other) * times, other * times];
      const counts = (chosen) => [[length - floor - chosen, floor + chosen]];
      return { blocks: 1, length, floors: [floor, floor], inputs: (held - other) * times + 1, counts };
    },
    "pm-ho": () => {
      const bins = task.resolution || 16;
      const window = Math.max(1, rounded(bins / (Math.sqrt(held / other) + 1), 1));
      const counts = (chosen) => [
        Array.from({ length: bins }, (_, i) => (i >= chosen && i < chosen + window ? held : other)),
      ];
      const length = window * held + (bins - window) * other;
      return { blocks: 1, length, floors: Array(bins).fill(other), inputs: bins - window + 1, counts };
    },
    "sr-spl": () => ({
      ...ends, blocks: size, counts: (chosen) => task.items.map((_, place) => end(chosen, place)),
    }),
    "sr-smp": () => ({ ...ends, blocks: 1, counts: (chosen, session) => [end(chosen, attribute(session, size))] }),
  }[task.mechanism]?.();
  if (!made) throw new Error(`this client does not know the mechanism ${task.mechanism}`);
  const size_ = made.blocks * made.length;
  return { ...made, size: size_, width: made.floors.length <= 256 ? 1 : 2, epsilon: costOf(held, other, parts) };
}

/** The number of the honest input for a value; a number is rounded at random, so that it is right on average. */
export function choose(task, protocol, value) {
  if (["sr-smp", "sr-spl"].includes(task.mechanism)) return chooseEnds(task, value);
  if (task.items.length) {
    const place = task.items.indexOf(String(value));
    if (place < 0) throw new Error(`${value} is not an item of the task`);
    return place;
  }
  const number = typeof value === "string" && value.trim() === "" ? NaN : Number(value);
  if (!(task.low <= number && number <= task.high)) {
    throw new Error(`${value} is not a number from ${task.low} to ${task.high}`);
  }
  const place = ((number - task.low) / (task.high - task.low)) * (protocol.inputs - 1);
  const whole = Math.floor(place);
  return Math.min(whole + (unit() < place - whole ? 1 : 0), protocol.inputs - 1);
}

/** The ends that the numbers of a client are rounded to, a bit for each; the value is a text such as age=39,hours=40. */
function chooseEnds(task, value) {
  const given = new Map(String(value).split(",").map((part) => part.split("=").map((side) => side.trim())));
  const bits = task.items.map((item) => {
    const [, name, low, high] = /^([^=,]+)=(.+?)\.\.(.+)$/.exec(item);
    const number = given.get(name.trim()) ? Number(given.get(name.trim())) : NaN;
    if (!(Number(low) <= number && number <= Number(high))) {
      throw new Error(`${name} = ${given.get(name.trim())} is not a number from ${low} to ${high}`);
    }
    return unit() < (number - Number(low)) / (Number(high) - Number(low)) ? 1 : 0;
  });
  if (given.size !== bits.length) throw new Error(`${value} has not exactly the attributes of the task`);
  return bits.reduce((sum, bit, place) => sum + bit * 2 ** place, 0);
}

/** A vector with these counts in its blocks, each in a uniform order. */
export function drawVector(counts) {
  return counts.flatMap((block) => shuffle(block.flatMap((count, value) => Array(count).fill(value))));
}

/** The entries to keep closed, in order: a uniform choice among those that leave the floors open. */
export function drawClosed(protocol, vector, selected) {
  const closed = [];
  selected.forEach((chosen, block) => {
    const start = block * protocol.length;
    const places = protocol.floors.map(() => []);
    for (let i = start; i < start + protocol.length; i += 1) if (i !== start + chosen) places[vector[i]].push(i);
    protocol.floors.forEach((floor, value) => {
      const spare = places[value].length - floor + (vector[start + chosen] === value ? 1 : 0);
      closed.push(...shuffle(places[value]).slice(0, spare));
    });
  });
  return closed.sort((a, b) => a - b);
}

/** The index selected in each block, by the nonce and the commitment. */
export function selection(context, nonce, commitment, protocol) {
  const seed = digest("veridp select", ...context, nonce, commitment);
  const word = 1n << 64n;
  const length = BigInt(protocol.length);
  const limit = word - (word % length);
  const chosen = [];
  for (let counter = 0; chosen.length < protocol.blocks; counter += 1) {
    const drawn = new DataView(blake2b(joined(seed, big(counter)), 64).buffer);
    for (let start = 0; start < 64; start += 8) {
      const found = drawn.getBigUint64(start);
      if (found < limit) chosen.push(Number(found % length));
    }
  }
  return chosen.slice(0, protocol.blocks);
}

// ------------------------------------------------------------------------------------------------------------ commitments

function salts(context) {
  const base = digest("veridp salts", ...context, text.encode("blake2b"));
  return Object.fromEntries(["N", "E", "W"].map((purpose) => [purpose, joined(text.encode(purpose), base)]));
}

/** The seeds of all nodes of the tree, level by level from the leaves up. */
function seedLevels(root, salt, size) {
  let height = 0;
  while (1 << height < size) height += 1;
  const rows = [[root]];
  for (let level = height - 1; level >= 0; level -= 1) {
    const children = rows[0].flatMap((seed) => {
      const pair = blake2b(joined(salt, seed));
      return [pair.slice(0, SEED), pair.slice(SEED)];
    });
    rows.unshift(children.slice(0, Math.ceil(size / 2 ** level)));
  }
  return rows;
}

function entryDigest(salt, index, value, seed) {
  return blake2b(joined(salt, big(index, 4), big(value, 4), seed));
}

function tree(context, secret, size) {
  const salt = salts(context);
  return { salt, rows: seedLevels(digest("veridp seeds", ...context, secret).slice(0, SEED), salt.N, size) };
}

/** The commitment to a vector. */
export function commitmentTo(context, vector, secret) {
  const { salt, rows } = tree(context, secret, vector.length);
  return blake2b(joined(salt.W, ...vector.map((value, i) => entryDigest(salt.E, i, value, rows[0][i]))));
}

/** The proof of all entries but the closed ones: the seeds that reveal theirs, and the digests of the closed. */
export function proofOf(context, vector, secret, closed) {
  const { salt, rows } = tree(context, secret, vector.length);
  const revealed = closed.length ? [] : [[0, rows.at(-1)[0]]];
  let onPath = new Set(closed);
  for (let level = 0; level < rows.length - 1; level += 1) {
    for (const place of onPath) {
      const sibling = place ^ 1;
      if (!onPath.has(sibling) && sibling < rows[level].length) {
        revealed.push([sibling * 2 ** level, rows[level][sibling]]);
      }
    }
    onPath = new Set([...onPath].map((place) => place >> 1));
  }
  revealed.sort(([one], [other]) => one - other);
  const kept = closed.map((i) => entryDigest(salt.E, i, vector[i], rows[0][i]));
  return joined(...revealed.map(([, seed]) => seed), ...kept);
}

/** The values of the entries that are not closed, as they stand in a message. */
export function openedValues(protocol, vector, closed) {
  const kept = new Set(closed);
  return joined(...vector.flatMap((value, i) => (kept.has(i) ? [] : [big(value, protocol.width)])));
}
