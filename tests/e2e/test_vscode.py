"""The extension in a real VS Code workbench in a real browser, against the real server and a scripted model.

What is needed (VS Code's server and playwright-core from npm, Chromium from Debian) is fetched into the cache folder
`$INDUSAGI_CACHE`, by default `.cache`. The pictures that each scenario takes are kept under `artifacts/vscode/`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "vscode-client"
DRIVER = Path(__file__).parent / "vscode"
SCENARIOS = sorted(path.stem for path in (DRIVER / "scenarios").glob("*.mjs"))

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]


def node(*command: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run a script of ours with Node, and fail the test with what it said when it fails."""
    program = shutil.which("node")
    if program is None:
        pytest.fail("Node 20 or newer is needed to test the extension.")
    done = subprocess.run(
        [program, *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"node {Path(command[0]).name} failed:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done


@pytest.fixture(scope="session")
def cache() -> Path:
    folder = Path(os.environ.get("INDUSAGI_CACHE", ROOT / ".cache"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def toolchain() -> None:
    node(str(CLIENT / "scripts" / "install.mjs"))


@pytest.fixture(scope="session")
def tools(toolchain: None, cache: Path) -> dict[str, object]:
    vsix = cache / "indusagi-test.vsix"
    node(str(CLIENT / "scripts" / "package.mjs"), str(vsix))
    found = json.loads(node(str(DRIVER / "setup.mjs"), str(cache), timeout=850).stdout.splitlines()[-1])
    server = [sys.executable, "-P", "-m", "indusagi_lsp"]
    return {**found, "vsix": str(vsix), "artifacts": str(ROOT / "artifacts" / "vscode"), "server": server}


def test_checks(toolchain: None):
    """Types, lint, format, unit tests, and the size of the bundles."""
    node(str(CLIENT / "scripts" / "check.mjs"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(tools: dict[str, object], name: str):
    done = node(str(DRIVER / "run.mjs"), json.dumps(tools), name, timeout=300)
    sys.stdout.write(done.stdout)
