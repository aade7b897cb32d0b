"""Signed notes: published ones are read and verified, and whatever is not exactly one is refused."""

import pytest
from hypothesis import given, settings, strategies as st

from epsilog.signing import Note, VerifierKey, find_note, verify_signatures
from epsilog.signing.notes import Signature
from epsilog.terms import CheckError

# C2SP signed-note (c2sp.org/signed-note), "Verifier keys": its example of a key and a note that it verifies
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
# C2SP signed-note, introduction: a text with an empty line within it
POEM = """Ognuno sta solo sul cuor della terra
trafitto da un raggio di sole:

ed è subito sera.

— quasimodo.example/salvatore \
NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=
"""


def by(note, *keys):
    return [(key.label, holds) for key, holds in verify_signatures(note, keys)]


@pytest.mark.parametrize("content", [NOTE, POEM])
def test_a_published_note_is_read_and_written_again(content):
    note = Note.parse(content)
    assert str(note) == content
    assert len(note.signatures) == 1
    assert find_note(f"> > As agreed:\n> {note.in_one_line()} - yours\n") == note
    assert find_note("\n> ".join(note.in_one_line().split())) == note  # wrapped, and quoted
    assert note.in_one_line().isascii()


def test_a_published_key_verifies_its_note_and_no_other():
    pytest.importorskip("cryptography")
    key, note = VerifierKey.parse(KEY), Note.parse(NOTE)
    assert by(note, key) == [("example.com/foo+530d903a", True)]
    assert by(Note(note.text.replace("an", "no"), note.signatures), key) == [("example.com/foo+530d903a", False)]
    assert by(Note.parse(POEM), key) == []


def test_a_signature_counts_under_its_name_and_id_alone(key, other):
    note = Note("text\n").signed_by(key)
    assert by(note, key.verifier) == [(key.verifier.label, True)]
    assert by(note, other.verifier) == []  # the same name, another id
    (made,) = note.signatures
    stolen = Signature("example.org/elsewhere", made.key_id, made.content)
    assert by(Note("text\n", (stolen,)), key.verifier) == []
    twice = note.signed_by(other)
    assert by(twice, key.verifier, other.verifier) == [(key.verifier.label, True), (other.verifier.label, True)]
    assert by(Note("other\n", twice.signatures), key.verifier, other.verifier) == [
        (key.verifier.label, False),
        (other.verifier.label, False),
    ]


@pytest.mark.slow
def test_every_flipped_bit_of_a_signed_note_is_seen(key):
    content = str(Note("example.org/a\n3\nabc=\n").signed_by(key)).encode()
    for place in range(len(content)):
        for bit in range(8):
            changed = content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
            try:
                found = by(Note.parse(changed.decode()), key.verifier)
            except (CheckError, UnicodeDecodeError):
                continue
            assert (key.verifier.label, True) not in found, (place, bit)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "ended by a newline"),
        ("no end", "ended by a newline"),
        ("a\tb\n", "without control characters"),
        ("a\r\n", "without control characters"),
        ("a\x00\n", "without control characters"),
        (NOTE[:-1], "ended by a newline"),
        (NOTE + "\n— x\n", "base64"),
        (NOTE + "more\n", "em dash"),
        (NOTE.replace("QM=", "QN="), "one spelling"),  # the same bytes
        (NOTE.replace("QM=", "QM"), "one spelling"),
        (NOTE.replace("QM=", "Q M="), "one spelling"),
        ("text\n\n— a+b AAAAAAA=\n", "'\\+'"),
        ("text\n\n— a AAAA\n", "em dash"),
        ("text\n\n—  AAAAAAA=\n", "'\\+'|base64"),
        ("text\n\n" + "— a AAAAAAA=\n" * 101, "at most 100"),
        ("x" * (1 << 20) + "\n", "at most 1048576"),
        ("epsilog-note a -- b end", "NAME SIGNATURE"),
        ("epsilog-note a %ff end", "percent-encoded UTF-8"),
        ("epsilog-note a -- %ff AAAAAAA= end", "percent-encoded UTF-8"),
        ("epsilog-note a end epsilog-note b end", "only one"),
        ("epsilog-note a%0Ab%09 end", "control"),
    ],
)
def test_what_is_no_note_is_refused(content, why):
    with pytest.raises(CheckError, match=why):
        find_note(content)


def test_a_text_may_speak_of_notes_before_it_tells_one():
    note = Note("a > b\n")
    assert find_note(f"The epsilog-note of Monday, to its end:\n>>{note.in_one_line()}") == note
    assert find_note(f"The epsilog-note: {note.in_one_line()}, {note.in_one_line()} end") == note


def test_a_long_text_is_read_in_one_pass():
    with pytest.raises(CheckError, match="ended by a newline"):
        find_note("epsilog-note " * 80_000)  # trying each beginning against the whole rest takes hours


LINES = st.lists(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=8), max_size=4)


@settings(max_examples=25)
@given(st.lists(st.sampled_from([".", "--", "end", "epsilog-note", "a b", "%41", ""]), min_size=1, max_size=4) | LINES)
def test_every_text_can_be_told_in_one_line(lines):
    note = Note("".join(f"{line}\n" for line in lines) or "\n", (Signature("é", b"name", b"signature"),))
    line = note.in_one_line()
    assert (line.isascii(), line.count("\n")) == (True, 0)
    assert find_note(f"before {line}\nafter") == note
    assert Note.parse(str(note)) == note


@given(
    st.text(st.sampled_from("ab+. \t\u00a0\u2003\n\x1f"), max_size=4),
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=1),
)
def test_a_signature_that_can_be_made_is_read_again(name, key_id, content):
    """A name with a space would end in the middle of its line."""
    if not name or "+" in name or len(name.split()) != 1 or name.split()[0] != name:
        with pytest.raises(CheckError, match=r"without spaces or '\+'"):
            Signature(name, key_id, content)
    else:
        made = Signature(name, key_id, content)
        assert Signature.parse(str(made)) == made


def test_without_a_signature_a_note_is_its_text():
    assert str(Note("a\n\nb\n")) == "a\n\nb\n"
    assert Note.parse("a\n\nb\n") == Note("a\n\nb\n")
