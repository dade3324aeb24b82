// The page. Texts of the agent are only ever text, never HTML.
const find = (id) => document.getElementById(id);

// If a box appears or moves, a click that was on its way answers nothing.
const READING_TIME = 1000;
let reading;
const read = () => {
  const buttons = () => document.querySelectorAll("#approvals button");
  for (const button of buttons()) button.disabled = true;
  clearTimeout(reading);
  reading = setTimeout(() => buttons().forEach((button) => (button.disabled = false)), READING_TIME);
};

const show = {
  text: ({ text }) => find("answer").append(text),
  approval: ({ id, description, input }) => {
    const box = document.createElement("section");
    box.id = `approval-${id}`;
    box.append(description, document.createElement("br"), input, document.createElement("br"));
    for (const answer of ["approve", "reject"]) {
      const button = document.createElement("button");
      button.textContent = answer;
      button.onclick = () => window.agent.answer(id, answer);
      box.append(button);
    }
    find("approvals").append(box);
    read();
  },
  resolved: ({ id }) => {
    find(`approval-${id}`)?.remove();
    read();
  },
};

window.agent.onEvent((event) => show[event.type](event));
find("ask").onsubmit = async (event) => {
  event.preventDefault();
  find("state").textContent = "working";
  find("state").textContent = await window.agent.prompt(find("prompt").value);
};
find("stop").onclick = () => window.agent.cancel();
