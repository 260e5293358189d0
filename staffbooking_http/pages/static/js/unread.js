// The number of unread messages, at the navigation's link to the messages and in the title.
import { channel } from "./socket.js";

const PAUSE_MS = 1500;
const link = document.querySelector("a[data-unread]");
const title = document.title;
/** The id of the reader. */
export const me = Number(link?.dataset.user);
let unread = 0;
let counted = 0;
let timer = 0;
let isBack = false;

if (link) begin();
// What was written and not sent is not left for the next person at this browser.
document
  .querySelector("form[action$='/account/sign-out']")
  ?.addEventListener("submit", () => sessionStorage.clear());

async function begin() {
  const base = link.pathname.replace(/\/conversations$/, "");
  const live = document.querySelector("[data-after]");
  const start = (last) => channel.start(base, me, last, link.dataset.unread);
  if (live) start(Number(live.dataset.after));
  // A page that is soon left opens no connection.
  if (await count()) setTimeout(() => start(counted), PAUSE_MS);
}

channel.on("open", () => {
  if (isBack) countSoon();
  isBack = true;
});
channel.on("new_message", (message) => {
  if (message.id <= counted || message.sender_id === me || isOpen(message.conversation_id)) return;
  unread += 1;
  show();
});
channel.on("read", ({ user_id }) => {
  if (user_id === me && unread) countSoon();
});

/** Whether a conversation is before the reader's eyes. */
export function isOpen(conversation) {
  const room = document.querySelector("[data-room]");
  return room?.dataset.room === String(conversation) && document.visibilityState === "visible";
}

function countSoon() {
  clearTimeout(timer);
  timer = setTimeout(count, 500);
}

async function count() {
  const answer = await fetch(link.dataset.unread).catch(() => null);
  if (!answer?.ok) return false;
  ({ unread, last_message_id: counted } = await answer.json());
  show();
  return true;
}

function show() {
  document.title = unread ? `(${unread}) ${title}` : title;
  for (const place of [link, ...document.querySelectorAll("[data-badge]")]) {
    place.querySelector(".unread")?.remove();
    if (unread) place.append(badgeOf(unread));
  }
}

function badgeOf(number) {
  const badge = document.createElement("span");
  badge.className = "unread";
  const word = document.createElement("span");
  word.className = "hidden-text";
  word.textContent = ` ${link.dataset.new}`;
  badge.append(number > 99 ? "99+" : String(number), word);
  return badge;
}
