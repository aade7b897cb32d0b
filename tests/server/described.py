"""The API's own description, worked out once."""

from functools import cache

from epsilog.server import create_app


@cache
def description():
    return create_app().openapi()
