"""Providers that fail, refuse, stall and talk nonsense: what the user is told, and what is tried again."""

from __future__ import annotations

import asyncio
import gzip
import socket
from contextlib import aclosing, suppress

import pytest

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.contract.models import ModelDone, ModelRetry, TextDelta
from indusagi_lsp.models import ModelsConfig, ProviderConfig, RetryPolicy, create_models
from support.fake_providers import Answer, FakeProvider
from support.model_bench import KEY, ask, collect

ANTHROPIC = "anthropic:claude-sonnet-5-5"
GOOGLE = "google:gemini-3.8-flash"
ONCE = RetryPolicy(attempts=1)
OK = Answer(text=("fine",))


def openai_error(status: int, message: str, *, code: str | None = None, **headers: str) -> Answer:
    body = {"error": {"message": message, "type": "error", "code": code}}
    return Answer(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)


def anthropic_error(status: int, kind: str, message: str, **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Answer(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()}, body=body)


async def refused(bench, server, model="fake:m", *, retry=ONCE, **fields) -> ModelError:
    parts = []
    with pytest.raises(ModelError) as caught:
        await collect(bench.models(server, retry=retry, **fields).invoke(ask(model)), parts)
    error = caught.value
    told = f"{error.message} {error.hint}"
    assert KEY not in told
    assert "Traceback" not in told
    assert "\x1b" not in told
    assert error.hint
    return error


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_failure_before_anything_visible_is_tried_again(bench, status):
    async with FakeProvider("openai", openai_error(status, "busy"), OK) as server:
        parts = await collect(bench.models(server).invoke(ask()))

    assert isinstance(parts[0], ModelRetry)
    assert parts[0].attempt == 1
    assert parts[-1].turn.text == "fine"
    assert len(server.requests) == 2
    assert bench.slept == [parts[0].delay]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_a_refusal_is_never_tried_again(bench, status):
    async with FakeProvider("openai", openai_error(status, "no", retry_after="1"), OK) as server:
        error = await refused(bench, server, retry=RetryPolicy())

    assert (len(server.requests), error.status, error.retryable, bench.slept) == (1, status, False, [])


async def test_waits_grow_and_end(bench):
    async with FakeProvider("openai", openai_error(500, "broken")) as server:
        error = await refused(bench, server, retry=RetryPolicy(attempts=4))

    assert error.retryable
    assert bench.slept == [0.75, 1.5, 3.0]
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("value", "waited"),
    [("7", 7.0), ("0", 0.0), ("2.5", 2.5), ("Fri, 15 Jan 2027 08:16:50 GMT", 10.0), ("-5", None), ("soon", None),
     ("nan", None), ("inf", None), ("", None), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("9" * 400, None),
     ("7, 8", None), ("0x10", None), ("Friday, 15-Jan-27 08:16:50 GMT", 10.0), ("Fri Jan 15 08:16:50 2027", 10.0),
     ("Fri, 15 Jan 2027 10:16:50 +0200", 10.0), ("Fri, 99 Foo 2027 08:16:50 GMT", None)],
)  # fmt: skip
async def test_retry_after_is_obeyed_where_it_makes_sense(bench, value, waited):
    async with FakeProvider("openai", openai_error(429, "slow down", retry_after=value), OK) as server:
        parts = await collect(bench.models(server).invoke(ask()))

    own = 0.75
    assert parts[0].delay == bench.slept[0]
    assert bench.slept[0] >= own
    if waited:
        assert waited <= bench.slept[0] <= waited + 1
    else:
        assert bench.slept[0] == own


