"""The examples in the docstrings of the message classes of Python, by class; tools/generate_python.py writes them.

`bindings-python/tests/test_doctests.py` runs them. `turn` is a turn whose agent says "There are 3 files."
"""

from __future__ import annotations

import textwrap

_EXAMPLES = {
    "TextPart": """
        >>> async for event in turn:
        ...     match event:
        ...         case TextPart(text=text):
        ...             print(text)
        There are 3 files.
    """,
    "ThinkPart": """
        >>> event = ThinkPart("First a list.")
        >>> match event:
        ...     case ThinkPart(think=text):
        ...         print(text)
        First a list.
    """,
    "ImageURLPart": """
        >>> ImageURLPart(MediaURL("https://example.com/screenshot.png")).image_url.url
        'https://example.com/screenshot.png'
    """,
    "AudioURLPart": """
        >>> AudioURLPart(MediaURL("https://example.com/call.mp3")).audio_url.url
        'https://example.com/call.mp3'
    """,
    "VideoURLPart": """
        >>> VideoURLPart(MediaURL("https://example.com/demo.mp4")).video_url.url
        'https://example.com/demo.mp4'
    """,
    "ResourcePart": """
        >>> ResourcePart("issue:7", text="The parser fails on empty lines.").uri
        'issue:7'
    """,
    "Cost": """
        >>> cost = Cost(0.25, "USD", "reported")
        >>> print(cost.amount, cost.currency)
        0.25 USD
    """,
    "MediaURL": """
        >>> address = MediaURL("https://example.com/screenshot.png")
        >>> turn = session.prompt(["What is wrong here?", ImageURLPart(address)])
    """,
    "UnknownContentPart": """
        >>> event = event_from_dict({"type": "ContentPart", "payload": {"type": "hologram", "depth": 3}})
        >>> match event:
        ...     case UnknownContentPart(type=kind, extra=fields):
        ...         print(kind, fields["depth"])
        hologram 3
    """,
    "BriefDisplayBlock": """
        >>> BriefDisplayBlock("3 files changed").text
        '3 files changed'
    """,
    "DiffDisplayBlock": """
        >>> block = DiffDisplayBlock("notes.txt", old_text="one", new_text="two", old_start=1, new_start=1)
        >>> print(f"{block.path}:{block.new_start}: {block.old_text} -> {block.new_text}")
        notes.txt:1: one -> two
    """,
    "TodoDisplayItem": """
        >>> item = TodoDisplayItem("Write tests", "done")
        >>> print("[x]" if item.status == "done" else "[ ]", item.title)
        [x] Write tests
    """,
    "TodoDisplayBlock": """
        >>> block = TodoDisplayBlock([TodoDisplayItem("Write tests", "done"), TodoDisplayItem("Fix them", "pending")])
        >>> [item.title for item in block.items if item.status != "done"]
        ['Fix them']
    """,
    "ShellDisplayBlock": """
        >>> block = ShellDisplayBlock("bash", "make test")
        >>> print("$", printable(block.command))
        $ make test
    """,
    "BackgroundTaskDisplayBlock": """
        >>> block = BackgroundTaskDisplayBlock("bash-1", "bash", "running", "Run the tests")
        >>> print(f"{block.task_id}: {block.description} ({block.status})")
        bash-1: Run the tests (running)
    """,
    "UnknownDisplayBlock": """
        >>> block = UnknownDisplayBlock("chart", {"bars": [1, 2]})
        >>> block.type, block.extra["bars"]
        ('chart', [1, 2])
    """,
    "TurnBegin": """
        >>> async for event in turn:
        ...     if isinstance(event, TurnBegin):
        ...         print("You:", event.user_input)
        You: What is in this directory?
    """,
    "TurnEnd": """
        >>> async for event in turn:
        ...     if isinstance(event, TurnEnd):
        ...         print("The turn has ended.")
        The turn has ended.
    """,
    "SteerInput": """
        >>> SteerInput("Only the unit tests").user_input
        'Only the unit tests'
    """,
    "StepBegin": """
        >>> async for event in turn:
        ...     if isinstance(event, StepBegin):
        ...         print("Step", event.n)
        Step 1
    """,
    "StepInterrupted": """
        >>> event = StepInterrupted()
        >>> match event:
        ...     case StepInterrupted():
        ...         print("The step was interrupted.")
        The step was interrupted.
    """,
    "StepRetry": """
        >>> event = StepRetry(1, 2, 3, wait_s=0.5, error_type="APIStatusError", status_code=429)
        >>> print(f"attempt {event.next_attempt} of {event.max_attempts} in {event.wait_s} s: {event.status_code}")
        attempt 2 of 3 in 0.5 s: 429
    """,
    "CompactionBegin": """
        >>> event = CompactionBegin()
        >>> match event:
        ...     case CompactionBegin():
        ...         print("Compacting the context …")
        Compacting the context …
    """,
    "CompactionEnd": """
        >>> event = CompactionEnd()
        >>> match event:
        ...     case CompactionEnd():
        ...         print("The context has been compacted.")
        The context has been compacted.
    """,
    "MCPLoadingBegin": """
        >>> event = MCPLoadingBegin()
        >>> match event:
        ...     case MCPLoadingBegin():
        ...         print("Connecting to MCP servers …")
        Connecting to MCP servers …
    """,
    "MCPLoadingEnd": """
        >>> event = MCPLoadingEnd()
        >>> match event:
        ...     case MCPLoadingEnd():
        ...         print(session.status.mcp_status)
        None
    """,
    "TokenUsage": """
        >>> usage = TokenUsage(input_other=200, output=50, input_cache_read=800, input_cache_creation=0)
        >>> usage.input, usage.total
        (1000, 1050)
    """,
    "MCPStatus": """
        >>> status = MCPStatus(loading=False, connected=1, total=2, tools=5)
        >>> print(f"{status.connected} of {status.total} MCP servers, {status.tools} tools")
        1 of 2 MCP servers, 5 tools
    """,
    "MCPServer": """
        >>> server = MCPServer("docs", "connected", ["search"])
        >>> print(server.name, server.status, server.tools)
        docs connected ['search']
    """,
    "StatusUpdate": """
        >>> event = StatusUpdate(context_usage=0.25, context_tokens=32_000, max_context_tokens=128_000)
        >>> if event.context_usage is not None:
        ...     print(f"{event.context_usage:.0%} of the context is used")
        25% of the context is used
    """,
    "Notification": """
        >>> async for event in turn:
        ...     match event:
        ...         case Notification(title=title, severity=severity):
        ...             print(f"{severity}: {title}")
        success: Tests passed
    """,
    "PlanDisplay": """
        >>> event = PlanDisplay("# Plan", file_path="/home/me/plan.md")
        >>> print(event.content)
        # Plan
    """,
    "Plan": """
        >>> event = Plan([PlanEntry("Write tests", "completed"), PlanEntry("Fix the bug", "in_progress")])
        >>> print([entry.content for entry in event.entries if entry.status != "completed"])
        ['Fix the bug']
    """,
    "PlanEntry": """
        >>> entry = PlanEntry("Write tests", "pending", priority="high")
        >>> print(entry.status, entry.content)
        pending Write tests
    """,
    "HookTriggered": """
        >>> event = HookTriggered("PreToolUse", target="Shell", hook_count=2)
        >>> print(f"{event.hook_count} hooks before {event.target}")
        2 hooks before Shell
    """,
    "HookResolved": """
        >>> event = HookResolved("PreToolUse", target="Shell", action="block", reason="Not today.", duration_ms=12)
        >>> if event.action == "block":
        ...     print(event.target, "was blocked:", event.reason)
        Shell was blocked: Not today.
    """,
    "BtwBegin": """
        >>> BtwBegin("btw-1", "Which tests are slow?").question
        'Which tests are slow?'
    """,
    "BtwEnd": """
        >>> event = BtwEnd("btw-1", response="Those of the scheduler.")
        >>> print(event.response or event.error)
        Those of the scheduler.
    """,
    "ApprovalResponse": """
        >>> event = ApprovalResponse("request-1", "reject", feedback="Call it two.txt.")
        >>> print(event.response, "-", event.feedback)
        reject - Call it two.txt.
    """,
    "SubagentEvent": """
        >>> event = SubagentEvent("call-1", "a1", "explore", TextPart("Found it."))
        >>> match event:
        ...     case SubagentEvent(subagent_type=kind, event=TextPart(text=text)):
        ...         print(f"{kind}: {text}")
        explore: Found it.
    """,
    "UnknownEvent": """
        >>> event = event_from_dict({"type": "Weather", "payload": {"sky": "clear"}})
        >>> match event:
        ...     case UnknownEvent(type=kind, payload=payload):
        ...         print(kind, payload)
        Weather {'sky': 'clear'}
    """,
    "PolicyDecision": """
        >>> call = ToolCallInfo("call-1", "Shell", arguments={"command": "rm -rf build"})
        >>> event = PolicyDecision(call, "deny", rule="execute(rm *)", source="policy.toml:2")
        >>> print(f"{event.tool_call.name}: {event.decision} by {event.rule}")
        Shell: deny by execute(rm *)
    """,
    "HandlerFailed": """
        >>> event = HandlerFailed("tool", "get_price", "call-1", message="KeyError: 'no such product'")
        >>> print(f"{event.handler} {event.name}: {event.message}")
        tool get_price: KeyError: 'no such product'
    """,
    "ToolCall": """
        >>> event = ToolCall("call-1", FunctionCall("Shell", arguments=""))
        >>> match event:
        ...     case ToolCall(function=FunctionCall(name=name)):
        ...         print("Tool:", name)
        Tool: Shell
    """,
    "FunctionCall": """
        >>> FunctionCall("Shell", arguments='{"command": "ls"}').name
        'Shell'
    """,
    "ToolCallPart": """
        >>> parts = [ToolCallPart('{"command": '), ToolCallPart('"ls"}')]
        >>> "".join(part.arguments_part or "" for part in parts)
        '{"command": "ls"}'
    """,
    "ToolResult": """
        >>> event = ToolResult("call-1", ToolReturnValue.ok("README.md"))
        >>> print("failed" if event.return_value.is_error else event.return_value.output)
        README.md
    """,
    "ToolCallInfo": """
        >>> call = ToolCallInfo("call-1", "Shell", arguments={"command": "ls"})
        >>> print(call.name, call.arguments)
        Shell {'command': 'ls'}
    """,
    "ToolReturnValue": """
        >>> def read_page(arguments):
        ...     if arguments["number"] > 20:
        ...         return ToolReturnValue.error("the manual has 20 pages")
        ...     return ToolReturnValue.ok("Welcome.", message="page 1 of 20")
        >>> read_page({"number": 21}).is_error
        True
    """,
    "ApprovalRequest": """
        >>> def decide(request: ApprovalRequest) -> Approval:
        ...     print(printable(request.description))
        ...     return "approve" if request.tool_call and request.tool_call.name == "ReadFile" else "reject"
        >>> session = await create_session(work_dir=".", on_approval=decide)
        >>> await session.close()
    """,
    "ToolCallRequest": """
        >>> event = ToolCallRequest("call-1", "search", arguments='{"query": "tea"}')
        >>> print(event.name, event.arguments)
        search {"query": "tea"}
    """,
    "QuestionRequest": """
        >>> def answer(request: QuestionRequest) -> QuestionAnswer:
        ...     return {question.question: question.options[0].label for question in request.questions}
        >>> session = await create_session(work_dir=".", on_question=answer)
        >>> await session.close()
    """,
    "Question": """
        >>> question = Question("Which language?", options=[QuestionOption("Python"), QuestionOption("Rust")])
        >>> print(question.question, [option.label for option in question.options])
        Which language? ['Python', 'Rust']
    """,
    "QuestionOption": """
        >>> option = QuestionOption("Rust", description="fast")
        >>> print(f"{option.label} ({option.description})")
        Rust (fast)
    """,
    "HookRequest": """
        >>> def check(request: HookRequest) -> HookAnswer:
        ...     return Block("Delete nothing.") if "rm -rf" in str(request.input_data) else None
        >>> hook = Hook("PreToolUse", check, matcher="Shell")
    """,
    "ReadFileRequest": """
        >>> files = {"/project/notes.txt": "buy milk"}
        >>> def read_file(request: ReadFileRequest) -> str | None:
        ...     return files.get(request.path)
        >>> read_file(ReadFileRequest("1", "/project/notes.txt"))
        'buy milk'
    """,
    "WriteFileRequest": """
        >>> files: dict[str, str] = {}
        >>> def write_file(request: WriteFileRequest) -> None:
        ...     files[request.path] = request.content
        >>> write_file(WriteFileRequest("1", "/project/notes.txt", "buy milk"))
        >>> files
        {'/project/notes.txt': 'buy milk'}
    """,
    "TerminalRequest": """
        >>> def run(request: TerminalRequest) -> TerminalResult:
        ...     return TerminalResult(f"{request.command} is not available", 127)
        >>> run(TerminalRequest("1", "make", args=["test"], env={}, cwd="/project")).output
        'make is not available'
    """,
    "TerminalResult": """
        >>> result = TerminalResult("3 tests passed", 0)
        >>> print(result.output, result.exit_code)
        3 tests passed 0
    """,
    "InitializeResult": """
        >>> result = InitializeResult("1.10", ServerInfo("Kimi Code CLI", "1.50"))
        >>> result.server.version
        '1.50'
    """,
    "ServerInfo": """
        >>> if session.server is not None:
        ...     print(session.server.name)
        kimi-scripted-agent
    """,
    "SlashCommand": """
        >>> for command in session.slash_commands:
        ...     print(f"/{command.name}: {command.description}")
    """,
    "ExternalToolsResult": """
        >>> for rejected in session.external_tools.rejected:
        ...     print(rejected.name, "-", rejected.reason)
    """,
    "RejectedTool": """
        >>> rejected = RejectedTool("Shell", "the agent has a tool of this name")
        >>> print(rejected.name, "-", rejected.reason)
        Shell - the agent has a tool of this name
    """,
    "HooksInfo": """
        >>> hooks = HooksInfo(supported_events=["PreToolUse", "Stop"])
        >>> "Stop" in hooks.supported_events
        True
    """,
}
EXAMPLES = {name: textwrap.dedent(text).strip("\n").split("\n") for name, text in _EXAMPLES.items()}
