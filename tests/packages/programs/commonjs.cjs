const { prompt } = require("kimi-agent");
const { scriptedAgent } = require("kimi-agent/testing");

prompt("world", { executable: scriptedAgent([[{ text: ["hello ", "{{prompt}}"] }]]) })
  .result()
  .then(({ text }) => console.log(text));