@pytest.mark.parametrize("value", ["1e9", "61", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_an_absurd_retry_after_ends_the_call_and_is_told(bench, value):
    async with FakeProvider("openai", openai_error(429, "slow down", retry_after=value), OK) as server:
        error = await refused(bench, server, retry=RetryPolicy())

    assert len(server.requests) == 1
    assert error.retry_after > 60
    assert bench.slept == []


@pytest.mark.parametrize(
    ("wire", "model", "answer"),
    [
        ("openai", "fake:m", openai_error(503, "busy", retry_after="7")),
        ("openai", "fake:m", openai_error(529, "busy", retry_after="7")),
        ("anthropic", ANTHROPIC, anthropic_error(429, "rate_limit_error", "slow down", retry_after="7")),
        ("anthropic", ANTHROPIC, anthropic_error(529, "overloaded_error", "Overloaded", retry_after="7")),
        ("google", GOOGLE, openai_error(429, "slow down", retry_after="7")),
    ],
)
async def test_every_provider_and_status_may_ask_to_wait(bench, wire, model, answer):
    async with FakeProvider(wire, answer, OK) as server:
        assert (await collect(bench.models(server).invoke(ask(model))))[-1].turn.text == "fine"

    assert len(server.requests) == 2
    assert 7 <= bench.slept[0] <= 8


async def test_retry_after_in_milliseconds_is_obeyed(bench):
    async with FakeProvider("openai", openai_error(429, "slow down", retry_after_ms="4000"), OK) as server:
        await collect(bench.models(server).invoke(ask()))

    assert 4 <= bench.slept[0] <= 5


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
        ("This request would exceed your account's spend limit.", None),
        ("Your credit balance is too low.", None),
    ],
)
async def test_a_spent_account_is_not_called_again(bench, message, code):
    async with FakeProvider("openai", openai_error(429, message, code=code), OK) as server:
        error = await refused(bench, server, retry=RetryPolicy())

    assert len(server.requests) == 1
    assert "quota or credit" in error.message


async def test_a_provider_that_says_not_to_retry_is_not_called_again(bench):
    async with FakeProvider("openai", openai_error(503, "no", x_should_retry="false"), OK) as server:
        await refused(bench, server, retry=RetryPolicy())

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("wire", "model", "answer"),
    [
        ("openai", "fake:m", openai_error(400, "too many", code="context_length_exceeded")),
        ("openai", "fake:m", openai_error(400, "This model's maximum context length is 4096 tokens.")),
        (
            "openai",
            "fake:m",
            openai_error(400, "request (5031 tokens) exceeds the available context size (4096 tokens)"),
        ),
        ("openai", "fake:m", openai_error(413, "Payload too large")),
        ("openai", "fake:m", Answer(error=("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"))),
        (
            "anthropic",
            ANTHROPIC,
            anthropic_error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        ),
        (
            "anthropic",
            ANTHROPIC,
            anthropic_error(
                400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 8 > 10"
            ),
        ),
        (
            "google",
            GOOGLE,
            Answer(
                status=400,
                body={
                    "error": {
                        "code": 400,
                        "status": "INVALID_ARGUMENT",
                        "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                    }
                },
            ),
        ),
    ],
)
async def test_a_prompt_that_is_too_long_is_an_overflow(bench, wire, model, answer):
    async with FakeProvider(wire, answer, OK) as server:
        error = await refused(bench, server, model, retry=RetryPolicy())

    assert isinstance(error, ContextOverflow)
    assert len(server.requests) == 1


async def test_a_rate_limit_on_tokens_is_no_overflow(bench):
    message = "Request too large for m on tokens per min (TPM): Limit 3, Requested 4. Reduce the messages."
    async with FakeProvider("openai", openai_error(429, message, code="rate_limit_exceeded")) as server:
        error = await refused(bench, server)

    assert not isinstance(error, ContextOverflow)
    assert "one call may not be that large" in error.message


@pytest.mark.parametrize(
    ("wire", "model", "answer", "place"),
    [
        ("openai", "fake:m", openai_error(401, f"Bad key: {KEY[:8]}****ghij", code="invalid_api_key"), "api_key"),
        ("anthropic", ANTHROPIC, anthropic_error(401, "authentication_error", f"invalid x-api-key {KEY}"), "api_key"),
        (
            "google",
            GOOGLE,
            Answer(
                status=400,
                body={
                    "error": {
                        "code": 400,
                        "status": "INVALID_ARGUMENT",
                        "message": "API key not valid.",
                        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
                    }
                },
            ),
            "api_key",
        ),
    ],
)  # fmt: skip
async def test_a_wrong_key_is_told_without_the_key(bench, wire, model, answer, place):
    async with FakeProvider(wire, answer) as server:
        error = await refused(bench, server, model)

    assert "refused the key" in error.message
    assert place in error.hint
    assert "sk-test" not in error.message


