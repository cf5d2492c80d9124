"""What can go wrong with a model call, in words: the library's exceptions as `ModelError`.

A message says what happened, a hint what to do. Neither holds a key, a control character or a page of HTML.
This module imports the model library, so it is itself imported late.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from pydantic_ai import exceptions as ai

from indusagi_lsp.contract.errors import ContextOverflow, ModelError
from indusagi_lsp.models.retry import parse_retry_after

if TYPE_CHECKING:
    from indusagi_lsp.models.config import Provider

_LONGEST = 300
_OVERFLOW = re.compile(
    r"prompt is too long|input is too long|input length and .?max_tokens.? exceed|context_length_exceeded"
    r"|maximum context length|exceeds? the (available|maximum) context|exceed_context_size|context window"
    r"|input token count|maximum prompt length|context the overflows|prompt too long"
    r"|reduce the length of the messages",
    re.IGNORECASE,
)
_SPENT = re.compile(r"quota|billing|credit|spend|usage limit|insufficient (funds|balance)", re.IGNORECASE)
_TOO_LARGE_AT_ONCE = re.compile(r"request too large", re.IGNORECASE)
_UNREADABLE = re.compile(r"decode response|codec can't decode|expecting value|invalid json", re.IGNORECASE)
_NO_TOOLS = re.compile(r"does not support tools", re.IGNORECASE)
_SECRET = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp)[-_][\w*.…-]{6,}|\bAIza[\w*-]{8,}"
    r"|(?i:\bbearer)\s+\S{6,}|(?i:\bapi[-_ ]?key)\s*[:=]\s*\S{6,}"
)
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+")


def fault(error: Exception, provider: Provider, model: str, *, now_ms: int) -> ModelError:
    """Say what happened.

    Args:
        error: what the library raised.
        provider: who was called.
        model: the model's name at the provider.
        now_ms: the time, to read a date in `retry-after`.

    Returns:
        The error to raise. `retryable` is set where the same call may succeed in a while.
    """
    if isinstance(error, ai.ModelAPIError):
        return _api_fault(error, provider, model, now_ms)
    detail = _shown(str(error), provider)
    if isinstance(error, ai.UserError):
        message = f"{provider.label} cannot be asked this: {detail}."
        return ModelError(message, hint="Choose another model.")
    # Whatever else a library stumbles over, it stumbles over while it reads what came.
    tail = f" ({detail})" if isinstance(error, ai.UnexpectedModelBehavior) and detail else ""
    message = f"{provider.label} answered with something that is no answer of a model{tail}."
    return ModelError(message, hint=f"Check that {provider.base_url} is the right address.", outage=True)


def broken_off(provider: Provider) -> ModelError:
    """The stream ended before the answer did."""
    message = f"{provider.label} ended the stream before the answer was complete."
    return ModelError(message, hint="Say it again to ask once more.", retryable=True)


def no_answer(provider: Provider) -> ModelError:
    """A good status, and nothing in the body that a model would say."""
    message = f"{provider.label} answered with something that is no answer of a model."
    return ModelError(message, hint=f"Check that {provider.base_url} is the right address.", outage=True)


def too_quiet(provider: Provider, seconds: float) -> ModelError:
    """Nothing came for too long. Not tried again by itself: the time was spent already."""
    message = f"{provider.label} sent nothing for {seconds:g} s, so the call was ended."
    return ModelError(message, hint="Say it again to ask once more.", outage=True)


def _api_fault(error: ai.ModelAPIError, provider: Provider, model: str, now_ms: int) -> ModelError:
    status = error.status_code if isinstance(error, ai.ModelHTTPError) else None
    said = _said(error)
    detail = _shown(said, provider)
    tail = f": {detail}" if detail else ""
    code = f" ({status})" if status is not None else ""
    if status != 429 and _is_overflow(error, status, said):
        message = f"The conversation is longer than {model} takes{tail}."
        return ContextOverflow(message, hint="Condense the conversation, or fork it earlier.", status=status)
    if isinstance(error, ai.ModelConnectionError):
        return _connection_fault(error, provider, detail)
    if status is None and _UNREADABLE.search(said):
        return no_answer(provider)
    if isinstance(error, ai.ModelAuthenticationError):
        message = f"{provider.label} refused the key{code}{tail}."
        return ModelError(message, hint=f"Check {provider.key_place}.", status=status)
    if isinstance(error, ai.ModelNotFoundError):
        message = f"{provider.label} does not know the model {model!r}{code}{tail}."
        return ModelError(message, hint="List the models to see which can be used.", status=status)

    asked = _asked(error, now_ms)
    if isinstance(error, ai.ModelQuotaExceededError) or (status == 429 and asked is None and _SPENT.search(said)):
        message = f"{provider.label} refused, since the account's quota or credit is used up{code}{tail}."
        return ModelError(message, hint="Look at the account, or choose another model.", status=status)
    if status == 429 and _TOO_LARGE_AT_ONCE.search(said):
        message = f"{provider.label} refused, since one call may not be that large{code}{tail}."
        return ModelError(message, hint="Condense the conversation, or choose another model.", status=status)
    retryable = _may_succeed_later(error, status)
    return ModelError(
        f"{_what(error, status, provider)}{code}{tail}.",
        hint=_what_to_do(retryable, said, asked),
        status=status,
        retryable=retryable,
        retry_after=asked,
        outage=retryable or (status or 0) >= 500,
    )


def _is_overflow(error: ai.ModelAPIError, status: int | None, said: str) -> bool:
    if isinstance(error, ai.ModelContextWindowExceededError) or status == 413:
        return True
    return (status is None or 400 <= status < 500 or error.in_stream) and bool(_OVERFLOW.search(said))


def _may_succeed_later(error: ai.ModelAPIError, status: int | None) -> bool:
    if isinstance(error, ai.ModelHTTPError) and error.provider_retry_hint is False:
        return False
    if status is not None:
        return status == 429 or status >= 500
    return isinstance(error, (ai.ModelRateLimitError, ai.ModelUnavailableError, ai.ModelServerError))


def _what(error: ai.ModelAPIError, status: int | None, provider: Provider) -> str:
    if status == 429 or isinstance(error, ai.ModelRateLimitError):
        return f"{provider.label} asks to call less often"
    if isinstance(error, ai.ModelUnavailableError):
        return f"{provider.label} is overloaded"
    if isinstance(error, ai.ModelServerError) or (status is not None and status >= 500):
        return f"{provider.label} failed"
    return f"{provider.label} refused the request"


def _what_to_do(retryable: bool, said: str, asked: float | None) -> str:
    if _NO_TOOLS.search(said):
        return "Set `tools` to false for this provider in your settings, or choose another model."
    if asked:
        return f"Try again in {max(1, round(asked))} s, or choose another model."
    return "Try again later, or choose another model." if retryable else "Choose another model."


def _connection_fault(error: ai.ModelConnectionError, provider: Provider, detail: str) -> ModelError:
    timed_out = isinstance(error, ai.ModelTimeoutError)
    if timed_out and error.phase in ("read", "write", None):
        message = f"{provider.label} sent nothing for too long, so the call was ended."
        return ModelError(message, hint="Say it again to ask once more.", outage=True)
    if error.phase in ("connect", "pool"):
        refused = _was_refused(error)
        what = "refused the connection" if refused else "cannot be reached"
        hint = "Start it, or check its address." if provider.loopback else "Check the network and the address."
        message = f"{provider.label} at {provider.base_url} {what}."
        # Nothing that is not running on this machine starts by being called again; nor is anybody spared by not calling
        # it, and once it was started it is to be called at once.
        return ModelError(message, hint=hint, retryable=not (provider.loopback and not timed_out))
    tail = f": {detail}" if detail else ""
    message = f"The connection to {provider.label} broke off{tail}."
    return ModelError(message, hint="Say it again to ask once more.", retryable=True)


def _was_refused(error: BaseException) -> bool:
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return False
        if isinstance(seen, OSError) and seen.errno == errno.ECONNREFUSED:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _asked(error: ai.ModelAPIError, now_ms: int) -> float | None:
    headers = error.headers if isinstance(error, ai.ModelHTTPError) else None
    from_headers = parse_retry_after(headers, now_ms) if headers else None
    if from_headers is not None or (headers and "retry-after" in headers):
        return from_headers
    return error.retry_after


def _said(error: ai.ModelAPIError) -> str:
    """What the provider said itself: the message in its error's body, the body, or the library's words."""
    body = error.body
    for _ in range(3):
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict):
            inner = body.get("error", body.get("message", body.get("detail")))
            body = inner if inner is not None else body
    if isinstance(body, str):
        return body
    return str(body) if body is not None else ("" if isinstance(error, ai.ModelHTTPError) else error.message)


def _shown(text: str, provider: Provider) -> str:
    """Make a provider's words fit to be shown."""
    if "<html" in text[:500].lower() or "<!doctype" in text[:500].lower():
        return "a web page, not an answer"
    if provider.key:
        text = text.replace(provider.key, "[key]")
    text = _SECRET.sub("[key]", text)
    text = _UNSHOWABLE.sub(" ", text).strip()
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rstrip() + " …"
    return text.rstrip(".")
