"use strict";
const api = require("../../../bindings-node/dist/index.js");
const testing = require("../../../bindings-node/dist/testing.js");

for (const [name, run] of Object.entries(require("../cases.cjs").cases({ api, testing }))) test(name, run);