async def test_an_unknown_model_is_told(bench):
    async with FakeProvider(
        "openai", openai_error(404, "The model `m` does not exist", code="model_not_found")
    ) as server:
        error = await refused(bench, server)

    assert "does not know the model 'm'" in error.message


async def test_a_refused_connection_is_told_at_once(bench):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    server = FakeProvider("openai")
    server.port = port
    error = await refused(bench, server, retry=RetryPolicy())

    assert f"http://127.0.0.1:{port}/v1 refused the connection" in error.message
    assert bench.slept == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(raw=b"<html><body>Welcome to the hotel's Wi-Fi</body></html>", content_type="text/html"),
        Answer(raw=b"data: {not json\n\n"),
        Answer(raw=b'data: "text"\n\n'),
        Answer(raw=b"data: [1, 2]\n\ndata: [DONE]\n\n"),
        Answer(raw=b"\x00\xff\xfe" * 100),
        Answer(raw=b""),
        Answer(raw=b'data: {"choices": 7}\n\n'),
        Answer(raw=b'data: {"choices": [{"delta": {"content": 7}}]}\n\n'),
        Answer(raw=b'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": "x"}]}}]}\n\n'),
        Answer(body={"hello": "world"}),
        Answer(body=b"\x1b[31m<!doctype html><html>login</html>", content_type="text/html"),
        Answer(raw=gzip.compress(b"data: {}\n\n" * 50)[:20], headers={"content-encoding": "gzip"}),
        Answer(raw=b"data: x", headers={"content-encoding": "gzip"}),
        Answer(status=500, body=b"<html>\x1b[2Joops</html>", content_type="text/html"),
        Answer(status=302, headers={"location": "http://127.0.0.1:9/"}, body=b""),
        Answer(status=418, body={"error": None}),
    ],
)
async def test_garbage_is_told_in_words(bench, answer):
    async with FakeProvider("openai", answer) as server:
        error = await refused(bench, server)

    assert "<" not in error.message


async def test_what_cannot_be_read_is_no_refusal(bench):
    async with FakeProvider("openai", Answer(raw=b"data: {this is not json\n\n")) as server:
        error = await refused(bench, server)

    assert "no answer of a model" in error.message
    assert "right address" in error.hint


@pytest.mark.parametrize("wire", ["anthropic", "google"])
@pytest.mark.parametrize("raw", [b"", b"<html>", b"event: message_start\ndata: {}\n\n", b"data: 7\n\n"])
async def test_garbage_in_other_formats_is_told_in_words(bench, wire, raw):
    async with FakeProvider(wire, Answer(raw=raw)) as server:
        await refused(bench, server, ANTHROPIC if wire == "anthropic" else GOOGLE)


async def test_an_error_after_200_is_tried_again_only_if_nothing_was_shown(bench):
    early = Answer(error=("overloaded_error", "Overloaded"))
    late = Answer(text=("some",), error=("overloaded_error", "Overloaded"))
    async with FakeProvider("anthropic", early, OK, late, OK) as server:
        models = bench.models(server)
        assert (await collect(models.invoke(ask(ANTHROPIC))))[-1].turn.text == "fine"

        parts = []
        with pytest.raises(ModelError) as caught:
            await collect(models.invoke(ask(ANTHROPIC)), parts)

    assert parts == [TextDelta("some")]
    assert caught.value.retryable
    assert len(server.requests) == 3


async def test_a_stream_that_died_keeps_its_partial_text(bench):
    async with FakeProvider("openai", Answer(text=("some", "thing"), stop=None, framing="close")) as server:
        parts = []
        with pytest.raises(ModelError, match="before the answer was complete"):
            await collect(bench.models(server).invoke(ask()), parts)

    assert parts == [TextDelta("some"), TextDelta("thing")]
    assert len(server.requests) == 1


