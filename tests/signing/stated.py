"""Envelopes whose statement says something else than ours does."""

from epsilog.signing import Envelope
from epsilog.signing.envelopes import _encode_payload
from epsilog.terms import codec


def envelope_of(content, key, **said):
    """A file's envelope, signed, with other fields in its statement; None leaves one out."""
    statement = codec.parse_json(Envelope.over("report.json", content, key).payload) | said
    payload = codec.encode_canonical({name: value for name, value in statement.items() if value is not None})
    return Envelope(payload, ((key.verifier.label, key.sign(_encode_payload(payload))),))
