from kimi_agent import TextPart
from kimi_agent.sync import create_session
from kimi_agent.testing import scripted_agent

with create_session(executable=scripted_agent([[{"text": ["hello ", "{{prompt}}"]}]])) as session:
    for event in session.prompt("world"):
        if isinstance(event, TextPart):
            print(event.text, end="")
