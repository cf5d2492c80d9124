"""The readers: what each tool's file says, with nothing lost, nothing invented and nothing counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from indusagi_lsp.contract.turns import ImageBlock, OtherBlock, ThinkingBlock, Turn, unanswered_calls
from indusagi_lsp.sessions.importers import places, reading
from indusagi_lsp.sessions.importers.assemble import Assembled, assemble, session_id_for
from indusagi_lsp.sessions.importers.transcript import Entry, Fold, Transcript
from indusagi_lsp.sessions.nodes import hash_node

FIXTURES = Path(__file__).parents[3] / "fixtures" / "transcripts"


def read(name: str) -> Transcript:
    path = next(FIXTURES.glob(name))
    data = path.read_bytes()
    tool = places.tool_of(data, path)
    assert tool is not None
    return places.read(data, path.stem, tool)


def entries(transcript: Transcript) -> list[Entry]:
    return [step for step in transcript.steps if isinstance(step, Entry)]


def live_path(made: Assembled) -> list[Turn]:
    nodes = {node.id: node for node in made.nodes}
    path: list[Turn] = []
    cursor = made.head
    while cursor is not None:
        path.append(nodes[cursor].turn)
        cursor = nodes[cursor].parent
    return path[::-1]


def words(turns: list[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.text or ",".join(call.name for call in turn.tool_calls)) for turn in turns]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("claude-code/growing-1.jsonl", "claude-code"),
        ("claude-code/damaged.jsonl", "claude-code"),
        ("codex/*.jsonl", "codex"),
        ("pi/linear.jsonl", "pi"),
        ("pi/tree.jsonl", "pi"),
        ("gemini-cli/*.json", "gemini-cli"),
        ("gemini-cli/*.jsonl", "gemini-cli"),
        ("indusagi/agent.jsonl", "indusagi"),
        ("indusagi/store.jsonl", "indusagi"),
    ],
)
def test_the_writer_of_a_file_is_told(name: str, tool: str) -> None:
    path = next(FIXTURES.glob(name))

    assert places.tool_of(path.read_bytes(), path) == tool


@pytest.mark.parametrize("data", [b"", b"hello", b"{}", b"[1]", b'{"type":"user"}', b"\xff\xfe\x00"])
def test_a_file_of_nobody_is_nobodys(data: bytes) -> None:
    assert places.tool_of(data, Path("x.jsonl")) is None


class TestClaudeCode:
    def test_one_answer_is_one_turn(self) -> None:
        found = read("claude-code/growing-1.jsonl")

        assert words([entry.turn for entry in entries(found)]) == [
            ("user", "Which beds need water today?"),
            ("assistant", "Let me look at both lists."),
            ("tool", ""),
            ("tool", ""),
            ("assistant", "Bed 1 needs water."),
        ]
        answer = entries(found)[1].turn
        assert answer.blocks[0] == ThinkingBlock(
            "I should look at the bed list.", "c2lnLW9mLXRoZS1pbnZlbnRlZC1wcm92aWRlcg=="
        )
        assert [call.id for call in answer.tool_calls] == ["toolu_1", "toolu_2"]

    def test_results_of_parallel_calls_make_one_line(self) -> None:
        found = read("claude-code/growing-1.jsonl")

        assert [entry.parent for entry in entries(found)] == [None, *[entry.key for entry in entries(found)][:-1]]
        assert unanswered_calls([entry.turn for entry in entries(found)]) == ()

    def test_usage_is_counted_once_for_an_answer_with_its_last_word(self) -> None:
        found = read("claude-code/growing-1.jsonl")

        assert [(spent.usage.input, spent.usage.output) for spent in found.spent] == [(1010, 85), (1010, 12)]

    def test_images_stay(self) -> None:
        found = read("claude-code/growing-2.jsonl")

        images = [block for entry in entries(found) for block in entry.turn.blocks if isinstance(block, ImageBlock)]
        assert len(images) == 2
        assert images[0].media_type == "image/png"

    def test_branches_side_chains_and_a_compaction(self) -> None:
        found = read("claude-code/growing-2.jsonl")
        made = assemble(found)

        assert words(live_path(made)) == [
            (
                "system",
                "This session is being continued.\nSummary: bed 1 and the roses need water, the lawn is fine.",
            ),
            ("assistant", "Edit"),
        ]
        fold = next(step for step in found.steps if isinstance(step, Fold))
        assert (fold.trigger, fold.before, fold.cut) == ("auto", 150000, None)
        condensed = made.condensations[0]
        assert condensed["copies"] == {}
        assert made.ids["a8"] == condensed["from"]
        assert {entry.key for entry in entries(found) if entry.parent is None} == {"u1", "sc1"}
        assert [entry.key for entry in entries(found) if entry.parent == "a5"] == ["u2", "u3"]

    def test_titles_come_from_the_user_or_a_summary_of_this_session(self) -> None:
        assert read("claude-code/growing-2.jsonl").title == "Which beds need water today?"

    def test_damage_costs_the_damaged_lines_alone(self) -> None:
        found = read("claude-code/damaged.jsonl")

        assert words([entry.turn for entry in entries(found)]) == [
            ("user", "first"),
            ("assistant", "answer"),
            ("user", "no time of its own"),
            ("user", "texts\nin a list"),
        ]
        assert entries(found)[2].at == entries(found)[1].at, "the time of the turn before"
        assert [(skipped.line, skipped.reason) for skipped in found.skipped] == [
            (1, "not JSON"),
            (4, "the message has no content"),
            (6, "the message is no object"),
            (7, "not an object"),
            (8, "not an object"),
            (9, "no type"),
            (11, "a line that was there before"),
            (12, "not JSON"),
        ]
        assert found.gaps == 1


class TestCodex:
    def test_items_make_turns(self) -> None:
        found = read("codex/*.jsonl")

        assert words([entry.turn for entry in entries(found)])[1:] == [
            ("user", "Count the tulips"),
            ("assistant", "I will count."),
            ("tool", ""),
            ("tool", ""),
            ("assistant", "apply_patch"),
            ("tool", ""),
            ("assistant", "There are twelve."),
            ("user", "Thanks. And the daffodils?"),
            ("assistant", "exec_command"),
        ]
        assert found.title == "Count the tulips"
        assert found.cwd == "/home/kim/garden"
        assert found.ignored["instructions"] == 1

    def test_encrypted_reasoning_stays(self) -> None:
        thoughts = [
            block
            for entry in entries(read("codex/*.jsonl"))
            for block in entry.turn.blocks
            if isinstance(block, ThinkingBlock)
        ]

        assert thoughts == [ThinkingBlock("**Counting**", "gAAAAinvented1"), ThinkingBlock("", "gAAAAinvented2")]

    def test_counts_said_twice_count_once(self) -> None:
        found = read("codex/*.jsonl")

        assert sum(spent.usage.input for spent in found.spent) == 3400
        assert sum(spent.usage.output for spent in found.spent) == 140
        assert {spent.model for spent in found.spent} == {"gpt-5"}

    def test_arguments_failures_and_hosted_calls(self) -> None:
        turns = [entry.turn for entry in entries(read("codex/*.jsonl"))]

        assert [call.input for turn in turns for call in turn.tool_calls][:2] == [
            {"cmd": "wc -l tulips.txt"},
            "not json",
        ]
        assert [result.is_error for turn in turns for result in turn.tool_results] == [None, True, None]
        hosted = [block for turn in turns for block in turn.blocks if isinstance(block, OtherBlock)]
        assert hosted[0].raw["call"]["action"]["query"] == "tulip counts"

    def test_a_compaction_begins_a_new_line(self) -> None:
        made = assemble(read("codex/*.jsonl"))

        assert words(live_path(made))[0] == ("system", "Summary: there are twelve tulips.")
        assert made.condensations[0]["files"]["modified"] == ["notes.md"]

    def test_the_first_versions_hold_items_bare(self) -> None:
        data = (
            b'{"id":"old-1","timestamp":"2025-05-01T00:00:00Z","instructions":null}\n{"record_type":"state"}\n'
            b'{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}\n'
        )

        assert places.tool_of(data, Path("rollout-1.jsonl")) == "codex"
        found = places.read(data, "rollout-1", "codex")
        assert (found.id, words([entry.turn for entry in entries(found)])) == ("old-1", [("user", "hi")])


class TestPi:
    def test_a_kept_tail_is_put_under_the_summary(self) -> None:
        made = assemble(read("pi/linear.jsonl"))

        assert words(live_path(made)) == [
            ("system", "Everything is planned."),
            ("user", "Go on"),
            ("assistant", "Going on."),
            ("user", "I ran `ls`; it printed:\nbeds.txt\n(exit code 1)"),
            ("assistant", "Done."),
        ]
        first, second = made.condensations
        assert len(first["copies"]) == 3
        assert (first["before"], second["before"]) == (170000, 180000)
        assert first["files"] == {"read": ["beds.txt"], "modified": []}
        nodes = {node.id: node for node in made.nodes}
        for copy, original in {**first["copies"], **second["copies"]}.items():
            assert (nodes[copy].turn, nodes[copy].created_at) == (nodes[original].turn, nodes[original].created_at)
        assert nodes[first["summary"]].parent is None
        assert nodes[first["summary"]].created_at == nodes[made.ids["line-4"]].created_at, "the last condensed turn's"
        assert first["from"] in nodes
        assert first["cut"] in nodes

    def test_empty_answers_are_no_turns_and_calls_may_stay_open(self) -> None:
        found = read("pi/linear.jsonl")

        assert [skipped.reason for skipped in found.skipped] == ["an empty answer (aborted)"]
        assert [call.id for call in unanswered_calls([entry.turn for entry in entries(found)])] == ["c2"]
        assert sum(spent.usage.cost or 0 for spent in found.spent) == pytest.approx(0.1)
        assert found.parent == "pi-before"

    def test_a_tree_stays_a_tree(self) -> None:
        found = read("pi/tree.jsonl")
        made = assemble(found)

        assert (found.title, found.labels, found.gaps) == ("The hose", {"e2": "the answer"}, 1)
        assert words(live_path(made)) == [
            ("system", "The hose is in the blue shed."),
            ("user", "Which shed?"),
            ("assistant", "The blue one."),
            ("user", "Good"),
            ("user", "after a loss"),
        ]
        assert {entry.key for entry in entries(found) if entry.parent == "e2"} == {"e3", "e5"}


class TestGeminiCli:
    def test_messages_calls_and_results(self) -> None:
        found = read("gemini-cli/*.json")

        assert [entry.turn.role for entry in entries(found)] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
            "user",
        ]
        results = [result for entry in entries(found) for result in entry.turn.tool_results]
        assert [(result.output, result.is_error) for result in results] == [
            ("shade.txt", False),
            ("no such file", True),
        ]
        assert [call.id for call in unanswered_calls([entry.turn for entry in entries(found)])] == ["run-1"]
        assert (sum(s.usage.input for s in found.spent), sum(s.usage.output for s in found.spent)) == (700, 31)
        assert isinstance(entries(found)[-1].turn.blocks[1], ImageBlock)

    def test_the_log_is_replayed_and_what_was_taken_back_is_a_branch(self) -> None:
        found = read("gemini-cli/*.jsonl")
        made = assemble(found)

        assert found.title == "Shade plants"
        assert words(live_path(made)) == [
            ("user", "What grows in the shade?"),
            ("assistant", "list_directory,read_file,run_shell_command"),
            ("tool", ""),
            ("tool", ""),
            ("user", "Only the tall ones"),
            ("assistant", "Then foxgloves."),
        ]
        assert "Ferns do." in {node.turn.text for node in made.nodes}


class TestRelative:
    def test_ids_and_times_stay(self) -> None:
        found = read("indusagi/store.jsonl")
        made = assemble(found)

        assert [node.id for node in made.nodes] == [entry.key for entry in entries(found)]
        assert words(live_path(made)) == [
            ("user", "plain"),
            ("assistant", "yes"),
            ("user", "again"),
            ("assistant", "yes"),
        ]
        assert len(found.skipped) == 1

    def test_a_history_that_was_stored_again_and_again_is_told_once(self) -> None:
        found = read("indusagi/store-again.jsonl")
        made = assemble(found)

        assert words(live_path(made)) == [
            ("user", "one"),
            ("assistant", "ok"),
            ("user", "two"),
            ("assistant", "ok"),
            ("user", "three"),
            ("assistant", "fine"),
        ]
        assert found.repeated == 6
        assert len(made.nodes) == 12 + 6, "what was stored stays"

    def test_a_conversation_that_repeats_itself_is_no_copy(self) -> None:
        lines, parent = [], None
        for at, text in enumerate(["hi", "hello", "hi", "hello", "bye"]):
            turn = {"role": "user" if at % 2 == 0 else "assistant", "blocks": [{"kind": "text", "text": text}]}
            node = hash_node(parent, turn, at * 4000)
            lines.append({"type": "node", "node": {"id": node, "parent": parent, "turn": turn, "createdAt": at * 4000}})
            parent = node
        data = b"\n".join(reading.compact(line).encode() for line in lines)

        assert places.read(data, "x", "indusagi").repeated == 0

    def test_its_agents_sessions_are_read_too(self) -> None:
        found = read("indusagi/agent.jsonl")

        assert found.tool == "indusagi"
        assert words([entry.turn for entry in entries(found)]) == [
            ("user", "Hello"),
            ("assistant", "Hello."),
            ("user", "a note"),
        ]


@pytest.mark.parametrize(
    ("foreign", "wanted"),
    [
        ("abc-1", "pi-abc-1"),
        ("x" * 200, "pi-" + "x" * 40),
        ("../../etc/passwd", "pi-etc-passwd-"),
        ("", "pi-"),
        ("日本", "pi-"),
    ],
)
def test_session_ids_are_safe_and_fixed(foreign: str, wanted: str) -> None:
    first = session_id_for("pi", foreign)

    assert first == session_id_for("pi", foreign)
    assert first.startswith(wanted)
    assert "/" not in first
    assert ".." not in first


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("2026-01-07T20:23:23.678Z", 1767817403678),
        ("2026-01-07T21:23:23+01:00", 1767817403000),
        ("2026-01-07T20:23:23", 1767817403000),
        (1767817403, 1767817403000),
        (1767817403678, 1767817403678),
        ("yesterday", None),
        (None, None),
        (True, None),
        (float("nan"), None),
        (-5, None),
    ],
)
def test_times(value: object, wanted: int | None) -> None:
    assert reading.milliseconds(value) == wanted


def test_folders_as_uris() -> None:
    assert reading.folder_uri("/home/kim/a b") == "file:///home/kim/a%20b"
    assert reading.folder_uri("C:\\Users\\Kim") == "file:///c%3A/Users/Kim"
    assert reading.folder_uri(None) is None


@pytest.mark.parametrize("tool", places.TOOLS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"type":"user","message":{"content":[[[]]]}}\n' * 3,
        b'{"type":"session","id":5,"timestamp":[]}\n{"type":"message","message":7}\n',
        b'{"type":"response_item","payload":{"type":"message","role":"user","content":[null,3,{"type":5}]}}\n',
        b'{"type":"assistant","uuid":"u","message":{"content":[{"type":"tool_use"},{"type":"thinking"},null]}}\n',
        b'{"sessionId":3,"messages":[1,{"type":"gemini","toolCalls":[3,{"id":4,"result":[7]}],"thoughts":[1]}]}',
        b'{"type":"node","node":{"id":"a","parent":"a","turn":{"role":"user","blocks":[]},"createdAt":0}}\n',
        b'{"type":"compaction","summary":"s"}\n{"type":"compacted","payload":{}}\n{"$rewindTo":"x"}\n',
    ],
)
def test_no_content_is_an_error(tool: str, data: bytes) -> None:
    assemble(places.read(data, "x", tool))
