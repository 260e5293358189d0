// The list of conversations: the newest first, each with its last message, unread count and presence.
import { channel } from "./socket.js";
import { showTime, showTimes } from "./times.js";
import { isOpen, me } from "./unread.js";

const list = document.querySelector("[data-talks]");

showTimes(document);
channel.on("new_message", (message) => {
  const item = list?.querySelector(`[data-item="${message.conversation_id}"]`);
  if (item) showLast(item, message);
});
channel.on("read", ({ conversation_id, user_id }) => {
  if (user_id !== me) return;
  const count = list?.querySelector(`[data-item="${conversation_id}"] [data-count]`);
  if (!count) return;
  count.hidden = true;
  count.firstElementChild.textContent = "";
});
channel.on("presence", ({ user_id, online }) => {
  for (const face of document.querySelectorAll(`[data-presence="${user_id}"]`)) {
    face.toggleAttribute("data-online", online);
  }
});

function showLast(item, message) {
  const isOwn = message.sender_id === me;
  const text = document.createElement("bdi");
  text.dir = "auto";
  text.textContent = [...message.content].slice(0, 120).join("");
  item.querySelector("[data-last]").replaceChildren(isOwn ? `${list.dataset.you}: ` : "", text);
  const time = item.querySelector("time");
  time.dateTime = message.created_at;
  time.hidden = false;
  showTime(time);
  const count = item.querySelector("[data-count]");
  if (!isOwn && !isOpen(message.conversation_id)) {
    count.firstElementChild.textContent = Number(count.firstElementChild.textContent) + 1;
    count.hidden = false;
  }
  list.prepend(item);
}
