"""Importers: sessions of other tools become sessions of ours, again and again, and marked as foreign."""
