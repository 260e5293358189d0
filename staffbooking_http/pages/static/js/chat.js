// A conversation: what is written is shown at once and sent until it is acknowledged; what comes is
// shown once, in order. What is not sent yet outlives the page, for this reader in this tab.
import { createView } from "./chat_view.js";
import { channel } from "./socket.js";
import { whenOf } from "./times.js";
import { me } from "./unread.js";

const MAX_CHARACTERS = 5000;
const TYPING_MS = 4000;
const ACK_MS = 10_000;
const RETRY_MS = 3000 * (1 + Math.random()); // One for all messages, which keeps their order.
const room = document.querySelector("[data-room]");
const { dataset } = room;
const conversation = Number(dataset.room);
const reads = JSON.parse(dataset.reads);
const form = room.querySelector("form[data-chat]");
const field = form.elements.content;
const part = (name) => room.querySelector(`[data-${name}]`);
const store = `${me}-${conversation}`;
const unsent = JSON.parse(sessionStorage.getItem(`outbox-${store}`) ?? "[]");
const outbox = new Map(unsent.map((letter) => [letter.id, letter]));
const view = createView(room, me, { again, edit });
const typing = new Map();
let typedAt = 0;
let readId = view.lastId();
let posting = Promise.resolve();

// Sending ----------------------------------------------------------------------------------

function send() {
  const content = field.value.replaceAll("\r\n", "\n");
  if (!content.trim()) return;
  if ([...content].length > MAX_CHARACTERS) {
    view.showProblem(dataset.textLong);
    return;
  }
  const id = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  const letter = { id, content, created_at: new Date().toISOString() };
  outbox.set(id, letter);
  write("");
  stopTyping();
  view.showProblem("");
  view.showPending(letter);
  view.toBottom();
  transmit(letter);
}

function transmit(letter) {
  delete letter.fault;
  keep();
  view.setState(letter, dataset.textSending);
  const data = { conversation_id: conversation, content: letter.content, client_message_id: letter.id };
  clearTimeout(letter.timer);
  if (!channel.send("send_message", data, letter.id)) posting = posting.then(() => post(letter));
  else letter.timer = setTimeout(() => channel.reconnect(), ACK_MS);
}

// Without the channel a message goes by a request; its own id makes sure that it is stored once.
async function post(letter) {
  const headers = {
    "content-type": "application/json",
    "x-csrf-token": document.querySelector("meta[name=csrf-token]").content,
  };
  const body = JSON.stringify({ content: letter.content, client_message_id: letter.id });
  try {
    const answer = await fetch(dataset.api, { method: "POST", headers, body });
    const told = await answer.json();
    if (answer.ok) accept(letter, told.message);
    else refuse(letter, told);
  } catch {
    view.setState(letter, dataset.textWaiting);
    retry(letter);
  }
}

// Where the channel never opens, or not again, nothing else sends it again.
function retry(letter) {
  clearTimeout(letter.timer);
  letter.timer = setTimeout(() => {
    if (outbox.has(letter.id)) transmit(letter);
  }, RETRY_MS);
}

function accept(letter, message) {
  clearTimeout(letter.timer);
  outbox.delete(letter.id);
  keep();
  view.dropPending(letter);
  show(message);
}

function refuse(letter, problem) {
  clearTimeout(letter.timer);
  const { code } = problem;
  if (code === "rate_limited") {
    const seconds = problem.retry_after ?? 60;
    view.setState(letter, dataset.textLater.replace("{seconds}", seconds));
    letter.timer = setTimeout(() => transmit(letter), seconds * 1000);
  } else if (code === "unavailable" || code === "internal") {
    retry(letter);
  } else if (code === "unauthenticated") {
    view.setState(letter, dataset.textWaiting);
    end();
  } else {
    letter.fault = code === "conversation_left" ? dataset.textLeft : faultOf(problem);
    keep();
    view.showFault(letter);
    view.showProblem(letter.fault);
  }
}

function faultOf(problem) {
  const text = problem.errors?.[0]?.message;
  const known = part("faults").content.querySelectorAll("data");
  return [...known].find((each) => text?.startsWith(each.value))?.textContent ?? dataset.textFailed;
}

function again(letter) {
  view.showProblem("");
  transmit(letter);
}

