"""An agent in a notebook: cells await at the top level, and an answer is displayed while it arrives."""

# %% A session for the whole notebook
from IPython.display import Markdown, display

import kimi_agent

session = await kimi_agent.create_session(work_dir=".")


# %% A function that shows an answer as it arrives
async def ask(question: str) -> kimi_agent.PromptResult:
    shown = display(Markdown("…"), display_id=True)
    text = ""
    async with session.prompt(question) as turn:
        async for piece in turn.text_stream:
            text += piece
            shown.update(Markdown(text))
        return await turn.result()


# %% A question
result = await ask("What is in this directory?")

# %% What it cost
print(result.status, result.usage.total)

# %% At the end
await session.close()
