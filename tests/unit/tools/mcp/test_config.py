"""The user's configuration, names, schemas, and what a result looks like: strangers' text, looked at first."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.tools.mcp import McpConfig, read_mcp_config
from indusagi_lsp.tools.mcp.content import result_text
from indusagi_lsp.tools.mcp.launch import inherited
from indusagi_lsp.tools.mcp.naming import tool_name
from indusagi_lsp.tools.mcp.offers import MAX_TOOLS, check_arguments, read_offers
from indusagi_lsp.tools.mcp.pipes import Lines


def test_a_configuration() -> None:
    raw = tomllib.loads(
        """
        [mcp.time]
        command = "uvx"
        args = ["mcp-server-time"]
        env = { TZ = "UTC" }
        trustReadOnly = true

        [mcp.web-search]
        url = "https://example.org/mcp"
        headers = { Authorization = "Bearer secret" }
        enabled = false
        timeout = 5
        """
    )
    servers, problems = read_mcp_config(raw["mcp"])
    assert not problems
    assert servers["time"] == McpConfig("uvx", ("mcp-server-time",), {"TZ": "UTC"}, trust_read_only=True)
    assert not servers["web-search"].enabled
    assert "secret" not in repr(servers)
    assert read_mcp_config(None) == ({}, ())


@pytest.mark.parametrize(
    "settings",
    [
        3,
        {},
        {"command": "x", "url": "https://x"},
        {"command": 3},
        {"command": "x", "unknown": 1},
        {"command": "./x"},
        {"command": "bin/x"},
        {"command": "x", "cwd": "here"},
        {"command": "x", "args": "y"},
        {"command": "x", "args": ["\0"]},
        {"command": "x", "env": {"A B": "c"}},
        {"command": "x", "headers": {"a": "secret"}},
        {"command": "x", "timeout": 0},
        {"url": "file:///etc/passwd"},
        {"url": "https:///x"},
        {"url": "https://x", "headers": {"A": "secret\r\nB: c"}},
        {"url": "https://x", "headers": {"A b": "secret"}},
        {"url": "https://x", "env": {"A": "secret"}},
    ],
)
def test_what_makes_no_sense_is_told_and_left_out(settings: object) -> None:
    servers, problems = read_mcp_config({"good": {"command": "x"}, "bad": settings})
    assert set(servers) == {"good"}
    assert len(problems) == 1
    assert "'bad'" in problems[0]
    assert "secret" not in problems[0]


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "ä", "a" * 33, "a.b", "a\n"])
def test_names_that_would_be_ambiguous(name: str) -> None:
    servers, problems = read_mcp_config({name: {"command": "x"}})
    assert not servers
    assert problems


def test_it_is_no_table() -> None:
    assert read_mcp_config([1])[1]


SERVER = st.from_regex(r"\A[A-Za-z0-9]{1,10}(?:[_-][A-Za-z0-9]{1,10})?\Z")


@given(st.tuples(SERVER, st.text(max_size=90)), st.tuples(SERVER, st.text(max_size=90)))
def test_names_are_unique_and_taken_by_providers(one: tuple[str, str], other: tuple[str, str]) -> None:
    name = tool_name(*one)
    assert re.fullmatch(r"mcp__[a-zA-Z0-9_-]{1,59}", name)
    assert (name == tool_name(*other)) == (one == other)


def test_names_keep_what_they_can() -> None:
    assert tool_name("time", "get_now") == "mcp__time__get_now"
    assert re.fullmatch(r"mcp__time__get_now_[0-9a-f]{8}", tool_name("time", "get.now"))
    assert len(tool_name("time", "x" * 200)) == 64


def listed(name: str, schema: dict | None = None, description: str = "") -> mcp_types.Tool:
    return mcp_types.Tool(name=name, description=description, input_schema=schema or {"type": "object"})


def test_tools_that_would_spoil_a_request_are_left_out() -> None:
    deep: dict = {}
    for _ in range(100):
        deep = {"properties": {"a": deep}}
    offers = read_offers(
        "s",
        [
            listed("good"),
            listed("good"),
            listed(""),
            listed("array", {"type": "array"}),
            listed("names", {"type": "object", "properties": {"a b": {}}}),
            listed("deep", {"type": "object", "properties": {"a": deep}}),
            listed("large", {"type": "object", "properties": {"a": {"enum": ["x" * 40_000]}}}),
            listed("tags", {"type": "object", "properties": {"a": {"const": "a\U000e0041"}}}),
            listed("hidden", {"type": "object", "properties": {"a": {"enum": ["a\u202eb"]}}}),
        ],
    )
    assert [offer.name for offer in offers.tools] == ["good"]
    assert len(offers.left_out) == 8


def test_there_are_not_too_many_tools() -> None:
    offers = read_offers("s", [listed(f"t{number}") for number in range(1000)])
    assert len(offers.tools) == MAX_TOOLS


def test_text_for_the_model_hides_nothing_and_schemas_fit_providers() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "anyOf": [{"required": ["a"]}],
        "properties": {"a": {"type": "string", "description": "x\u202ey\x1b[1m"}},
    }
    offer = read_offers("s", [listed("t", schema, "do\U000e0041 it\u200b" + "x" * 9000)]).tools[0]
    assert offer.spec.description.startswith("do it\\u{200b}x")
    assert len(offer.spec.description) < 4100
    assert offer.spec.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "x\\u{202e}y"}},
    }
    # The hash is over what the server said, not over what was made of it.
    assert offer.digest != read_offers("s", [listed("t", schema, "do it")]).tools[0].digest


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"a": "x"}, ""),
        ({"a": "x", "b": 3}, ""),
        ({"a": "x", "b": 3.0, "c": None}, ""),
        ({}, "Missing: a"),
        ({"a": 1}, "a must be string"),
        ({"a": "x", "b": True}, "b must be integer"),
        ({"a": "x", "c": 1}, "c must be string or null"),
        ({"a": "x", "d": 1}, "Unknown: d"),
    ],
)
def test_arguments(arguments: dict, wrong: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["string", "null"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    said = check_arguments(schema, arguments)
    assert said.startswith(wrong)
    assert bool(said) == bool(wrong)


def test_schemas_that_make_no_sense_check_nothing() -> None:
    for schema in ({"required": 3}, {"properties": []}, {"properties": {"a": 1}}, {"properties": {"a": {"type": 3}}}):
        assert check_arguments(schema, {"a": 1}) == ""


def test_results_of_all_kinds() -> None:
    result = mcp_types.CallToolResult(
        content=[
            mcp_types.TextContent(type="text", text="a\x1b[31mb\u202ec"),
            mcp_types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav\n"),
            mcp_types.ResourceLink(type="resource_link", uri="file:///a b", name="n"),
            mcp_types.EmbeddedResource(
                type="resource", resource=mcp_types.BlobResourceContents(uri="b://1", blob="AA==")
            ),
        ],
        structured_content={"ignored": True},
    )
    assert result_text(result) == (
        "ab\\u{202e}c\n[audio, audio/wav\\n, 3 bytes; not shown]\n[resource file:///a b, n]\n"
        "[resource b://1, unknown kind, 1 bytes; not shown]"
    )
    assert result_text(mcp_types.CallToolResult(content=[], structured_content={"a": 1})) == '{"a":1}'


def test_the_environment_of_a_server() -> None:
    kept = inherited({"PATH": "/bin:.::x:/usr/bin", "HOME": "() { x; }", "USER": "u", "SECRET": "s", "Lang": "C"})
    assert kept == {"PATH": "/bin:/usr/bin", "USER": "u", "Lang": "C"}


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=50))
def test_lines_do_not_depend_on_how_they_come(data: bytes, sizes: list[int]) -> None:
    lines = Lines(10)
    got = []
    rest = data
    for size in sizes:
        got += lines.feed(rest[:size])
        rest = rest[size:]
    got += lines.feed(rest)
    wanted = data.split(b"\n")[:-1]
    assert [line.data for line in got if not line.cut] == [line for line in wanted if len(line) <= 10]
    assert [line.cut for line in got] == [len(line) > 10 for line in wanted]


def test_the_sdk_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, indusagi_lsp.tools.mcp; print(sorted({'mcp', 'anyio', 'httpx2', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
