// The published client of Socket.IO, moved by a test: commands come as lines of JSON, and what
// the client is told goes out as lines of JSON.

import { createInterface } from "node:readline";
import { io } from "socket.io-client";

const [url, cookie, ...transports] = process.argv.slice(2);
const socket = io(url, {
  transports,
  extraHeaders: { cookie },
  reconnectionDelay: 10,
  reconnectionDelayMax: 100,
});

const tell = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);

socket.onAny((event, ...data) => tell({ event, data }));
socket.on("connect", () => tell({ is: "connected" }));
socket.on("disconnect", (reason) => tell({ is: "disconnected", reason, again: socket.active }));
socket.on("connect_error", (error) => tell({ is: "refused", status: error.description ?? null }));

const commands = {
  send: ({ event, data }) => socket.emit(event, ...data),
  ask: ({ event, data }) => socket.emit(event, ...data, (...answer) => tell({ is: "answer", answer })),
  attach: ({ event }) => socket.emit(event, { file: Buffer.from("binary") }),
  transport: () => tell({ is: "transport", name: socket.io.engine.transport.name }),
  drop: () => socket.io.engine.close(),
  leave: () => socket.disconnect(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  commands[command.do](command);
}
socket.disconnect();
