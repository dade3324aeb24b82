/** Shows the recordings that are embedded in the page. */

import { render } from "preact";

import { readInput } from "./model/input";
import { App } from "./ui/app";

const data = document.getElementById("kimi-agent-recordings");
const root = document.getElementById("inspector");
if (root) {
  const input = readInput(data?.textContent ?? "");
  root.textContent = "";
  render(<App input={input} />, root);
}
