"""The command line ``epsilog``: it parses, calls the library and prints; it computes nothing."""


def main() -> None:
    """Run the command line; its parts are imported only now."""
    from epsilog.cli.app import main as run

    run()


__all__ = ["main"]
