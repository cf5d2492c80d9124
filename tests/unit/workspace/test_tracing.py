"""Spans go out only where the user wants them, to a collector that speaks OTLP, and without what was said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from indusagi_lsp.contract.tracing import Untraced
from indusagi_lsp.workspace.settings import read_user_config
from indusagi_lsp.workspace.tracing import wanted
from unit.workspace.rig import HostsRig

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("setting", "environ", "expected"),
    [
        (None, {}, False),
        (True, {}, True),
        (None, {ENDPOINT: "http://127.0.0.1:4318"}, True),
        (None, {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (False, {ENDPOINT: "http://127.0.0.1:4318"}, False),
        (True, {"OTEL_SDK_DISABLED": "true"}, False),
        (True, {"OTEL_TRACES_EXPORTER": "none"}, False),
        (None, {ENDPOINT: " "}, False),
    ],
)
def test_who_decides(setting: bool | None, environ: dict[str, str], expected: bool) -> None:
    assert wanted(setting, environ) is expected


@pytest.mark.parametrize(("written", "read"), [("true", True), ("false", False), ('"on"', False)])
def test_the_users_own_file_decides(tmp_path: Path, written: str, read: bool) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"telemetry = {written}\n", "utf-8")
    config, notices = read_user_config(file)
    assert config.telemetry is read
    assert [notice.text for notice in notices if "telemetry" in notice.text] == [
        f"{file}: `telemetry` is neither true nor false, so it is off."
    ] * (written == '"on"')


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    got: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_run_reaches_the_collector_without_what_was_said(
    tmp_path: Path, collector: tuple[str, list[tuple[str, bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, got = collector
    # The library reads its own variables of the process, so they are set there as well.
    monkeypatch.setenv(ENDPOINT, address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    rig = HostsRig(tmp_path, ["The marmalade answers."])
    rig.hosts._environ = {**rig.hosts._environ, ENDPOINT: address}
    monkeypatch.setattr("indusagi_lsp.workspace.hosts._TRACER_SECONDS", 30.0)
    await rig.folder()
    await rig.say(await rig.new(), "Where is the marmalade?")
    await rig.hosts.shutdown()

    assert {path for path, _ in got} == {"/v1/traces"}
    sent = b"".join(body for _, body in got)
    assert b"invoke_agent indusagi" in sent
    assert b"indusagi-lsp" in sent
    assert b"marmalade" not in sent


async def test_without_the_users_word_nothing_is_traced(tmp_path: Path) -> None:
    rig = HostsRig(tmp_path, ["Yes."])
    await rig.folder()
    assert isinstance(rig.hosts._tracer, Untraced)
    await rig.hosts.shutdown()


async def test_a_variable_that_makes_no_sense_keeps_no_folder_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
    rig = HostsRig(tmp_path, ["Yes."])
    rig.hosts._environ = {**rig.hosts._environ, ENDPOINT: "http://127.0.0.1:9"}
    await rig.folder()
    assert (await rig.say(await rig.new(), "Are you there?")).phase == "settled"
    assert [notice.code for notice in await rig.hosts.configure({})] == ["telemetry"]
    await rig.hosts.shutdown()
