"use strict";
const find = (id) => document.getElementById(id);
const address = location.pathname.replace(/\/live$/, "/status");
let token = "";
let timer = 0;

const shown = (x) => Number(x).toPrecision(5);

function bar(column, low, high) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 1000 100");
  picture.setAttribute("preserveAspectRatio", "none");
  const place = (x) => (1000 * (x - low)) / (high - low || 1);
  const block = (kind, from, to, top, height) => {
    const part = document.createElementNS(space, "rect");
    part.setAttribute("class", kind);
    part.setAttribute("x", place(from));
    part.setAttribute("width", Math.max(place(to) - place(from), 6));
    part.setAttribute("y", top);
    part.setAttribute("height", height);
    picture.append(part);
  };
  block("worst", column.worst_lower, column.worst_upper, 30, 40);
  block("sure", column.lower, column.upper, 20, 60);
  block("value", column.value, column.value, 0, 100);
  return picture;
}

function draw(status) {
  find("accepted").textContent = `${status.accepted} (at least ${status.minimum_batch} needed)`;
  find("aborts").textContent = `${(100 * status.abort_rate).toFixed(2)} % (published up to ${100 * status.maximum_abort_rate} %)`;
  find("rejected").textContent = status.rejected;
  find("missing").textContent = `${status.missing} knew something of their report and did not send it`;
  find("pending").textContent = status.pending_invited + status.pending_challenged;
  const message = find("message");
  message.className = status.withheld ? "bad" : "";
  message.textContent = status.withheld ? `No estimate: ${status.withheld.message}` : `As of ${new Date().toLocaleTimeString()}`;
  const table = find("estimate");
  table.hidden = !status.estimate;
  if (!status.estimate) return;
  table.caption.textContent = `All intervals together hold with confidence ${status.confidence}.`;
  const low = Math.min(...status.estimate.map((c) => c.worst_lower));
  const high = Math.max(...status.estimate.map((c) => c.worst_upper));
  table.tBodies[0].replaceChildren(...status.estimate.map((column) => {
    const row = document.createElement("tr");
    const cells = [column.name, `${shown(column.worst_lower)} to ${shown(column.worst_upper)}`,
      shown(column.value), `${shown(column.lower)} to ${shown(column.upper)}`];
    for (const text of cells) row.insertCell().textContent = text;
    row.insertCell().append(bar(column, low, high));
    return row;
  }));
}

async function refresh() {
  clearTimeout(timer);
  try {
    const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
    const found = await answer.json();
    if (answer.ok) draw(found);
    else find("message").textContent = found.message;
    if (answer.status === 401) return;
  } catch (error) {
    find("message").textContent = "The server does not answer; trying again.";
  }
  timer = setTimeout(refresh, 2000);
}

find("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value;
  refresh();
});
