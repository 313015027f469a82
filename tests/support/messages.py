"""Print the texts that a user of the lab can see and that are new: `python tests/support/messages.py [COMMIT]`.

Compares the working tree with COMMIT (default: HEAD). Read what it prints as a user who sees nothing else: does it say
what was got, what was expected and what to type?

Of Python: strings that hold words and are not documentation of the code, with `{}` for what is filled in; and the
docstrings of commands, which are their help. Of C++, JavaScript and the page's template: strings and text with words.
A text counts as words if it has two of them with a space between, so keys, formats and code are few.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = re.compile(r"[A-Za-z][\w'-]*[,:;]? +(?:\{\} +)?[a-z]{2,}")
CODE = re.compile(
    r"^\s*(?:#include|import |from \S+ import|extern |template|__global__|SELECT |def |@)|[;{]\s*$|::\w+\("
)
C_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
JS_STRING = re.compile(r"""(?<![\w])(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`)""")
TEMPLATE_TEXT = re.compile(r">([^<>]*[A-Za-z][^<>]*)<|(?:title|aria-label|placeholder|alt)=\"([^\"]*)\"")
UNSEEN = ("tools/inspect/instruction_mix.py",)


def has_words(text: str) -> bool:
    return bool(WORDS.search(text)) and not CODE.search(text)


def joined(node: ast.expr) -> str | None:
    """The text of a string, a formatted string, or a sum of those; None for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = joined(node.left), joined(node.right)
        if left is None and right is None:
            return None
        return ("{}" if left is None else left) + ("{}" if right is None else right)
    return None


def is_command(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    names = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(isinstance(n, ast.Attribute) and n.attr in ("command", "group") for n in names)


def of_python(source: str) -> Iterator[str]:
    """Texts with words in a module, in their order, without docstrings that are not a command's help."""

    def below(node: ast.AST) -> Iterator[str]:
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and not is_command(node):
                children.remove(first)
        for child in children:
            text = joined(child) if isinstance(child, ast.expr) else None
            if text is not None:
                if has_words(text):
                    yield text
                yield from of_parts(child)
            else:
                yield from below(child)

    def of_parts(node: ast.AST) -> Iterator[str]:
        """Strings inside the expressions that a formatted string holds."""
        for child in ast.walk(node):
            if isinstance(child, ast.FormattedValue):
                yield from below(child)

    return below(ast.parse(source))


def of_c(source: str) -> Iterator[str]:
    for found in C_STRING.finditer(C_COMMENT.sub("", source)):
        if has_words(found[1]):
            yield found[1]


def of_script(source: str) -> Iterator[str]:
    for found in JS_STRING.finditer(C_COMMENT.sub("", source)):
        text = re.sub(r"\$\{[^}]*\}", "{}", next(filter(None, found.groups()), ""))
        if has_words(text):
            yield text


def of_template(source: str) -> Iterator[str]:
    for found in TEMPLATE_TEXT.finditer(re.sub(r"\{%.*?%\}|\{#.*?#\}", "", source, flags=re.DOTALL)):
        text = re.sub(r"\{\{.*?\}\}", "{}", next(filter(None, found.groups()), ""), flags=re.DOTALL)
        if has_words(text):
            yield text


READERS = {".py": of_python, ".h": of_c, ".cuh": of_c, ".js": of_script, ".j2": of_template}


def reader(path: Path) -> Callable[[str], Iterator[str]] | None:
    """What reads the texts of a file; headers of C++ such as include/cuda/atomic have no suffix."""
    header = not path.suffix and "include" in path.parts and path.is_file()
    return of_c if header else READERS.get(path.suffix)


def texts(path: Path, source: str) -> list[str]:
    read = reader(path)
    return [" ".join(text.split()) for text in read(source)] if read else []


def new_texts(commit: str) -> Iterator[tuple[str, str]]:
    """The file and the text of each that the working tree has and the commit has not, wherever it stood."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    changed = set(git("diff", "--name-only", commit, "--", "cudalab").split())
    changed |= set(git("ls-files", "--others", "--exclude-standard", "cudalab").split())
    there = set(git("ls-tree", "-r", "--name-only", commit, "cudalab").split())
    files = sorted(place for place in changed if not place.endswith(UNSEEN))
    old = {text for place in files if place in there for text in texts(ROOT / place, git("show", f"{commit}:{place}"))}
    for place in files:
        if (ROOT / place).is_file():
            now = dict.fromkeys(texts(ROOT / place, (ROOT / place).read_text(encoding="utf-8")))
            yield from ((place, text) for text in now if text not in old)


if __name__ == "__main__":
    for place, text in new_texts(sys.argv[1] if len(sys.argv) > 1 else "HEAD"):
        print(f"{place}: {text}")
