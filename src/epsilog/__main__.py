"""``python -m epsilog`` is the command line."""

from epsilog.cli import main

main()
