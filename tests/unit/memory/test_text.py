"""How texts are cut into words."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indusagi_lsp.memory.lexical import LexicalIndex, Question, rank
from indusagi_lsp.memory.stemmer import stem
from indusagi_lsp.memory.text import index_terms, query_words


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pair.split(":")
        for pair in [
            "caresses:caress",
            "ponies:poni",
            "ties:ti",
            "cats:cat",
            "feed:feed",
            "agreed:agre",
            "plastered:plaster",
            "bled:bled",
            "motoring:motor",
            "sing:sing",
            "conflated:conflat",
            "troubled:troubl",
            "sized:size",
            "hopping:hop",
            "tanned:tan",
            "falling:fall",
            "hissing:hiss",
            "fizzed:fizz",
            "failing:fail",
            "filing:file",
            "happy:happi",
            "sky:sky",
            "relational:relat",
            "conditional:condit",
            "rational:ration",
            "valenci:valenc",
            "digitizer:digit",
            "conformabli:conform",
            "radicalli:radic",
            "differentli:differ",
            "vileli:vile",
            "analogousli:analog",
            "vietnamization:vietnam",
            "predication:predic",
            "operator:oper",
            "feudalism:feudal",
            "decisiveness:decis",
            "hopefulness:hope",
            "callousness:callous",
            "formaliti:formal",
            "sensitiviti:sensit",
            "sensibiliti:sensibl",
            "triplicate:triplic",
            "formative:form",
            "formalize:formal",
            "electriciti:electr",
            "electrical:electr",
            "hopeful:hope",
            "goodness:good",
            "revival:reviv",
            "allowance:allow",
            "inference:infer",
            "airliner:airlin",
            "gyroscopic:gyroscop",
            "adjustable:adjust",
            "defensible:defens",
            "irritant:irrit",
            "replacement:replac",
            "adjustment:adjust",
            "dependent:depend",
            "adoption:adopt",
            "homologou:homolog",
            "communism:commun",
            "activate:activ",
            "angulariti:angular",
            "homologous:homolog",
            "effective:effect",
            "bowdlerize:bowdler",
            "probate:probat",
            "rate:rate",
            "cease:ceas",
            "controll:control",
            "roll:roll",
            "is:is",
            "by:by",
            "y:y",
            "generalizations:gener",
            "oscillators:oscil",
        ]
    ],
)
def test_the_examples_of_porters_paper(word, expected):
    assert stem(word) == expected


def test_compound_identifiers_give_the_whole_and_the_pieces():
    terms = index_terms("getUserName http_request2 HTTPServer plain")
    assert terms.own == ("getusernam", "httprequest2", "httpserver", "plain")
    assert terms.split == ("get", "user", "name", "http", "request", "2", "http", "server")


def test_scripts_without_spaces_give_pairs():
    assert index_terms("数据库").own == ("数据", "据库")
    assert index_terms("数").own == ("数",)
    assert index_terms("用API吧").own == ("用", "api", "吧")
    assert query_words(index_terms("数据库")) == ("数据", "据库")


def test_forms_are_unified():
    assert index_terms("\uff21\uff30\uff29 café CAFE\u0301 \ufb01le").own == ("api", "cafe", "cafe", "file")
    assert index_terms("C++ and c# on .NET").own == ("cplusplu", "and", "csharp", "on", "dotnet")


def test_stop_words_are_left_out_of_questions_unless_there_is_nothing_else():
    assert query_words(index_terms("What is the port of the server?")) == ("port", "server")
    assert query_words(index_terms("to be or not to be")) == ("to", "be", "or", "not")


@given(st.text())
def test_words_are_safe_for_any_engine(text):
    terms = index_terms(text, text)
    for word in (*terms.own, *terms.near, *terms.split):
        assert word
        assert not re.search(r"[\x00-\x2f\x3a-\x60\x7b-\x7f]", word)
        assert not any(letter.isspace() for letter in word)
        word.encode("utf-8")


@given(st.text(min_size=1))
def test_a_text_finds_itself_with_score_one(text):
    index = LexicalIndex()
    index.put("other", index_terms("something else entirely"))
    index.put("it", index_terms(text))
    question = Question.of(index_terms(text))
    (scores,) = rank(question, [index])
    if question.words:
        assert scores["it"] == 1.0
        assert all(0 < score <= 1 for score in scores.values())


def test_an_index_after_changes_equals_a_fresh_one():
    rng = random.Random(3)
    words = [f"w{number}" for number in range(30)]
    index = LexicalIndex()
    texts: dict[str, str] = {}
    for _ in range(500):
        key = f"k{rng.randrange(20)}"
        if rng.random() < 0.3:
            index.remove(key)
            texts.pop(key, None)
        else:
            texts[key] = " ".join(rng.choices(words, k=5))
            index.put(key, index_terms(texts[key]))
    fresh = LexicalIndex()
    for key, text in texts.items():
        fresh.put(key, index_terms(text))
    question = Question.of(index_terms("w1 w2 w3 w4"))
    assert rank(question, [index]) == rank(question, [fresh])
    assert index.words == fresh.words
