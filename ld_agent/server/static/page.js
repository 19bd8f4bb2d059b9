"use strict";
// What the pages do beyond htmx: times in the reader's zone, a file that is dropped, and a talk whose replies are streamed.

const clock = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const calendar = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

function localTimes() {
  for (const time of document.querySelectorAll("time:not([data-local])")) {
    time.dataset.local = "";
    if (!time.dateTime.includes("T")) continue; // a day, wherever one is
    time.textContent = (time.className === "day" ? calendar : clock).format(new Date(time.dateTime));
  }
}

localTimes();
document.getElementById("zone").textContent = `in your time zone, ${clock.resolvedOptions().timeZone}`;
new MutationObserver(localTimes).observe(document.body, { childList: true, subtree: true });

// ---- a file dropped on the page, for the form that imports it

const drop = document.getElementById("import");
for (const kind of drop ? ["dragover", "dragleave", "drop"] : []) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop") drop.elements.file.files = event.dataTransfer.files;
  });
}

// ---- talking

const form = document.getElementById("say"), log = document.getElementById("lines");
let running = null; // the reply that is being streamed

function toEnd() {
  log.scrollTop = log.scrollHeight;
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader(); // "for await" over a stream is new in browsers
  for (let rest = "", piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
  }
}

function added(template, text) {
  const line = document.getElementById(template).content.firstElementChild.cloneNode(true);
  line.querySelector(".text").textContent = text;
  line.querySelector(".meta").prepend(clock.format(new Date()));
  log.querySelector(".empty")?.remove();
  log.append(line);
  toEnd();
  return line;
}

/** Say something, and show the reply as it comes. Resolves to the ids of what was heard and replied. */
async function stream(body, words, signal) {
  const answer = await fetch(form.action, { method: "POST", headers: { Accept: "text/event-stream" }, body, signal });
  if (answer.redirected) location.assign(answer.url); // to the log-in
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  let ids = {};
  for await (const event of events(answer.body)) {
    if (event.error) throw new Error(event.error.message);
    words.textContent += event.choices?.[0]?.delta?.content ?? "";
    if (words.textContent) words.parentElement.classList.remove("thinking");
    ids = event.ld_agent ?? ids;
    toEnd();
  }
  return ids;
}

async function say(text) {
  const body = new URLSearchParams(new FormData(form)), button = form.querySelector("button");
  body.set("text", text); // the box may hold what was typed since
  const reply = added("replied", ""), words = reply.querySelector(".text"), why = reply.querySelector(".why");
  const meta = reply.querySelector(".meta");
  reply.classList.add("thinking");
  log.ariaBusy = "true"; // read out once it is complete
  why.hidden = true;
  running = new AbortController();
  toEnd();
  button.textContent = "Stop";
  button.formNoValidate = true;
  try {
    const ids = await stream(body, words, running.signal);
    if (ids.reply) {
      why.href += ids.reply;
      why.hidden = false;
      for (const tab of document.querySelectorAll(".tabs [hidden]")) tab.hidden = false; // now somebody who is known
      beside(ids.reply);
    }
  } catch (error) {
    if (error.name === "AbortError") meta.firstChild.after(words.textContent ? ", stopped; what was said is kept" : ", stopped");
    else failed(reply, meta, text, error);
  }
  reply.classList.remove("thinking");
  log.ariaBusy = "false";
  running = null;
  button.textContent = "Send";
  button.formNoValidate = false;
  toEnd();
}

function failed(reply, meta, text, error) {
  const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Try again" });
  again.addEventListener("click", () => {
    if (running) return;
    reply.remove();
    form.elements.text.focus();
    say(text);
  });
  meta.className = "problem meta";
  meta.setAttribute("role", "alert");
  const why = error instanceof TypeError ? "the server cannot be reached" : error.message;
  meta.replaceChildren(`No reply: ${why}. `, again);
}

/** Show the memory behind a reply beside the talk; of an earlier one that has not come yet, it never does. */
function beside(reply) {
  htmx.ajax("GET", form.dataset.beside + reply, { source: "#beside", target: "#beside", swap: "innerHTML" });
}

if (form) {
  const box = form.elements.text;
  toEnd();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = box.value.trim();
    if (running) running.abort();
    else if (text) box.value = "", added("said", text), say(text);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") running?.abort();
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target !== box) return;
    event.preventDefault();
    if (!running) form.requestSubmit();
  });
  log.addEventListener("click", (event) => {
    if (!event.target.matches("a.why") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    beside(new URL(event.target.href).pathname.split("/").pop());
  });
}
