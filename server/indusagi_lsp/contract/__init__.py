"""The values that every layer shares: turns, events, errors, ids, time, and the seams between the layers.

Invariant: this package imports nothing else of ours, and nothing heavy. A layer that needs another layer's work takes
it through a protocol that is defined here.
"""
