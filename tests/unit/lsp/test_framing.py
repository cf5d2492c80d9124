"""The reader against whatever bytes, without a process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.transport.framing import FrameError, FrameReader, LineReader, frame, line

BODY = b'{"jsonrpc":"2.0","id":1,"method":"x"}'


def read(data: bytes, *cuts: int) -> list[bytes | FrameError]:
    reader, found, start = FrameReader(1 << 16), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += reader.feed(data[start:cut])
        start = cut
    return found


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(0, 2000), max_size=20))
def test_frames_come_whole_however_they_are_cut(bodies, cuts):
    assert read(b"".join(map(frame, bodies)), *cuts) == bodies


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_rubbish_never_raises_and_is_cut_alike(data, cuts):
    """What is found does not depend on how the bytes came."""
    assert read(data, *cuts) == read(data)


NOT_A_PROMISE = st.binary(max_size=200).filter(lambda data: b"ontent" not in data.lower())


@given(st.lists(NOT_A_PROMISE, max_size=6))
def test_after_rubbish_the_next_frame_is_found(rubbish):
    """Rubbish that promises no body cannot hide a frame behind it, and is reported once for each stretch."""
    data = b"".join(piece + b"\n\n" + frame(BODY) for piece in rubbish)
    found = read(data)
    assert found.count(BODY) == len(rubbish)
    assert len(found) <= 2 * len(rubbish)


def test_a_body_that_is_too_long_is_skipped_not_kept():
    reader = FrameReader(1000)
    found = reader.feed(b"Content-Length: 5000000\r\n\r\n")
    for _ in range(5000):
        found += reader.feed(b"x" * 1000)
        assert len(reader._buffer) < 20_000
    found += reader.feed(b"\r\n" + frame(BODY))
    assert [type(item) for item in found] == [FrameError, bytes]


def test_a_number_without_end():
    assert [type(item) for item in read(b"Content-Length: " + b"9" * 10_000 + b"\r\n\r\n" + frame(BODY))] == [
        FrameError,
        bytes,
    ]


def test_one_error_for_one_stretch():
    data = b"Content-Length: -1\r\n\r\n" + b'{"a":\n\n 1}\n\nmore\r\n\r\n' + frame(BODY)
    assert [type(item) for item in read(data)] == [FrameError, bytes]


# --- one message a line -----------------------------------------------------------------------------------------------


def read_lines(data: bytes, *cuts: int, limit: int = 1 << 16) -> list[bytes | FrameError]:
    reader, found, start = LineReader(limit), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += reader.feed(data[start:cut])
        start = cut
    return found


ONE_LINE = st.binary(min_size=1, max_size=80).map(lambda data: data.replace(b"\n", b"").strip()).filter(bool)


@given(st.lists(ONE_LINE), st.lists(st.integers(0, 2000), max_size=20))
def test_lines_come_whole_however_they_are_cut(bodies, cuts):
    assert read_lines(b"\n \r\n".join(map(line, bodies)), *cuts) == bodies


@given(st.lists(st.integers(1, 40), max_size=12), st.lists(st.integers(0, 500), max_size=20))
def test_a_line_that_is_too_long_is_reported_once_and_the_next_is_found(sizes, cuts):
    data = b"".join(b"x" * size + b"\n" for size in sizes)
    found = [FrameError if isinstance(item, FrameError) else len(item) for item in read_lines(data, *cuts, limit=20)]
    assert found == [FrameError if size > 20 else size for size in sizes]


def test_a_line_without_end_is_not_kept():
    reader = LineReader(1000)
    found = []
    for _ in range(5000):
        found += reader.feed(b"x" * 1000)
        assert len(reader._buffer) < 20_000
    found += reader.feed(b"\n" + line(BODY))
    assert [type(item) for item in found] == [FrameError, bytes]