@pytest.mark.parametrize(("wire", "model"), [("openai", "fake:m"), ("anthropic", ANTHROPIC), ("google", GOOGLE)])
@pytest.mark.parametrize("after", [0, 700])
async def test_a_silent_stream_ends(bench, wire, model, after):
    answer = Answer(text=("some",) * 20, stall_after=after)
    async with FakeProvider(wire, answer) as server:
        error = await refused(bench, server, model, idle=0.2, retry=RetryPolicy())

    assert "sent nothing" in error.message
    assert len(server.requests) == 1


async def test_a_stream_of_nothing_but_pings_ends(bench):
    pings = b": ping\n\n" * 1_000
    async with FakeProvider("openai", Answer(raw=pings, split=8, pace=0.05)) as server:
        error = await refused(bench, server, idle=0.2)

    assert "sent nothing for 1 s" in error.message


async def test_an_endless_body_is_cut_off(bench, monkeypatch):
    import indusagi_lsp.models.client as client

    monkeypatch.setattr(client, "MAX_RESPONSE_BYTES", 100_000)
    async with FakeProvider("openai", Answer(raw=b"data: " + b"x" * 400_000)) as server:
        await refused(bench, server)


async def test_the_circuit_opens_after_five_failures_and_lets_one_probe_through(bench):
    async with FakeProvider("openai", openai_error(500, "broken")) as server:
        models = bench.models(server, retry=ONCE)
        for _ in range(5):
            with pytest.raises(ModelError, match="failed"):
                await collect(models.invoke(ask()))
        with pytest.raises(ModelError, match="5 times in a row") as caught:
            await collect(models.invoke(ask()))
        assert (len(server.requests), caught.value.retry_after) == (5, 30.0)

        bench.clock.seconds += 31
        with pytest.raises(ModelError, match="failed"):
            await collect(models.invoke(ask()))
        with pytest.raises(ModelError, match="5 times in a row"):
            await collect(models.invoke(ask()))
        assert len(server.requests) == 6

        server.answers = [Answer(text=("back",), pace=0.05)]
        bench.clock.seconds += 31
        outcomes = await asyncio.gather(*(collect(models.invoke(ask())) for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(outcome, list) for outcome in outcomes) == 1
        assert len(server.requests) == 7
        assert (await collect(models.invoke(ask())))[-1].turn.text == "back"


async def until_done(parts):
    """Take an answer as a run does: nothing more is asked for once it is whole."""
    async with aclosing(parts):
        async for part in parts:
            if isinstance(part, ModelDone):
                return part
    return None


async def test_a_whole_answer_closes_the_circuit_also_when_its_reader_stops_there(bench):
    async with FakeProvider("openai", openai_error(500, "broken")) as server:
        models = bench.models(server, retry=ONCE)
        for _ in range(5):
            with pytest.raises(ModelError, match="failed"):
                await collect(models.invoke(ask()))

        server.answers = [Answer(text=("back",), pace=0.05)]
        bench.clock.seconds += 31
        await until_done(models.invoke(ask()))
        outcomes = await asyncio.gather(*(until_done(models.invoke(ask())) for _ in range(5)))
    assert [done.turn.text for done in outcomes] == ["back"] * 5


@pytest.mark.parametrize(
    ("answer", "idle", "counts"),
    [
        (Answer(text=("some",) * 20, stall_after=0), 0.1, True),
        (Answer(text=("some",) * 20, stall_after=700), 0.1, True),
        (Answer(raw=b"<html>hotel</html>", content_type="text/html"), 5.0, True),
        (openai_error(503, "no", x_should_retry="false"), 5.0, True),
        (openai_error(400, "bad"), 5.0, False),
        (openai_error(401, "bad key"), 5.0, False),
        (openai_error(429, "You exceeded your current quota", code="insufficient_quota"), 5.0, False),
        (openai_error(400, "too many", code="context_length_exceeded"), 5.0, False),
    ],
    ids=["silence", "silence midway", "garbage", "no retry", "refused", "key", "quota", "overflow"],
)
async def test_the_circuit_counts_what_is_the_providers_failure_and_no_refusal(bench, answer, idle, counts):
    async with FakeProvider("openai", answer) as server:
        models = bench.models(server, retry=ONCE, idle=idle)
        for _ in range(5):
            with pytest.raises(ModelError):
                await collect(models.invoke(ask()))
        assert len(server.requests) == 5
        with pytest.raises(ModelError) as caught:
            await collect(models.invoke(ask()))

    assert ("5 times in a row" in caught.value.message) == counts
    assert len(server.requests) == (5 if counts else 6)


async def test_a_refusal_that_says_nothing_of_the_provider_lets_its_failures_stand(bench):
    async with FakeProvider("openai", openai_error(500, "broken")) as server:
        models = bench.models(server, retry=ONCE)
        for _ in range(4):
            with pytest.raises(ModelError):
                await collect(models.invoke(ask()))
        server.answers = [OK]
        await models.invoke(ask()).aclose()
        stopped = models.invoke(ask())
        async with aclosing(stopped):
            await anext(stopped)
        server.answers = [openai_error(500, "broken")]
        with pytest.raises(ModelError):
            await collect(models.invoke(ask()))
        with pytest.raises(ModelError, match="5 times in a row"):
            await collect(models.invoke(ask()))


async def test_failures_with_an_answer_in_between_are_not_in_a_row(bench):
    async with FakeProvider("openai", openai_error(500, "broken")) as server:
        models = bench.models(server, retry=ONCE)
        for answer in (*[openai_error(500, "broken")] * 4, OK, openai_error(500, "broken")):
            server.answers = [answer]
            with suppress(ModelError):
                await until_done(models.invoke(ask()))

        server.answers = [OK]
        done = await until_done(models.invoke(ask()))
    assert done.turn.text == "fine"


async def test_a_call_that_was_waiting_does_not_knock_at_an_open_circuit(bench):
    async with FakeProvider("openai", openai_error(503, "busy")) as server:
        models = bench.models(server, retry=RetryPolicy(attempts=50))
        with pytest.raises(ModelError, match="overloaded"):
            await collect(models.invoke(ask()))

    assert len(server.requests) == 5


async def test_fifty_sessions_together_do_not_make_a_storm(bench):
    async with FakeProvider("openai", openai_error(529, "overloaded")) as server:
        models = bench.models(server, retry=RetryPolicy())
        calls = (collect(models.invoke(ask())) for _ in range(50))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        again = await asyncio.gather(*(collect(models.invoke(ask())) for _ in range(50)), return_exceptions=True)

    assert all(isinstance(outcome, ModelError) for outcome in [*outcomes, *again])
    assert len(server.requests) <= 60


async def test_no_key_and_unknown_names_are_told(tmp_path):
    models = create_models(
        ModelsConfig(providers={"lab": ProviderConfig(), "odd": ProviderConfig(base_url="ftp://x")}),
        environ={},
        cache_dir=tmp_path,
    )
    for model, expected in (
        (ANTHROPIC, "ANTHROPIC_API_KEY"),
        ("openai:gpt-6.1-sol", "OPENAI_API_KEY"),
        (GOOGLE, "GEMINI_API_KEY"),
        ("lab:x", "base_url"),
        ("odd:x", "http://"),
        ("nobody:x", "no model provider 'nobody'"),
        ("local:big", "no bundled model"),
        ("scripted:x", "no scripted model"),
        ("gpt-6", "names no model"),
        ("openai:", "names no model"),
        ("", "names no model"),
    ):
        with pytest.raises(ModelError, match=expected) as caught:
            await collect(models.invoke(ask(model)))
        assert caught.value.hint
    await models.close()


async def test_after_close_nothing_is_called(bench):
    async with FakeProvider("openai") as server:
        models = bench.models(server)
        await models.close()
        with pytest.raises(ModelError, match="shutting down"):
            await collect(models.invoke(ask()))
    assert server.requests == []
