"""The places in which agents run, for the option `place`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Union

from ._encode import NotUnicode, kind_of, to_jsonable
from ._errors import InvalidOption

__all__ = ["Container", "Place", "Prefix", "Remote", "Sandbox", "Ssh", "settings_of"]

_Path = Union[str, "os.PathLike[str]"]


class Place:
    """The place in which an agent runs: the base of the classes for the option `place`.

    >>> place: Place = Prefix(["nice", "-n", "10"])
    """

    __slots__ = ()


@dataclass(frozen=True)
class Prefix(Place):
    """Runs the agent behind a command. The words of the command come before those of the agent.

    >>> pod = Prefix(["kubectl", "exec", "-i", "pod", "--"], paths={".": "/work"})
    >>> options = {"executable": "kimi", "place": pod}
    """

    command: Sequence[str]
    """The program, and its arguments."""
    paths: Mapping[_Path, str] | None = None
    """The directories of this machine that the agent has, each with its path there. A relative directory is relative to
    `work_dir`; with `open_agent()`, to the current directory. If there are any, the agent has no other paths of this
    machine. Default: the agent has the same paths as this program."""
    type: Literal["prefix"] = field(default="prefix", init=False, repr=False)
    """The kind of place."""


@dataclass(frozen=True)
class Sandbox(Place):
    """Runs the agent, and all that it starts, in a sandbox of the system: bubblewrap on Linux, Seatbelt on macOS.

    Paths are the same inside and outside. A relative path is relative to `work_dir`; with `open_agent()`, to the
    current directory. `~` is the home directory. On other systems, and without bubblewrap, opening a session fails.

    >>> options = {"executable": "kimi", "place": Sandbox(network=False, hide=["~/.ssh", ".env"])}
    """

    write: Sequence[_Path] = (".",)
    """The files and directories that can be written. The agent's own directories always can. Default: `work_dir`."""
    read: Sequence[_Path] | None = None
    """The files and directories that can be read, in addition to those of the system, those that can be written and
    those of the agent's program. Default: everything that this user can read."""
    network: bool = True
    """Whether there is a network, the loopback interface of this machine included. Default: True."""
    hide: Sequence[_Path] = ("~/.ssh",)
    """The files and directories whose content cannot be read. A path that does not exist is ignored. Default:
    `~/.ssh`."""
    type: Literal["sandbox"] = field(default="sandbox", init=False, repr=False)
    """The kind of place."""


@dataclass(frozen=True)
class Container(Place):
    """Runs the agent in a container of Docker or Podman: a fresh one of `image`, or the running one with this `name`.

    A fresh container is removed with the agent. The agent is a program of the image, or one that is mounted. Its
    variables are those of the image and of `env`. The image must be on this machine. Not on Windows.

    >>> options = {"executable": "kimi", "place": Container("agents:1", user="1000:1000", args=["--memory", "2g"])}
    """

    image: str | None = None
    """The image of a fresh container."""
    mount: Mapping[_Path, str] | None = None
    """The files and directories of this machine that the agent has, each with its path in the container. A relative
    path is relative to `work_dir`; with `open_agent()`, to the current directory. `~` is the home directory. `:ro` at
    the end makes it read-only. For a running container, they say which mounts it has. Default: `{".": "/work"}`."""
    network: bool = True
    """Whether a fresh container has a network. Default: True."""
    runtime: str = "docker"
    """The program of the runtime: `docker`, `podman`, or the path of one. Default: `docker`."""
    args: Sequence[str] = ()
    """Further arguments of `run`, or of `exec` in a running container. Default: none."""
    name: str | None = None
    """The name of a running container, instead of `image`."""
    user: str | None = None
    """The user in the container, such as `1000:1000`. Default: the image's."""
    type: Literal["container"] = field(default="container", init=False, repr=False)
    """The kind of place."""


@dataclass(frozen=True)
class Ssh(Place):
    """Runs the agent on another machine, over the system's `ssh` with its configuration, keys and jump hosts.

    Files are not copied: `work_dir` of the session stands for the directory `work_dir` there. The agent's variables are
    those of `env`. `ssh` asks for nothing: keys must be loaded, and the key of the host must be known.

    >>> options = {"executable": "kimi", "place": Ssh("ada@build.example", "/home/ada/app")}
    """

    host: str
    """The host, as `ssh` takes it."""
    work_dir: str
    """The absolute path of the working directory on the host."""
    options: Sequence[str] = ()
    """Arguments of `ssh` before the host, such as `["-p", "2222"]`. Default: none."""
    type: Literal["ssh"] = field(default="ssh", init=False, repr=False)
    """The kind of place."""


# Without `__dict__`, which would show the values of headers.
@dataclass(frozen=True, slots=True)
class Remote(Place):
    """Uses an agent that a server offers over WebSocket or HTTP, as ACP's transport proposal says.

    Nothing is started on this machine, so `executable`, `extra_args`, `env` and `inherit_env` are refused. The
    certificate of the server must be one that this system accepts. The proxy is that of `HTTPS_PROXY`, `HTTP_PROXY`,
    `ALL_PROXY` and `NO_PROXY`.

    >>> place = Remote("wss://agents.example/acp", headers={"Authorization": "Bearer …"}, work_dir="/srv/app")
    >>> options = {"work_dir": ".", "place": place}
    """

    url: str
    """The address: `wss` or `ws` for a WebSocket, `https` or `http` for HTTP."""
    headers: Mapping[str, str] | None = None
    """Headers of each request, such as `Authorization`. Logs, errors, recordings and `repr()` do not show their values.
    Default: none."""
    work_dir: str | None = None
    """The absolute path that `work_dir` of the session has for the agent. Default: the agent has the same paths as this
    program."""
    type: Literal["remote"] = field(default="remote", init=False, repr=False)
    """The kind of place."""

    def __repr__(self) -> str:
        """Shows neither the values of headers nor the query of the URL, which may be secrets."""
        url = re.sub(r"//[^/]*@", "//", re.split("[?#]", self.url)[0]) if isinstance(self.url, str) else self.url
        names = list(self.headers) if isinstance(self.headers, Mapping) else None
        return f"Remote({url!r}, headers={names!r}, work_dir={self.work_dir!r})"

    def __copy__(self) -> Remote:
        return self

    def __deepcopy__(self, memo: Any) -> Remote:
        return self

    def __reduce__(self) -> NoReturn:
        # A pickle would contain the values of headers.
        raise TypeError("a Remote cannot be pickled, because its URL and its headers may be secrets")


def settings_of(place: Place) -> dict[str, Any]:
    """Returns the settings of a place as JSON.

    Raises:
        InvalidOption: A setting has no JSON form. The text names the setting.
    """
    found: dict[str, Any] = {}
    for name in getattr(place, "__dataclass_fields__", ()):
        value = getattr(place, name)
        try:
            found[name] = to_jsonable(value)
        except TypeError as error:
            problem = str(error) if isinstance(error, NotUnicode) else f"expected {_expected(value)}"
            raise InvalidOption(f"invalid option `place`: `{name}`: {problem}", "place") from None
    return found


def _expected(value: Any) -> str:
    """Returns what a setting is instead of this value, which has no JSON form, and what the value is."""
    if isinstance(value, Mapping):
        items, kind = [*value, *value.values()], "a mapping of paths and text"
    elif isinstance(value, (list, tuple, set, frozenset)):
        items, kind = [*value], "a list of text or paths"
    else:
        return f"text, a list or a mapping, got {kind_of(value)}"
    wrong = next((item for item in items if not isinstance(item, (str, os.PathLike))), None)
    return f"{kind}, got one with {kind_of(wrong)}"
