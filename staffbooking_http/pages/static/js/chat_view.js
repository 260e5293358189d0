// What a conversation shows: messages by their ids with the days between them, pending ones below.
import { isSameDay, showTime, showTimes } from "./times.js";

const BOTTOM_PX = 60;

export function createView(room, me, actions) {
  const part = (name) => room.querySelector(`[data-${name}]`);
  const [log, list, pending, jump] = ["log", "messages", "outbox", "jump"].map(part);
  const isGroup = "group" in room.dataset;
  const clone = (name) => part(name).content.firstElementChild.cloneNode(true);
  const bubbles = () => list.querySelectorAll(".bubble");
  const timeOf = (bubble) => bubble.querySelector("time").dateTime;
  const find = (letter) => pending.querySelector(`[data-letter="${letter.id}"]`);

  function bubbleOf({ content, created_at, sender_id, sender_name }) {
    const item = clone("pattern");
    const isOwn = sender_id === undefined || sender_id === me;
    item.classList.toggle("own", isOwn);
    const by = item.querySelector(".bubble-by");
    by.classList.toggle("hidden-text", isOwn || !isGroup);
    by.firstElementChild.textContent = isOwn ? room.dataset.textYou : sender_name;
    item.querySelector(".text").textContent = content;
    const time = item.querySelector("time");
    time.dateTime = created_at;
    showTime(time);
    return item;
  }

  function insert(message) {
    if (list.querySelector(`[data-id="${message.id}"]`)) return false;
    const item = bubbleOf(message);
    item.dataset.id = message.id;
    const later = [...bubbles()].find((each) => Number(each.dataset.id) > message.id);
    list.insertBefore(item, later ? (markOf(later) ?? later) : null);
    markDay(item);
    if (later) markDay(later);
    return true;
  }

  function markOf(bubble) {
    const above = bubble.previousElementSibling;
    return above?.matches(".day") ? above : null;
  }

  // The first message of a day stands below the day's name.
  function markDay(bubble) {
    const mark = markOf(bubble);
    const before = (mark ?? bubble).previousElementSibling;
    const isFirst = !before || !isSameDay(timeOf(before), timeOf(bubble));
    if (!isFirst) mark?.remove();
    else if (!mark) {
      const day = clone("day-pattern");
      day.firstElementChild.dateTime = timeOf(bubble);
      showTime(day.firstElementChild);
      bubble.before(day);
    }
  }

  const isAtBottom = () => log.scrollTop > -BOTTOM_PX;
  const toBottom = () => (log.scrollTop = 0);
  const lastId = () => Number([...bubbles()].at(-1)?.dataset.id ?? 0);

  jump.addEventListener("click", toBottom);
  log.addEventListener("scroll", () => isAtBottom() && (jump.hidden = true), { passive: true });
  showTimes(room);
  bubbles().forEach(markDay);
  watchOlder();

  // The link to older messages loads them when it is scrolled to.
  function watchOlder() {
    const link = part("older");
    if (!link) return;
    const watch = new IntersectionObserver(async (seen) => {
      if (!seen.at(-1).isIntersecting) return;
      watch.disconnect();
      const first = bubbles()[0].dataset.id;
      const answer = await fetch(`${room.dataset.api}?before=${first}&limit=50`).catch(() => null);
      if (!answer?.ok) return;
      const { messages, has_more } = await answer.json();
      list.parentElement.setAttribute("aria-busy", "true");
      for (const message of messages) insert(message);
      list.parentElement.removeAttribute("aria-busy");
      if (has_more) watch.observe(link);
      else link.remove();
    }, { root: log });
    watch.observe(link);
  }

  return {
    isAtBottom,
    toBottom,
    lastId,
    onBottom: (handler) => log.addEventListener("scroll", () => isAtBottom() && handler(), { passive: true }),
    showMessage(message) {
      const wasAtBottom = isAtBottom();
      const isNew = insert(message);
      if (isNew && wasAtBottom) toBottom();
      else if (isNew && message.sender_id !== me) jump.hidden = false;
      return isNew;
    },
    showPending(letter) {
      const item = bubbleOf(letter);
      item.dataset.letter = letter.id;
      const state = document.createElement("span");
      state.dataset.state = "";
      item.querySelector(".bubble-foot").append(" ", state);
      pending.append(item);
    },
    dropPending: (letter) => find(letter)?.remove(),
    setState(letter, text) {
      const item = find(letter);
      if (!item) return;
      item.classList.remove("refused");
      const buttons = item.querySelector(".actions");
      if (buttons?.contains(document.activeElement)) room.querySelector("[name=content]").focus();
      buttons?.remove();
      item.querySelector("[data-state]").textContent = text;
    },
    showFault(letter) {
      this.setState(letter, letter.fault);
      const item = find(letter);
      const buttons = clone("actions");
      buttons.querySelector("[data-again]").addEventListener("click", () => actions.again(letter));
      buttons.querySelector("[data-edit]").addEventListener("click", () => actions.edit(letter));
      item?.classList.add("refused");
      item?.append(buttons);
    },
    showProblem(text) {
      room.querySelector("[data-problem]").textContent = text;
    },
    showReceipt(reads) {
      const last = [...bubbles()].at(-1);
      const marks = Object.values(reads);
      const isRead = marks.length && Math.min(...marks) >= lastId();
      part("receipt").hidden = !last?.classList.contains("own");
      part("receipt").textContent = isRead ? room.dataset.textRead : room.dataset.textSent;
    },
  };
}
