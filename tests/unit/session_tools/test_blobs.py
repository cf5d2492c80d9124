"""Blobs and redaction: nothing long in a block, nothing lost, no secret kept, nothing else touched."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from indusagi_lsp.contract.errors import InvalidInput, PersistenceFault
from indusagi_lsp.contract.limits import MAX_OUTPUT_BYTES
from indusagi_lsp.contract.secrets import redact
from indusagi_lsp.contract.turns import TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock, Turn
from indusagi_lsp.sessions import blobs
from indusagi_lsp.sessions.redaction import redact_turn

if TYPE_CHECKING:
    from pathlib import Path


def digest_of(output: str) -> str:
    [digest] = blobs.named([Turn("tool", (ToolResultBlock("c", output),))])
    return digest


def test_what_fits_stays(tmp_path: Path) -> None:
    for text in ("", "short", "x" * MAX_OUTPUT_BYTES, "é" * (MAX_OUTPUT_BYTES // 2)):
        assert blobs.spill(text, tmp_path / "blobs") == text
    assert not (tmp_path / "blobs").exists()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "é" * 50_000,
        "😀" * 20_000,
        "x" + "😀" * 20_000,
        "xx" + "😀" * 20_000 + "y",
        "a\ud800" * 30_000,
        "head" + "\n" * 99_000 + "tail",
    ],
)
def test_what_does_not_is_cut_between_characters_and_kept_whole(text: str, tmp_path: Path) -> None:
    output = blobs.spill(text, tmp_path / "blobs")

    assert len(output.encode("utf-8", "surrogatepass")) <= MAX_OUTPUT_BYTES
    assert output[0] == text[0]
    assert output[-1] == text[-1]
    assert "\ufffd" not in output
    assert blobs.read(tmp_path / "blobs", digest_of(output)) == text
    assert blobs.spill(text, tmp_path / "blobs") == output, "the same again gives the same"
    assert len(list((tmp_path / "blobs").iterdir())) == 1


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_blobs_are_private(tmp_path: Path) -> None:
    folder = tmp_path / ".indusagi" / "blobs"
    output = blobs.spill("x" * 100_000, folder)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / digest_of(output)).stat().st_mode & 0o777 == 0o600
    assert (folder.parent / ".gitignore").read_bytes() == b"*\n"


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_planted_link_leads_nowhere(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / ".indusagi").mkdir()
    (tmp_path / ".indusagi" / "blobs").symlink_to(target)

    output = blobs.spill("x" * 100_000, tmp_path / ".indusagi" / "blobs")

    assert "they could not be kept" in output
    assert list(target.iterdir()) == []


def test_a_changed_or_missing_blob_is_told(tmp_path: Path) -> None:
    digest = digest_of(blobs.spill("x" * 100_000, tmp_path))
    (tmp_path / digest).write_bytes(b"other")

    assert blobs.state(tmp_path, digest) == "changed"
    with pytest.raises(PersistenceFault):
        blobs.read(tmp_path, digest)
    (tmp_path / digest).unlink()
    assert blobs.state(tmp_path, digest) == "missing"
    for wrong in (digest, "../../etc/passwd", "", digest.upper()):
        with pytest.raises(InvalidInput):
            blobs.read(tmp_path, wrong)


def test_a_damaged_blob_is_written_again(tmp_path: Path) -> None:
    output = blobs.spill("x" * 100_000, tmp_path)
    (tmp_path / digest_of(output)).write_bytes(b"cut")

    blobs.spill("x" * 100_000, tmp_path)

    assert blobs.state(tmp_path, digest_of(output)) == "ok"


def test_only_blobs_that_nothing_names_are_collected(tmp_path: Path) -> None:
    folder, sessions = tmp_path / "blobs", tmp_path / "sessions"
    sessions.mkdir()
    kept, broken, border, lone = (digest_of(blobs.spill(letter * 100_000, folder)) for letter in "abcd")
    (sessions / "one.jsonl").write_bytes(b'{"x":"blob %s"}\n' % kept.encode())
    (sessions / "one.broken-1").write_bytes(broken.encode())
    (sessions / "two.jsonl").write_bytes(b"x" * (1024 * 1024 - 30) + border.encode() + b"\n")
    (folder / "notes.txt").write_text("not a blob")
    later = time.time() + 2 * blobs.YOUNG_SECONDS

    assert blobs.collect(folder, [sessions]).removed == (), "all are young"
    planned = blobs.collect(folder, [sessions, tmp_path / "archive"], now=later, dry_run=True)
    assert (planned.removed, planned.bytes, planned.kept) == ((lone,), 100_000, 3)
    assert (folder / lone).exists()
    assert blobs.collect(folder, [sessions], now=later).removed == (lone,)
    assert sorted(path.name for path in folder.iterdir()) == sorted([kept, broken, border, "notes.txt"])


SECRETS = [
    ("aws key", "AKIA" + "Q7" * 8),
    ("github token", "ghp_" + "a1B2" * 9),
    ("github token", "github_pat_" + "a1" * 11 + "_" + "b" * 59),
    ("gitlab token", "glpat-" + "a1_B" * 5),
    ("anthropic key", "sk-ant-api03-" + "aB1_" * 23 + "AA"),
    ("openai key", "sk-proj-" + "aB1_" * 10 + "T3BlbkFJ" + "aB1_" * 10),
    ("google key", "AIza" + "aB1-_" * 7),
    ("slack token", "xoxb-123456789012-1234567890123-" + "aB1c" * 6),
    ("stripe key", "sk_live_" + "aB1c" * 6),
    ("npm token", "npm_" + "aB1c" * 9),
    ("pypi token", "pypi-AgEIcHlwaS5vcmc" + "aB1_" * 20),
    ("huggingface token", "hf_" + "aBcD" * 8 + "ab"),
    ("sendgrid key", "SG." + "a" * 22 + "." + "b" * 43),
    ("digitalocean token", "dop_v1_" + "0a" * 32),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIE" * 40 + "\n-----END RSA PRIVATE KEY-----"),
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_secrets_of_known_shapes_go(kind: str, secret: str) -> None:
    for before, after in (("", ""), ("token=", "\n"), ('{"key":"', '"}'), ("(", ")")):
        assert redact(before + secret + after) == f"{before}[redacted: {kind}]{after}"


@pytest.mark.parametrize(
    "text",
    [
        "a sha: 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "sk-learn and sk-proj-short",
        "ghp_tooshort",
        "AKIAIOSFODNN7EXAMPLEX",
        "xoxb-placeholder",
        "hf_model_name_with_underscores_all_over_it",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "password = 'hunter2'",
        "toolu_bdrk_014VzRLMz4RS35XdgWxBiS52",
        "call_Y2p6KmqwoTtpi6atpDPuxC5M",
        "npm_config_registry=https://example.com",
        "eyJhbGciOiJIUzI1NiJ9",
        "SG.short.short",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text) is text


def test_a_turn_loses_secrets_wherever_they_stand() -> None:
    secret = SECRETS[1][1]
    turn = Turn(
        "assistant",
        (
            TextBlock(f"it is {secret}"),
            ThinkingBlock(f"hm {secret}", "signature"),
            ToolCallBlock("c", "run", {"env": [f"T={secret}"], "n": 1}),
            ToolResultBlock("c", secret),
        ),
    )

    clean = redact_turn(turn)

    assert secret not in repr(clean)
    assert clean.blocks[1] == ThinkingBlock("hm [redacted: github token]", None)
    assert clean.blocks[2] == ToolCallBlock("c", "run", {"env": ["T=[redacted: github token]"], "n": 1})
    plain = Turn("user", (TextBlock("nothing here"), ToolCallBlock("c", "x", {"a": [1]})))
    assert redact_turn(plain) is plain


def test_spilling_takes_secrets_out_of_the_block_and_the_blob(tmp_path: Path) -> None:
    secret = SECRETS[1][1]
    text = f"start {secret} end " + "x" * 100_000

    output = blobs.spill(text, tmp_path)
    assert secret not in output
    assert secret not in blobs.read(tmp_path, digest_of(output))
    assert secret in blobs.spill(text, tmp_path, redacted=False)
    assert blobs.spill(f"short {secret}", tmp_path) == "short [redacted: github token]"


def test_redaction_is_fast_on_long_text() -> None:
    many = ("-----BEGIN " * 5_000) + ("sk-" * 20_000) + "A" * 200_000
    open_keys = "-----BEGIN PRIVATE KEY-----" * 5_000 + "-----END"
    for text in (many, open_keys, "-----BEGIN PRIVATE KEY-----\n" + "M" * 500_000, "sk-proj-" * 50_000):
        start = time.process_time()
        redact(text)

        assert time.process_time() - start < 2
