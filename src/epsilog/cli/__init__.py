"""The command line ``epsilog``: a thin shell over the library. Parse, call, show; no formula lives here."""


def main() -> None:
    """Runs the command line; its parts are imported only now."""
    from epsilog.cli.entry import main as run

    run()


__all__ = ["main"]
