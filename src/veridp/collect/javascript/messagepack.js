// MessagePack, as far as messages need it: whole numbers from 0 to 2^53 - 1, truth values, texts, bytes, and arrays of these.
// There is one encoding, the shortest; nothing else is decoded.

const text = new TextEncoder();

/** The value in bytes. */
export function pack(value) {
  const parts = [];
  put(value, parts);
  return joined(...parts);
}

/** The one value that the bytes encode; throws where they are not its shortest encoding. */
export function unpack(data) {
  const reader = { data, at: 0, view: new DataView(data.buffer, data.byteOffset, data.byteLength) };
  const value = take(reader);
  const again = pack(value);
  if (reader.at !== data.length || again.length !== data.length || again.some((byte, i) => byte !== data[i])) {
    throw new Error("malformed: not the shortest encoding of a message");
  }
  return value;
}

/** All bytes, one part after the other. */
export function joined(...parts) {
  const found = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}

function put(value, parts) {
  if (value === true || value === false) {
    parts.push([value ? 0xc3 : 0xc2]);
  } else if (Number.isSafeInteger(value) && value >= 0) {
    if (value < 128) parts.push([value]);
    else head(value, [0xcc, 0xcd, 0xce, 0xcf], parts);
  } else if (typeof value === "string") {
    const bytes = text.encode(value);
    if (bytes.length < 32) parts.push([0xa0 | bytes.length]);
    else head(bytes.length, [0xd9, 0xda, 0xdb], parts);
    parts.push(bytes);
  } else if (value instanceof Uint8Array) {
    head(value.length, [0xc4, 0xc5, 0xc6], parts);
    parts.push(value);
  } else if (Array.isArray(value)) {
    if (value.length < 16) parts.push([0x90 | value.length]);
    else head(value.length, [null, 0xdc, 0xdd], parts);
    value.forEach((entry) => put(entry, parts));
  } else {
    throw new Error(`a message cannot hold ${String(value)}`);
  }
}

/** A tag for one, two, four or eight bytes, and the number in as many, big-endian. */
function head(number, tags, parts) {
  let size = tags[0] !== null && number < 256 ? 0 : number < 65536 ? 1 : number < 4294967296 ? 2 : 3;
  const bytes = new DataView(new ArrayBuffer(1 + (1 << size)));
  bytes.setUint8(0, tags[size]);
  if (size === 0) bytes.setUint8(1, number);
  else if (size === 1) bytes.setUint16(1, number);
  else if (size === 2) bytes.setUint32(1, number);
  else bytes.setBigUint64(1, BigInt(number));
  parts.push(new Uint8Array(bytes.buffer));
}

function take(reader) {
  const tag = number(reader, 1);
  if (tag < 0x80) return tag;
  if (tag >= 0x90 && tag < 0xa0) return several(reader, tag & 0x0f);
  if (tag >= 0xa0 && tag < 0xc0) return string(reader, tag & 0x1f);
  switch (tag) {
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: return bytes(reader, number(reader, 1));
    case 0xc5: return bytes(reader, number(reader, 2));
    case 0xc6: return bytes(reader, number(reader, 4));
    case 0xcc: return number(reader, 1);
    case 0xcd: return number(reader, 2);
    case 0xce: return number(reader, 4);
    case 0xcf: return number(reader, 8);
    case 0xd9: return string(reader, number(reader, 1));
    case 0xda: return string(reader, number(reader, 2));
    case 0xdb: return string(reader, number(reader, 4));
    case 0xdc: return several(reader, number(reader, 2));
    case 0xdd: return several(reader, number(reader, 4));
    default: throw new Error("malformed: not a value of a message");
  }
}

function number(reader, size) {
  const { view, at } = reader;
  if (at + size > view.byteLength) throw new Error("malformed: the message breaks off");
  reader.at += size;
  if (size === 8) return Number(view.getBigUint64(at));
  return size === 1 ? view.getUint8(at) : size === 2 ? view.getUint16(at) : view.getUint32(at);
}

function bytes(reader, length) {
  if (reader.at + length > reader.data.length) throw new Error("malformed: the message breaks off");
  reader.at += length;
  return reader.data.slice(reader.at - length, reader.at);
}

function string(reader, length) {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes(reader, length));
}

function several(reader, length) {
  const found = [];
  for (let i = 0; i < length; i += 1) found.push(take(reader));
  return found;
}
