// Asks a question and yields the events of the answer, in a browser or in Node: `["text", "Hello"]`, `["end", "finished"]`.
export async function* ask(address, body, signal) {
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (let read; !(read = await reader.read()).done; ) {
    buffer += read.value.replaceAll("\r", "");
    for (let end; (end = buffer.indexOf("\n\n")) >= 0; buffer = buffer.slice(end + 2)) {
      const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(buffer.slice(0, end)) ?? [];
      if (event) yield [event, JSON.parse(data)];
    }
  }
}
