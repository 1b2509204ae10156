// BLAKE2b (RFC 7693), with the personalisation of its parameter block; 64-bit words are pairs of 32-bit ones, low first.

const INITIAL = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const ORDER = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const MIXED = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
];
const BLOCK = 128;

const v = new Uint32Array(32); // the working vector of the one call that is under way
const m = new Uint32Array(32); // the block

function add(a, low, high) {
  const sum = v[a] + low;
  v[a + 1] = v[a + 1] + high + (sum >= 4294967296 ? 1 : 0);
  v[a] = sum;
}

function mix(ia, ib, ic, id, x, y) {
  const a = 2 * ia, b = 2 * ib, c = 2 * ic, d = 2 * id;
  let low, high;
  add(a, v[b], v[b + 1]);
  add(a, m[2 * x], m[2 * x + 1]);
  low = v[d] ^ v[a]; high = v[d + 1] ^ v[a + 1];
  v[d] = high; v[d + 1] = low; // by 32 to the right
  add(c, v[d], v[d + 1]);
  low = v[b] ^ v[c]; high = v[b + 1] ^ v[c + 1];
  v[b] = (low >>> 24) ^ (high << 8); v[b + 1] = (high >>> 24) ^ (low << 8);
  add(a, v[b], v[b + 1]);
  add(a, m[2 * y], m[2 * y + 1]);
  low = v[d] ^ v[a]; high = v[d + 1] ^ v[a + 1];
  v[d] = (low >>> 16) ^ (high << 16); v[d + 1] = (high >>> 16) ^ (low << 16);
  add(c, v[d], v[d + 1]);
  low = v[b] ^ v[c]; high = v[b + 1] ^ v[c + 1];
  v[b] = (high >>> 31) ^ (low << 1); v[b + 1] = (low >>> 31) ^ (high << 1); // by 63
}

function compress(state, data, start, counted, last) {
  const view = new DataView(new ArrayBuffer(BLOCK));
  new Uint8Array(view.buffer).set(data.subarray(start, Math.min(start + BLOCK, data.length)));
  for (let i = 0; i < 32; i += 1) m[i] = view.getUint32(4 * i, true);
  v.set(state, 0);
  v.set(INITIAL, 16);
  v[24] ^= counted >>> 0;
  v[25] ^= Math.floor(counted / 4294967296);
  if (last) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  for (let round = 0; round < 12; round += 1) {
    const order = ORDER[round % 10];
    MIXED.forEach(([a, b, c, d], i) => mix(a, b, c, d, order[2 * i], order[2 * i + 1]));
  }
  for (let i = 0; i < 16; i += 1) state[i] ^= v[i] ^ v[i + 16];
}

/** The BLAKE2b digest of so many bytes; `person` is a text of at most 16 characters. */
export function blake2b(data, bytes = 32, person = "") {
  const state = INITIAL.slice();
  state[0] ^= 0x01010000 ^ bytes;
  const parameters = new DataView(new ArrayBuffer(16));
  for (let i = 0; i < person.length; i += 1) parameters.setUint8(i, person.charCodeAt(i));
  for (let i = 0; i < 4; i += 1) state[12 + i] ^= parameters.getUint32(4 * i, true);
  let start = 0;
  for (; start + BLOCK < data.length; start += BLOCK) compress(state, data, start, start + BLOCK, false);
  compress(state, data, start, data.length, true);
  const found = new DataView(new ArrayBuffer(64));
  state.forEach((word, i) => found.setUint32(4 * i, word, true));
  return new Uint8Array(found.buffer, 0, bytes).slice();
}
