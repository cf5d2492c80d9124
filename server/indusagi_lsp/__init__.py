"""Indusagi language server: an agent that lives beside your editor."""

__version__ = "0.1.0"
