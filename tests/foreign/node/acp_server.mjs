// The official server of ACP's TypeScript SDK in front of an agent that speaks ACP on stdin and stdout: `node acp_server.mjs
// [--token TOKEN] [--tls KEY CERTIFICATE] PROGRAM ARG…`. Each connection has a process of its own. It prints its port, and ends with its input.
//
// `/acp` is the agent, `/reset` ends all connections without a word.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { Readable, Writable } from "node:stream";

import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { WebSocketServer } from "ws";

const words = process.argv.slice(2);
const token = words[0] === "--token" ? words.splice(0, 2)[1] : undefined;
const tls = words[0] === "--tls" ? words.splice(0, 3).slice(1) : undefined;
const [program, ...args] = words;

/** An agent: its process, whose lines are the messages of the stream. */
const agent = {
  connect({ readable, writable }) {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    void readable.pipeTo(lines.writable).catch(() => child.kill());
    void lines.readable.pipeTo(writable).catch(() => child.kill());
    return { closed: new Promise((resolve) => child.once("exit", () => resolve())) };
  },
};

const server = new AcpServer({ agent });
const handle = createNodeHttpHandler(server);
const upgrade = createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true }));
const isAllowed = (request) => token === undefined || request.headers.authorization === `Bearer ${token}`;
const isAgent = (request) => new URL(request.url, "http://x").pathname === "/acp";
const sockets = new Set();

function answer(request, response) {
  if (request.url === "/reset") {
    response.end();
    sockets.forEach((socket) => socket !== request.socket && socket.destroy());
  } else if (!isAgent(request)) response.writeHead(404).end();
  else if (!isAllowed(request)) response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
  else {
    // Each connection has a cookie, which the following requests must have.
    const isFirst = request.method === "POST" && !request.headers["acp-connection-id"];
    if (isFirst) response.setHeader("Set-Cookie", "affinity=one; Path=/acp; HttpOnly");
    else if (request.headers.cookie !== "affinity=one") return void response.writeHead(421).end();
    handle(request, response);
  }
}

const http = tls
  ? createSecureServer({ key: readFileSync(tls[0]), cert: readFileSync(tls[1]) }, answer)
  : createServer(answer);
http.on(tls ? "secureConnection" : "connection", (socket) => {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
});
http.on("upgrade", (request, socket, head) => {
  if (!isAgent(request)) socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  else if (!isAllowed(request)) {
    socket.end("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n");
  } else upgrade(request, socket, head);
});
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.stdin.resume().once("end", () => process.exit());
