"""The command line. A command imports its machinery only when it runs: help and listings need no torch."""

from statsnet.cli.app import main

__all__ = ["main"]
