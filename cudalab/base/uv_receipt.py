"""What uv has written down of a tool's installation, as the words of a command that repeats it.

`uv tool install` replaces the whole environment: what the command does not name again, it removes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAME = "uv-receipt.toml"  # in the tool's environment


def again(receipt: Path, name: str, extras: Iterable[str] = (), packages: Iterable[str] = ()) -> str | None:
    """`uv tool install` of the tool `name` as it is, with more extras or packages.

    None if the receipt cannot be read, or has what this does not know: the command would then remove something.
    """
    try:
        import tomllib  # from Python 3.11 on

        tool: dict[str, Any] = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]
        own, *beside = sorted(tool["requirements"], key=lambda one: one["name"] != name)
        if own["name"] != name or tool.keys() - {"requirements", "python", "entrypoints", "options"}:
            return None
        own = {**own, "extras": list(dict.fromkeys([*own.get("extras", ()), *extras]))}
        words = ["--python", tool["python"]] if "python" in tool else []
        words += [word for option in tool.get("options", {}).items() for word in _option(*option)]
        words += [word for one in beside for word in _with(one)]
        words += [word for one in packages for word in ("--with", one)]
        return shlex.join(["uv", "tool", "install", *words, _requirement(**own)])
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return None


def _option(name: str, value: object) -> list[str]:
    """A setting of the installation, such as `--find-links FOLDER`. Raises TypeError for one of another form."""
    values = value if isinstance(value, list) else [value]
    words = [word for one in values if isinstance(one, str) for word in (f"--{name}", one)]
    if len(words) != 2 * len(values):
        raise TypeError(name)
    return words


def _with(one: dict[str, Any]) -> list[str]:
    if "editable" in one:
        return ["--with-editable", one["editable"]]
    return ["--with", _requirement(**one)]


def _requirement(
    name: str, extras: Iterable[str] = (), specifier: str = "", marker: str = "", path: str = "", directory: str = "",
    url: str = "", git: str = "", subdirectory: str = "",
) -> str:  # fmt: skip
    """A requirement as a command takes it. Raises TypeError for one with other fields."""
    place = Path(path or directory).as_uri() if path or directory else url or (_git(git) if git else "")
    place += f"#subdirectory={subdirectory}" if subdirectory else ""
    chosen = f"[{','.join(extras)}]" if extras else ""
    text = f"{name}{chosen} @ {place}" if place else f"{name}{chosen}{specifier}"
    return f"{text} ; {marker}" if marker else text


def _git(kept: str) -> str:
    """Return `git+URL@REVISION` for uv's `URL?rev=REVISION`."""
    address = urlsplit(kept)
    said = {name: values[0] for name, values in parse_qs(address.query).items()}
    folder = f"#subdirectory={said.pop('subdirectory')}" if "subdirectory" in said else ""
    revisions = [said.pop(kind) for kind in ("rev", "tag", "branch") if kind in said]
    if said or len(revisions) > 1:
        raise ValueError(kept)
    return f"git+{address._replace(query='', fragment='').geturl()}{''.join(f'@{one}' for one in revisions)}{folder}"
