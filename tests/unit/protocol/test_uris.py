from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.protocol.uris import normalise_uri, path_to_uri, uri_to_path

SPELLINGS = [
    [
        "file:///c:/Some%20folder",
        "file:///C:/Some folder",
        "file:///c%3A/Some%20folder/",
        "FILE://localhost/C%3a/Some folder",
    ],
    ["file:///tmp/%C3%A9", "file:///tmp/é", "file:///tmp/%c3%a9/"],
    ["file:///a/b%23c", "file:///a%2Fb%23c"],
    ["file:///", "file://localhost/", "file:////"],
    ["file:///home/user/a@b", "file:///home/user/a%40b"],
]


@pytest.mark.parametrize("group", SPELLINGS)
def test_all_spellings_are_one(group):
    assert len({normalise_uri(uri) for uri in group}) == 1


@given(st.text(min_size=1).filter(lambda text: "\0" not in text and "\ud800" not in text))
def test_a_path_comes_back(text):
    path = "/" + text.strip("/").encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    uri = path_to_uri(path)
    assert normalise_uri(uri) == uri
    assert uri.isascii()
    back = uri_to_path(uri)
    # Only the drive letter's case and slashes at the end are given up.
    assert back is not None
    assert back.rstrip("/").lower() == path.rstrip("/").lower()


@given(st.text())
def test_normalising_is_idempotent_and_never_raises(uri):
    once = normalise_uri("file:///" + uri)
    assert normalise_uri(once) == once
    normalise_uri(uri)


def test_other_schemes_are_left_alone():
    for uri in ("untitled:Untitled-1", "vscode-remote://ssh/x%20y", "git:/a", "", "nonsense"):
        assert normalise_uri(uri) == uri
        assert uri_to_path(uri) is None


@pytest.mark.parametrize("uri", ["file:///\ud800", "file:///a\udc80", "file://[bad", "file:///a%00b"])
def test_what_names_no_file_is_left_alone(uri):
    assert normalise_uri(uri) == uri
    assert uri_to_path(uri) is None
