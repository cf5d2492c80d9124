"""Proves the artifacts of a release by installing and running them: `make release-check`.

Both are built, the wheel from the tree and once more from the source archive, and must hold the same files. The wheel
is then installed alone into a fresh environment, where it must say its version, answer one prompt and
serve one editor. What is proven is left in the folder that is named.

    python tests/release/check.py OUT
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 600
"""For one step; an installation on a slow network is the longest."""

SAID = "The artifact answers."


def main(out: Path) -> None:
    """Build into `out` and prove what was built; an AssertionError or a failed command says what is wrong."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        scratch = Path(folder)
        sdist, wheel = build(scratch)
        version = check_contents(wheel)
        check_versions(version)
        run_installed(wheel, version, scratch)
        for artifact in (sdist, wheel):
            shutil.copy2(artifact, out)
            told(f"{artifact.name}  sha256 {hashlib.sha256(artifact.read_bytes()).hexdigest()}")


def build(scratch: Path) -> tuple[Path, Path]:
    """The source archive and the wheel made of it, which holds what the tree's own wheel holds."""
    told("building")
    run(sys.executable, "-m", "build", "--outdir", str(scratch / "from-sdist"), str(ROOT))
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(scratch / "from-tree"), str(ROOT))
    (sdist,) = (scratch / "from-sdist").glob("*.tar.gz")
    (wheel,) = (scratch / "from-sdist").glob("*.whl")
    (other,) = (scratch / "from-tree").glob("*.whl")
    assert wheel.name == other.name
    assert hashes(wheel) == hashes(other), "the source archive does not make the wheel that the tree makes"
    return sdist, wheel


def hashes(wheel: Path) -> dict[str, str]:
    """The files of a wheel with their SHA-256."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def check_contents(wheel: Path) -> str:
    """The wheel holds the package and nothing else; its version."""
    names = set(hashes(wheel))
    tops = {name.partition("/")[0] for name in names}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"indusagi_lsp", info}, tops
    in_tree = {
        path.relative_to(ROOT / "server").as_posix() for path in (ROOT / "server" / "indusagi_lsp").rglob("*.py")
    }
    assert in_tree <= names, f"not in the wheel: {sorted(in_tree - names)}"
    assert f"{info}/licenses/LICENSE" in names
    with zipfile.ZipFile(wheel) as archive:
        headers = HeaderParser().parsestr(archive.read(f"{info}/METADATA").decode())
    return str(headers["Version"])


def check_versions(version: str) -> None:
    """One version everywhere, with its part in the changelog."""
    manifest = json.loads((ROOT / "vscode-client" / "package.json").read_text("utf-8"))
    assert manifest["version"] == version, f"the extension says {manifest['version']}, the server {version}"
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if not any(heading.split()[0] == version for heading in headings):
        told(f"note: CHANGELOG.md has no part for {version} yet, so this is not ready to be released")


def run_installed(wheel: Path, version: str, scratch: Path) -> None:
    """Install the wheel alone, and use it as a user and as an editor."""
    told("installing into a fresh environment")
    home = scratch / "environment"
    venv.create(home, with_pip=True)
    bin_ = home / ("Scripts" if os.name == "nt" else "bin")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "INDUSAGI_", "OTEL_"))}
    run(str(bin_ / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), env=environ)

    folder = scratch / "workspace"
    folder.mkdir()
    script = scratch / "script.json"
    script.write_text(json.dumps({"replies": [{"text": SAID}]}), "utf-8")
    environ |= {"INDUSAGI_LSP_HOME": str(scratch / "home"), "INDUSAGI_SCRIPTED_MODEL": str(script)}
    command = str(bin_ / "indusagi-lsp")
    told("running it")
    assert run(command, "--version", cwd=folder, env=environ) == f"indusagi-lsp {version}\n"
    assert SAID in run(command, "chat", "-p", "Who answers?", cwd=folder, env=environ)
    report = json.loads(run(command, "doctor", "--env", "--json", cwd=folder, env=environ))
    assert report["version"] == version
    missing = [name for name, found in report["packages"].items() if found is None]
    assert set(missing) <= not_for_here(wheel), f"what it needs did not come along: {missing}"
    serve_an_editor(command, folder, environ, version)


def not_for_here(wheel: Path) -> set[str]:
    """Names of requirements that are for other platforms or Pythons only."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
    marked = (one for one in headers.get_all("Requires-Dist") or [] if ";" in one and "extra" not in one)
    return {re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0] for one in marked}


def serve_an_editor(command: str, folder: Path, environ: dict[str, str], version: str) -> None:
    """`initialize` to `exit` over stdio."""
    params = {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": params},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    done = subprocess.run(
        [command, "--stdio"],
        input=b"".join(frame(message) for message in messages),
        cwd=folder,
        env=environ,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    answers = {message["id"]: message for message in frames(done.stdout) if "result" in message}
    assert answers[1]["result"]["serverInfo"] == {"name": "indusagi-lsp", "version": version}
    assert answers[2]["result"] is None


def frame(message: dict[str, Any]) -> bytes:
    """A message as it goes over the wire."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def frames(data: bytes) -> list[dict[str, Any]]:
    """The messages in what a server wrote."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(re.findall(rb"Content-Length: (\d+)", head)[0])
        found.append(json.loads(rest[:length]))
        data = rest[length:]
    return found


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command writes to stdout; its failure ends the check with all that it wrote."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def told(line: str) -> None:
    sys.stderr.write(f"release-check: {line}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
