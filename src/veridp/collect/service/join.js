// The page on which a person takes part: the client of this folder's package, with what it keeps in the browser's storage.

import { join } from "/client/client.js";

const element = (id) => document.getElementById(id);

element("take-part").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [token, value, epsilon] = ["token", "value", "epsilon"].map((id) => element(id).value.trim());
  const message = element("message");
  message.className = "";
  message.textContent = "Under way …";
  try {
    const verdict = await join({
      server: location.origin, task: document.body.dataset.task, token, value, storage: localStorage,
      mostEpsilon: Number(epsilon),
    });
    const place = `It is session ${verdict.receipt.place + 1} of ${verdict.receipt.head.size} in the signed log.`;
    message.textContent = verdict.accepted ? `Accepted. ${place}` : `Not accepted: ${verdict.reason}. ${place}`;
    message.className = verdict.accepted ? "" : "bad";
  } catch (error) {
    message.textContent = `Not taken part: ${error.message}`;
    message.className = "bad";
  }
});
