// Stands for the package `electron` in tests: the calls that the program uses, in one process and without windows.
const { EventEmitter } = require("node:events");

const handlers = new Map();
const renderer = new EventEmitter();

/** What the page of the window sees, and the address that calls of the page come from. */
exports.world = {};
exports.page = { url: undefined, options: undefined };

class App extends EventEmitter {
  documents = process.cwd();
  whenReady() {
    return Promise.resolve();
  }
  getPath() {
    return this.documents;
  }
  quit() {
    let prevented = false;
    this.emit("before-quit", { preventDefault: () => (prevented = true) });
    if (!prevented) this.emit("quit");
  }
}
exports.app = new App();

exports.BrowserWindow = class {
  constructor(options) {
    exports.page.options = options.webPreferences;
    this.webContents = { send: (channel, event) => renderer.emit(channel, {}, structuredClone(event)) };
  }
  isDestroyed() {
    return false;
  }
  async loadURL(url) {
    exports.page.url = url;
    require(exports.page.options.preload);
    exports.app.emit("loaded");
  }
};

exports.ipcMain = { handle: (channel, handler) => handlers.set(channel, handler) };
exports.ipcRenderer = {
  invoke: async (channel, ...args) =>
    structuredClone(await handlers.get(channel)({ senderFrame: { url: exports.page.url } }, ...structuredClone(args))),
  on: (channel, listener) => renderer.on(channel, listener),
};
exports.contextBridge = { exposeInMainWorld: (name, api) => (exports.world[name] = api) };
