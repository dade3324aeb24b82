"""Makes a plan of one round from a seed: what the agents do, and what the program does with them.

A round has actors, each of which plays one session, several at once. Every text that an actor's agent says, and every
prompt that the actor sends, carries the actor's marker, so that a player sees at once what belongs to another actor.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["LANGUAGES", "make", "write"]

LANGUAGES = ("python", "python-sync", "node")
Json = dict[str, Any]

ACTORS = (6, 12)
# Deadlines of sessions, in seconds: short where a plan lets an agent fall silent, long where none must pass.
SHORT = {"handshake_timeout": 2.0, "idle_timeout": 0.7, "cancel_timeout": 1.0, "close_timeout": 0.5}
LONG = dict.fromkeys(SHORT, 90.0)
# Ways to end a turn early, and what the agent does meanwhile.
EARLY = ("leave", "drop", "cancel", "cancel", "interrupt", "close", "kill", "stop")
WAITING = ({"wait_cancel": True}, {"never_answer": True}, {"stall": True})
DEATHS = ({"exit": 0}, {"exit": 3}, {"signal": "KILL"}, {"signal": "TERM"}, {"close_stdout": True}, {"raw": '{"half'})
NOISE = (
    "no JSON",
    "[]",
    '{"jsonrpc": "2.0"}',
    '{"jsonrpc": "2.0", "id": "nobody", "result": {}}',
    "\x1b]52;c;AAAA\x07",
)


def make(seed: str, language: str, number: int) -> Json:
    """The plan of one round. The same arguments give the same plan."""
    rng = Random(f"{seed}/{language}/{number}")
    actors: list[Json] = []
    agents: list[Json] = []
    for index in range(rng.choice((0, 1, 1, 2))):
        agents.append(_agent(rng, f"{number}-s{index}", actors))
    while len(actors) < rng.randint(*ACTORS):
        actors.append(_alone(rng, f"mark-{number}-{len(actors)}-{rng.randrange(1 << 32):08x}"))
    for actor in actors:
        actor["deadlines"] = dict(LONG if actor["calm"] else SHORT)
    rng.shuffle(actors)
    return {
        "seed": seed, "language": language, "round": number, "width": rng.randint(2, 6),
        "collect": rng.random() < 0.3, "agents": agents, "actors": actors,
    }  # fmt: skip


def _alone(rng: Random, marker: str) -> Json:
    """An actor whose session has a process of its own."""
    wire = rng.choice(("1.10", "1.10", "1.10", "acp", "acp", "1.3", "1.0"))
    actor = _actor(rng, marker, wire, None)
    turns = [_turn(rng, marker, actor, wire, last) for last in _lasts(rng)]
    script: Json = {"wire": wire, "turns": [turn.pop("script") for turn in turns]}
    if rng.random() < 0.06:
        script["before_handshake"] = [rng.choice(({"exit": 3}, {"raw": f"noise {marker}"}, {"stall": True}))]
    if rng.random() < 0.06:
        script["cut"] = {"bytes": rng.randint(1, 2000), "actions": [rng.choice((*DEATHS, {"stall": True}))]}
    actor |= {"turns": turns, "script": script}
    rough = {"before_handshake", "cut"} & script.keys() or any(turn["rough"] for turn in turns) or actor["meddler"]
    return actor | {"calm": not rough}


def _agent(rng: Random, name: str, actors: list[Json]) -> Json:
    """An agent over ACP, whose sessions share a process. All play one script: the marker is in the prompt."""
    number = name.split("-")[0]
    shape = _actor(rng, "", "acp", name)
    turns = [_turn(rng, "{{prompt}}", shape, "acp", last) for last in _lasts(rng)]
    script = {"wire": "acp", "turns": [turn.pop("script") for turn in turns]}
    calm = not any(turn["rough"] for turn in turns)
    mine = []
    for _ in range(rng.randint(1, 5)):
        marker = f"mark-{number}-{len(actors)}-{rng.randrange(1 << 32):08x}"
        one = _actor(rng, marker, "acp", name)
        if one["behaviour"] == "hang" != shape["behaviour"]:
            one["behaviour"] = "slow"
        # How a turn ends is the script's, and so the same for all; each has its own way of answering and of leaving.
        mine.append(one | {"turns": [dict(turn) for turn in turns]})
        actors.append(mine[-1])
    end = rng.choice(("close", "close", "close", "early", "drop"))
    shaken = end == "early" or any(one["meddler"] and one["meddler"]["do"] == "kill" for one in mine)
    for one in mine:
        one["calm"] = calm and not shaken and not one["meddler"]
    return {"name": name, "script": script, "end": end, "handshake_timeout": 5.0, "close_timeout": 0.5}


def _lasts(rng: Random) -> list[bool]:
    """For each turn whether it is the last one, after which the session may be unusable."""
    count = rng.choice((0, 1, 1, 2, 3))
    return [n == count - 1 for n in range(count)]


def _actor(rng: Random, marker: str, wire: str, agent: str | None) -> Json:
    mode = rng.choice(("handler", "handler", "manual", "none"))
    answer = rng.choice(("approve", "approve_for_session", "reject"))
    behaviour = rng.choice(("answer",) * 6 + ("slow", "raise", "hang")) if mode == "handler" else "answer"
    meddler = None
    if rng.random() < 0.15:
        does = rng.choice(("cancel", "close", "close", "kill", "interrupt"))
        meddler = {"after_ms": rng.choice((0, 1, 5, 20, 60, 150, 400)), "do": does}
    return {
        "marker": marker, "agent": agent, "dialect": "acp" if wire == "acp" else "auto",
        "approval": mode, "answer": answer, "behaviour": behaviour, "tools": wire == "1.10" and rng.random() < 0.5,
        "secret": wire == "1.10" and rng.random() < 0.3,
        "buffer": rng.choice((None, None, 4096, 65536)), "meddler": meddler,
        "end": rng.choice(("close", "close", "twice", "block", "drop")),
    }  # fmt: skip


def _turn(rng: Random, tag: str, actor: Json, wire: str, last: bool) -> Json:
    """A turn: the script's part of it, and what the program does."""
    said: list[Json] = [{"text": f"{tag} begins"}]
    for _ in range(rng.randint(0, 4)):
        said += _some(rng, tag, actor, wire)
    pieces = _pieces(said)
    kind = rng.choice(("whole",) * 5 + ("early",) * 4 + ("steer", "dies", "idle"))
    if (kind == "dies" and not last and actor["agent"] is None) or (kind == "steer" and wire != "1.10"):
        kind = "whole"
    asks = any({"tool_call", "parallel"} & action.keys() for action in said)
    if asks and actor["behaviour"] == "hang":
        # A handler that never answers ends with its turn, so the turn has to be ended.
        kind = "early"
    turn: Json = {
        "prompt_size": 0 if actor["agent"] else rng.choice((0, 0, 0, 0, 100_000)),
        "then": "none", "stop_after": 0, "pieces": None, "rough": True,
        "read": rng.choice(("events", "events", "steps", "result", "both")),
    }  # fmt: skip
    if kind == "whole":
        turn |= {"rough": False, "pieces": pieces}
    elif kind == "early":
        then = rng.choice(EARLY if last else EARLY[:5])
        flood = {
            "repeat": {"times": rng.choice((50, 1000, 20000)), "actions": [{"text": f"{tag} {{{{round}}}}\n"}]},
            "bulk": True,
        }
        said += rng.choice(([], [flood]))
        said.append(rng.choice(WAITING[: 3 if last else 2]))
        turn |= {"then": then, "stop_after": rng.randint(0, 3), "pause_ms": rng.choice((0, 0, 1, 10, 100))}
    elif kind == "steer":
        said += [{"wait_steer": True}, {"text": f"{tag} {{{{steer}}}}"}]
        turn |= {"then": "steer", "stop_after": rng.randint(1, 3)}
    elif kind == "dies":
        said += [{"stderr": "It dies."} if actor["agent"] else {"stderr": f"{tag} dies"}, rng.choice(DEATHS)]
        turn["read"] = rng.choice(("events", "result"))
        turn["then"] = "timeout"
    else:
        said.append(rng.choice(WAITING[: 3 if last else 2]))
        turn["then"] = "timeout"
    if kind == "whole" and rng.random() < 0.3:
        said.append(
            rng.choice(
                ({"end": "max_steps_reached", "steps": 3}, {"error": {"code": -32003, "message": f"{tag} is down"}})
            )
        )
        turn["pieces"], turn["rough"] = None, turn["rough"] or "error" in said[-1]
    elif kind == "whole" and wire == "1.10" and rng.random() < 0.3:
        note = {"id": tag, "category": "task", "type": "done", "source_kind": "task", "source_id": tag, "title": tag,
                "body": "", "severity": "info", "created_at": 0}  # fmt: skip
        said += [{"end": "finished"}, {"event": {"type": "Notification", "payload": note}}]
    if turn["then"] in ("leave", "drop", "interrupt"):
        # A caller that waits for the result keeps the turn.
        turn["read"] = "events"
    return turn | {"script": said}


