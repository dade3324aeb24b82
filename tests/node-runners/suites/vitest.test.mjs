import { test } from "vitest";

import * as api from "../../../bindings-node/dist/index.mjs";
import * as testing from "../../../bindings-node/dist/testing.mjs";
import { cases } from "../cases.cjs";

for (const [name, run] of Object.entries(cases({ api, testing }))) test(name, run, 30_000);
