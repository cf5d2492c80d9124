"""The layers hold, nothing writes or prints where it must not, and nothing heavy is imported early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "server/indusagi_lsp"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Who may do what: everything that reaches the disk, a process or the terminal has its place.
MAY_WRITE = {
    "sessions": "session files",
    "memory": "memory entries",
    "lsp/typecache.py": "the user's cache folder",
    "transport/logs.py": "the log file",
    "terminal": "the prompt history in the user's own folder",
    "workspace/permissions.py": "standing permissions, in the state folder of the user",
    "models": "the user's cache folder, and a recording that the user asked for",
    "workflows/claims.py": "locks of executions, in the state folder of the user",
}
MAY_START = {"tools": "commands and servers of tools", "models": "none of ours", "terminal": "the server"}
MAY_HOLD_STATE = {"models/localserver.py": "the main module of a process that exists to hold one thing"}
EMPTY = {"dict", "list", "set", "deque", "OrderedDict", "Counter", "WeakKeyDictionary", "WeakValueDictionary"}
MAY_READ_STDOUT = {"transport", "cli.py", "terminal"}


def place(path: Path, allowed) -> bool:
    name = path.relative_to(PACKAGE).as_posix()
    return any(name == one or name.startswith(f"{one}/") for one in allowed)


def calls(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def writes(node: ast.Call) -> bool:
    name = called(node)
    if name.endswith((".write_text", ".write_bytes")):
        return True
    if name in {"open", "io.open"} or name.endswith(".open"):
        mode = next((k.value for k in node.keywords if k.arg == "mode"), None)
        position = 1 if name in {"open", "io.open"} else 0
        if mode is None and len(node.args) > position:
            mode = node.args[position]
        if isinstance(mode, ast.Constant) and isinstance(mode.value, str):
            return bool(set(mode.value) & set("wax+"))
    return name == "os.open" and any(flag in ast.unparse(node) for flag in ("O_WRONLY", "O_RDWR", "O_CREAT"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_nothing_writes_prints_or_starts_where_it_must_not(path):
    for node in calls(path):
        name, line = called(node), f"{path.name}:{node.lineno}"
        assert name != "print" or place(path, {"terminal"}), f"{line} prints"
        assert not writes(node) or place(path, MAY_WRITE), f"{line} writes"
        starts = name.startswith("subprocess.") or name in {
            "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "os.system", "os.popen", "os.fork",
        }  # fmt: skip
        assert not starts or place(path, MAY_START), f"{line} starts a process"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_stdout_is_the_wire(path):
    source = path.read_text(encoding="utf-8")
    assert "sys.stdout" not in source or place(path, MAY_READ_STDOUT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_state_at_module_level(path):
    """A module may hold constants; a list, dict or set that somebody changes, or a global statement, is state."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), "a global statement"
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        frozen = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith(("Mapping[", "Sequence["))
        if value is not None and _is_empty(value) and not frozen:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            assert names == ["__all__"] or place(path, MAY_HOLD_STATE), f"{names} is empty, so somebody must fill it"


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return isinstance(value, ast.Call) and called(value).rpartition(".")[2] in EMPTY and not value.args


@pytest.mark.parametrize(
    ("code", "empty"),
    [("{}", True), ("[]", True), ("set()", True), ("collections.deque(maxlen=3)", True), ("{1: 2}", False)],
)
def test_what_is_empty_is_seen(code, empty):
    assert _is_empty(ast.parse(code, mode="eval").body) is empty


def test_imports_run_downward():
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())


def test_version_imports_nothing_heavy():
    loaded = loaded_after("from indusagi_lsp.cli import main; main(['--version'])")
    assert not loaded & {"pygls", "lsprotocol", "msgspec", "orjson", "asyncio", "argparse", "attr", "typing"}


HEAVY = {
    "pydantic", "pydantic_ai", "httpx", "numpy", "sqlite3", "watchfiles", "xllamacpp", "openai", "anthropic",
    "prompt_toolkit", "rich", "genai_prices", "filelock",
}  # fmt: skip


def test_a_server_imports_no_engine():
    loaded = loaded_after("from indusagi_lsp.lsp import create_server; create_server()")
    assert not loaded & HEAVY
    ours = {name.split(".")[1] for name in loaded if name.startswith("indusagi_lsp.")}
    assert ours <= {"contract", "protocol", "lsp", "transport", "workspace"}, ours


ENGINE = (
    "contract", "conductor", "ledger", "condensation", "sessions", "memory", "models", "tools", "checkpoints",
    "filehistory", "workflows",
)  # fmt: skip


@pytest.mark.parametrize("engine", ENGINE)
def test_the_engine_knows_nothing_of_lsp(engine):
    for path in (PACKAGE / engine).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert not name.startswith(("pygls", "lsprotocol")), path


def test_the_shapes_of_secrets_stand_in_one_table() -> None:
    prefix = re.compile(r"AKIA|github_pat")
    holders = {p.relative_to(PACKAGE).as_posix() for p in MODULES if prefix.search(p.read_text(encoding="utf-8"))}
    assert holders == {"contract/secrets.py"}