def _some(rng: Random, tag: str, actor: Json, wire: str) -> list[Json]:
    """One or two actions in the middle of a turn."""
    kind = rng.choice(
        ("text", "text", "think", "many", "ask", "ask", "parallel", "noise", "stderr", "usage", "question", "tool")
    )
    if kind == "text":
        return [{"text": [f"{tag} {n}" for n in range(rng.randint(1, 5))], "delay_between": rng.choice((0, 0, 0.005))}]
    if kind == "think":
        return [{"think": f"{tag} thinks"}]
    if kind == "many":
        times = rng.choice((10, 300, 3000))
        return [{"repeat": {"times": times, "actions": [{"text": f"{tag} {{{{round}}}}"}]}, "bulk": rng.random() < 0.5}]
    if kind == "noise":
        return [{"raw": f"{rng.choice(NOISE)} {tag}" if rng.random() < 0.5 else rng.choice(NOISE)}]
    if kind == "stderr" and not actor["agent"]:
        return [{"stderr": f"{tag} says on stderr"}]
    if kind == "usage":
        return [{"usage": {"input_other": 5, "output": 3}}]
    if kind == "ask":
        return [_call(tag, "0"), {"text": f"{tag} answer={{{{last.response}}}}"}]
    if kind == "parallel":
        return [{"parallel": [_call(tag, str(n)) for n in range(rng.randint(2, 4))]}]
    if kind == "question" and wire in ("1.10", "acp"):
        options = [f"{tag} yes", f"{tag} no"]
        return [{"question": {"questions": [{"question": f"{tag}?", "header": "H", "options": options}]}}]
    if kind == "tool" and actor["tools"]:
        arguments = {"marker": tag}
        return [
            {"external_tool": {"name": "echo", "arguments": arguments}},
            {"text": f"{tag} heard {{{{last.output}}}}"},
        ]
    return [{"text": f"{tag} goes on"}]