function edit(letter) {
  view.showProblem("");
  clearTimeout(letter.timer);
  outbox.delete(letter.id);
  keep();
  view.dropPending(letter);
  write(field.value ? `${letter.content}\n${field.value}` : letter.content);
  field.focus();
}

function keep() {
  const letters = JSON.stringify([...outbox.values()], ["id", "content", "created_at", "fault"]);
  sessionStorage.setItem(`outbox-${store}`, letters);
}

// Writing ----------------------------------------------------------------------------------

function write(text) {
  field.value = text;
  field.dispatchEvent(new Event("input"));
}

function stopTyping() {
  if (typedAt) channel.send("typing", { conversation_id: conversation, is_typing: false });
  typedAt = 0;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
field.addEventListener("input", () => {
  sessionStorage.setItem(`draft-${store}`, field.value);
  if (!field.value.trim()) stopTyping();
  else if (Date.now() - typedAt > TYPING_MS) {
    if (channel.send("typing", { conversation_id: conversation, is_typing: true })) typedAt = Date.now();
  }
});
if (matchMedia("(pointer: fine)").matches) {
  part("keys").hidden = false;
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
}

// Receiving --------------------------------------------------------------------------------

function show(message) {
  const isNew = view.showMessage(message);
  part("empty")?.remove();
  view.showReceipt(reads);
  if (isNew && message.sender_id === me) view.toBottom();
  else if (isNew) markRead();
}

function markRead() {
  const last = view.lastId();
  if (last <= readId || document.visibilityState !== "visible" || !view.isAtBottom()) return;
  if (channel.send("read", { conversation_id: conversation, message_id: last })) readId = last;
}

channel.on("lost", () => {
  part("offline").hidden = document.visibilityState === "hidden";
  typing.clear();
  showTyping();
  if (!channel.isOpen) return; // Lost before: what was sent over the channel is sent again already.
  for (const letter of outbox.values()) if (!letter.fault) retry(letter);
});
channel.on("ended", end);
channel.on("new_message", (message) => {
  if (message.conversation_id !== conversation) return;
  if (message.sender_id === me) {
    const own = [...outbox.values()].find((each) => !each.fault && each.content === message.content);
    if (own) view.dropPending(own);
  }
  typing.delete(message.sender_id);
  showTyping();
  show(message);
});
channel.on("ack", ({ message, ref }) => {
  const letter = outbox.get(ref);
  if (letter) accept(letter, message);
});
channel.on("error", (problem) => {
  const letter = outbox.get(problem.ref);
  if (letter) refuse(letter, problem);
});
channel.on("read", (mark) => {
  if (mark.conversation_id !== conversation || !(mark.user_id in reads)) return;
  reads[mark.user_id] = Math.max(reads[mark.user_id], mark.message_id);
  view.showReceipt(reads);
});
channel.on("typing", (told) => {
  if (told.conversation_id !== conversation) return;
  if (told.is_typing) typing.set(told.user_id, told.sender_name);
  else typing.delete(told.user_id);
  showTyping();
});
channel.on("presence", ({ user_id, online, last_seen }) => {
  if ("group" in dataset || !(user_id in reads)) return;
  const seen = last_seen ? dataset.textSeen.replace("{when}", whenOf(new Date(last_seen))) : "";
  part("who").textContent = online ? dataset.textOnline : seen;
});
channel.on("open", begin);
document.addEventListener("visibilitychange", markRead);
view.onBottom(markRead);

function begin() {
  part("offline").hidden = true;
  const others = Object.keys(reads).map(Number);
  if (others.length) channel.send("presence", { user_ids: others.slice(0, 50) });
  for (const letter of outbox.values()) if (!letter.fault) transmit(letter);
  markRead();
}

function showTyping() {
  const names = [...typing.values()].map((name) => name.split(" ")[0]).join(", ");
  part("typing").textContent = names && dataset.textTyping.replace("{name}", names);
  part("typing").hidden = !names;
  part("who").hidden = Boolean(names);
}

function end() {
  part("offline").hidden = true;
  part("ended").hidden = false;
}

// Beginning --------------------------------------------------------------------------------

if (!field.value) write(sessionStorage.getItem(`draft-${store}`) ?? "");
for (const letter of outbox.values()) {
  view.showPending(letter);
  if (letter.fault) view.showFault(letter);
  else retry(letter);
}
view.showReceipt(reads);
if (channel.isOpen) begin();
