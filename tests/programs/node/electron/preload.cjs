// All that the page can reach: three calls and the events. The page gets neither Node nor Electron.
const { contextBridge, ipcRenderer } = require("electron");

contextBridge.exposeInMainWorld("agent", {
  prompt: (text) => ipcRenderer.invoke("agent:prompt", text),
  answer: (id, answer) => ipcRenderer.invoke("agent:answer", id, answer),
  cancel: () => ipcRenderer.invoke("agent:cancel"),
  onEvent: (listener) => {
    ipcRenderer.on("agent:event", (_, event) => listener(event));
  },
});