def _call(tag: str, number: str) -> Json:
    asks = {"action": f"run {number}", "description": f"{tag} wants {number}"}
    return {
        "tool_call": {
            "name": "Shell",
            "arguments": {"command": f"{tag} {number}"},
            "approve": asks,
            "result": f"{tag} ran",
        }
    }


def _pieces(said: list[Json]) -> int | None:
    """How many pieces of text the agent says; None if that depends on answers."""
    total = 0
    for action in said:
        if {"tool_call", "parallel", "question", "external_tool"} & action.keys():
            return None
        if "text" in action:
            total += 1 if isinstance(action["text"], str) else len(action["text"])
        elif "repeat" in action:
            total += int(action["repeat"]["times"])
    return total


def write(plan: Json, folder: Path) -> Path:
    """Writes the plan and the agents' scripts into a folder that is the round's own, and returns the plan's path."""
    folder.mkdir(parents=True)
    for agent in plan["agents"]:
        _script(agent, folder, agent["name"])
    for actor in plan["actors"]:
        actor["work_dir"] = str(folder / actor["marker"])
        (folder / actor["marker"]).mkdir()
        if "script" in actor:
            _script(actor, folder, actor["marker"])
    path = folder / "plan.json"
    path.write_text(json.dumps(plan, indent=1))
    return path


def _script(owner: Json, folder: Path, name: str) -> None:
    path = folder / f"{name}.script.json"
    path.write_text(json.dumps(owner.pop("script")))
    owner["script_file"] = str(path)
