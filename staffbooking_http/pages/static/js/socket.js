// The channel of a page: one WebSocket that reconnects by itself and resumes after the last message,
// so that each message comes once. It sleeps while the page is hidden for long. Frames are events of
// the channel's names; `open`, `lost` and `ended` (the session) are events of the connection.
const HIDDEN_MS = 60_000;
const TICK_MS = 15_000;
const MAX_DELAY_MS = 30_000;
const SESSION_ENDED = 1008;

class Channel extends EventTarget {
  isOpen = false;
  #address = "";
  #probe = "";
  #me = 0;
  #last = 0;
  #socket = null;
  #attempts = 0;
  #timer = 0;
  #seenAt = Date.now();

  /** Connect as the user `me`, once; messages above the id `last` come first. `probe` is asked for
      the session. */
  start(base, me, last, probe) {
    if (this.#probe) return;
    this.#me = me;
    this.#address = `${location.origin.replace("http", "ws")}${base}/ws`;
    this.#probe = probe;
    this.#last = last;
    this.#connect();
    addEventListener("online", () => this.reconnect());
    document.addEventListener("visibilitychange", () => this.#look());
    setInterval(() => this.#look(), TICK_MS);
  }

  on(name, handler) {
    this.addEventListener(name, (event) => handler(event.detail));
  }

  /** Whether the frame was sent: not without a connection. */
  send(event, data, ref) {
    if (this.isOpen) this.#socket.send(JSON.stringify({ event, data, ref }));
    return this.isOpen;
  }

  reconnect() {
    this.#attempts = 0;
    this.#drop();
    this.#connect();
  }

  // Timers stand still while a device sleeps: a long gap means that the connection may be dead.
  #look() {
    const now = Date.now();
    const gap = now - this.#seenAt;
    if (document.visibilityState === "visible") {
      this.#seenAt = now;
      if (gap > HIDDEN_MS || (!this.#socket && !this.#timer)) this.reconnect();
    } else if (gap > HIDDEN_MS) this.#drop();
  }

  #connect() {
    if (!this.#address) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    const socket = new WebSocket(`${this.#address}?after=${this.#last}`);
    this.#socket = socket;
    socket.onmessage = ({ data }) => this.#take(JSON.parse(data));
    socket.onclose = ({ code }) => {
      if (socket !== this.#socket) return;
      this.#drop();
      this.#retry(code);
    };
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      socket.onclose = socket.onmessage = null;
      socket.close();
    }
    if (this.isOpen) this.#tell("lost");
    this.isOpen = false;
    document.documentElement.dataset.channel = "lost";
  }

  #take({ event, data, ref }) {
    if (event === "new_message") {
      if (data.id <= this.#last) return;
      this.#last = data.id;
    }
    if (event === "ready") {
      if (data.user_id !== this.#me) {
        this.#end(); // Somebody else has signed in at this browser.
        return;
      }
      this.isOpen = true;
      document.documentElement.dataset.channel = "open";
      this.#attempts = 0;
    }
    this.#tell(event === "ready" ? "open" : event, { ...data, ref });
  }

  async #retry(code) {
    const most = Math.min(MAX_DELAY_MS, 1000 * 2 ** this.#attempts);
    const delay = code === SESSION_ENDED ? MAX_DELAY_MS : most * (0.5 + Math.random() / 2);
    this.#attempts += 1;
    this.#timer = setTimeout(() => this.#connect(), delay);
    if (this.#attempts > 1) this.#tell("lost");
    const answer = await fetch(this.#probe, { headers: { accept: "application/json" } }).catch(() => null);
    if (answer?.status === 401) this.#end();
  }

  #end() {
    clearTimeout(this.#timer);
    this.#address = "";
    this.#drop();
    this.#tell("ended");
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

export const channel = new Channel();
