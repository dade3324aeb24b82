// The main process of Electron: it owns the agent. The page gets events, and sends prompts and answers.
import { fileURLToPath } from "node:url";
import { app, BrowserWindow, ipcMain } from "electron";
import { createSession, isKimiAgentError, printable } from "kimi-agent";

const PAGE = new URL("index.html", import.meta.url).href;
const PRELOAD = fileURLToPath(new URL("preload.cjs", import.meta.url));
const ANSWERS = ["approve", "approve_for_session", "reject"];
// Nothing that a person decides about is hidden by characters without a glyph, or by many blanks.
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\u00a0\u2000-\u200a\u202f\u205f\u2800\u3000]/gu;
const shown = (text) =>
  printable(text)
    .replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`)
    .replace(/\s{17,}/g, (run) => `[${run.length} blanks]`);
const waiting = new Map(); // The approvals without an answer, by ID.
let count = 0;
let window;
let session;
let turn;
let busy = false;

function send(event) {
  if (window && !window.isDestroyed()) window.webContents.send("agent:event", event);
}

/** The arguments of the call, and the further paths that the agent names. */
function input(call) {
  const paths = [...(call?.locations ?? []), ...(call?.diffs ?? [])];
  const on = paths.length > 0 ? ` on ${JSON.stringify(paths)}` : "";
  return `${JSON.stringify(call?.arguments ?? "The arguments are not known.")}${on}`;
}

/** Waits until the person answers, or the turn ends. */
function askPerson(request, { signal }) {
  const id = String((count += 1));
  return new Promise((resolve) => {
    const finish = (answer, outcome = answer) => {
      if (!waiting.delete(id)) return;
      send({ type: "resolved", id, answer: outcome });
      resolve(answer);
    };
    signal.addEventListener("abort", () => finish("reject", "withdrawn"));
    waiting.set(id, finish);
    send({ type: "approval", id, description: shown(request.description), input: shown(input(request.tool_call)) });
  });
}

async function prompt(text) {
  if (busy) throw new Error("the agent is working");
  busy = true;
  try {
    // PATH of a program that was started from the desktop may lack the agent: name it by its path, or let the user choose.
    if (!session || session.state === "closed") {
      session = await createSession({ workDir: app.getPath("documents"), onApproval: askPerson });
    }
    turn = session.prompt(text);
    for await (const piece of turn.textStream) send({ type: "text", text: piece });
    return (await turn.result()).status;
  } catch (error) {
    console.error(error);
    return isKimiAgentError(error) ? error.code : "internal_error";
  } finally {
    turn = undefined;
    busy = false;
  }
}

const calls = {
  "agent:prompt": (text) => prompt(String(text)),
  "agent:answer": (id, answer) => {
    if (ANSWERS.includes(answer)) waiting.get(id)?.(answer);
  },
  "agent:cancel": () => turn?.cancel(),
};
for (const [channel, call] of Object.entries(calls)) {
  ipcMain.handle(channel, (event, ...args) => {
    if (event.senderFrame?.url !== PAGE) throw new Error("the call does not come from the page of this program");
    return call(...args);
  });
}

app.on("web-contents-created", (_, contents) => {
  contents.on("will-navigate", (event) => event.preventDefault());
  contents.setWindowOpenHandler(() => ({ action: "deny" }));
});
app.on("window-all-closed", () => app.quit());
app.on("before-quit", (event) => {
  if (!session) return;
  // The agent is closed first. Then the program quits.
  event.preventDefault();
  const closing = session;
  session = undefined;
  void closing.close().finally(() => app.quit());
});

app.whenReady().then(() => {
  window = new BrowserWindow({
    webPreferences: { preload: PRELOAD, contextIsolation: true, nodeIntegration: false, sandbox: true },
  });
  return window.loadURL(PAGE);
});
